package extproc

import (
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/wire"
)

// Field numbers of the messages that dynamic metadata is made of.
const (
	fieldDynamicMetadata = 8 // of ProcessingResponse, a Struct

	fieldFields = 1 // of Struct, a map
	fieldKey    = 1 // of an entry of a map
	fieldValue  = 2

	fieldNumber = 2 // of Value
	fieldString = 3
	fieldBool   = 4
	fieldStruct = 5
	fieldList   = 6

	fieldValues = 1 // of ListValue
)

// appendMetadata appends the dynamic metadata of a decision to dst, in wire form, as a
// field of the ProcessingResponse:
//
//	{"pointsman.decision": {"priority_groups": [groups...], fields...}}
//
// The groups were encoded in advance, the fields by the functions below. Encoding the maps of a Struct anew for
// every request would cost more than all the rest of the reply.
func appendMetadata(dst []byte, groups [][]byte, fields []byte) []byte {
	list := 0
	for _, g := range groups {
		list += len(g)
	}
	listValue := sizeBytes(fieldList, list)
	decision := sizeField(wire.KeyPriorityGroups, listValue) + len(fields)
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
	return append(dst, fields...)
}

// appendText appends a text field of a Struct. Envoy takes a message apart only if all text
// in it is UTF-8.
func appendText[T string | []byte](dst []byte, key string, text T) []byte {
	if !validText(text) {
		return appendText(dst, key, strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	dst = appendFieldHead(dst, key, sizeBytes(fieldString, len(text)))
	return append(appendHead(dst, fieldString, len(text)), text...)
}

func validText[T string | []byte](text T) bool {
	switch v := any(text).(type) {
	case string:
		return utf8.ValidString(v)
	case []byte:
		return utf8.Valid(v)
	}
	return false
}

// appendTrue appends a field of a Struct that is true.
func appendTrue(dst []byte, key string) []byte {
	dst = appendFieldHead(dst, key, protowire.SizeTag(fieldBool)+protowire.SizeVarint(1))
	return protowire.AppendVarint(protowire.AppendTag(dst, fieldBool, protowire.VarintType), 1)
}

// appendSpans appends [[offset, length], ...].
func appendSpans(dst []byte, spans []request.Span) []byte {
	const (
		number = 1 + (1 + 8)              // a Value, with its tag: a double
		pair   = 2 * (1 + 1 + number - 1) // elements of a ListValue
		value  = (1 + 1) + pair           // a Value: a list
		elem   = (1 + 1) + value          // of the outer ListValue
	)
	list := elem * len(spans)
	dst = appendFieldHead(dst, wire.KeySpans, sizeBytes(fieldList, list))
	dst = appendHead(dst, fieldList, list)
	for _, s := range spans {
		dst = appendHead(dst, fieldValues, value)
		dst = appendHead(dst, fieldList, pair)
		for _, n := range [2]int{s.Offset, s.Length} {
			dst = appendHead(dst, fieldValues, number-1)
			dst = protowire.AppendFixed64(protowire.AppendTag(dst, fieldNumber, protowire.Fixed64Type), math.Float64bits(float64(n)))
		}
	}
	return dst
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
