package app

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // registers the codec that this one stands before
	"google.golang.org/grpc/mem"
	protov2 "google.golang.org/protobuf/proto"
)

// largestBuffer is the largest pooled message buffer, in bytes; larger messages are
// rare enough to be allocated.
const largestBuffer = 4 << 20

// codec is gRPC's own but for the buffers into which a message that came in pieces is
// put together. gRPC has one size for all that is above 32 KiB, 1 MiB, and clears
// that much for each message of 33 KiB: a fifth of the CPU of a decision.
type codec struct {
	encoding.CodecV2
	buffers mem.BufferPool
}

func newCodec() codec {
	sizes := []int{256, 4 << 10, 16 << 10}
	for size := 32 << 10; size <= largestBuffer; size *= 2 {
		sizes = append(sizes, size)
	}
	return codec{encoding.GetCodecV2(proto.Name), mem.NewTieredBufferPool(sizes...)}
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(protov2.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", v)
	}
	buf := data.MaterializeToBuffer(c.buffers)
	defer buf.Free()
	return protov2.Unmarshal(buf.ReadOnlyData(), m)
}
