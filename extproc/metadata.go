package extproc

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pointsman/pointsman/internal/wire"
)

// Field numbers of the messages that dynamic metadata is made of.
const (
	fieldDynamicMetadata = 8 // of ProcessingResponse, a Struct

	fieldFields = 1 // of Struct, a map
	fieldKey    = 1 // of an entry of a map
	fieldValue  = 2

	fieldStruct = 5 // of Value
	fieldList   = 6
)

// appendMetadata appends the dynamic metadata of a decision to dst, in wire form, as a
// field of the ProcessingResponse:
//
//	{"pointsman.decision": {"priority_groups": [groups...], "model": model}}
//
// The groups and the model were encoded in advance. Encoding the maps of a Struct anew for
// every request would cost more than all the rest of the reply.
func appendMetadata(dst []byte, groups [][]byte, model []byte) []byte {
	list := 0
	for _, g := range groups {
		list += len(g)
	}
	listValue := sizeBytes(fieldList, list)
	decision := sizeField(wire.KeyPriorityGroups, listValue) + len(model)
	decisionValue := sizeBytes(fieldStruct, decision)
	metadata := sizeField(wire.DecisionNamespace, decisionValue)

	dst = appendHead(dst, fieldDynamicMetadata, metadata)
	dst = appendFieldHead(dst, wire.DecisionNamespace, decisionValue)
	dst = appendHead(dst, fieldStruct, decision)
	dst = appendFieldHead(dst, wire.KeyPriorityGroups, listValue)
	dst = appendHead(dst, fieldList, list)
	for _, g := range groups {
		dst = append(dst, g...)
	}
	return append(dst, model...)
}

// appendField appends a field of a Struct whose Value is already encoded.
func appendField(dst []byte, key string, value []byte) []byte {
	return append(appendFieldHead(dst, key, len(value)), value...)
}

// appendFieldHead appends a field of a Struct up to its Value, of which only the
// size is given.
func appendFieldHead(dst []byte, key string, value int) []byte {
	dst = appendHead(dst, fieldFields, sizeBytes(fieldKey, len(key))+sizeBytes(fieldValue, value))
	dst = append(appendHead(dst, fieldKey, len(key)), key...)
	return appendHead(dst, fieldValue, value)
}

// sizeField is the size of a field of a Struct with a Value of this size.
func sizeField(key string, value int) int {
	return sizeBytes(fieldFields, sizeBytes(fieldKey, len(key))+sizeBytes(fieldValue, value))
}

// appendHead appends tag and length of n bytes.
func appendHead(dst []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(n))
}

// sizeBytes is the size of n bytes with tag and length.
func sizeBytes(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}
