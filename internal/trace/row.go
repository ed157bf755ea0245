package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// BlockTokens is the length of a block of the trace.
const BlockTokens = 512

// maxLine bounds a line. The longest of the published traces has a tenth of it.
const maxLine = 1 << 20

// Row is one request of a trace.
type Row struct {
	Timestamp    int64    `json:"timestamp"` // of arrival, milliseconds from the start of the trace
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

// At is the time of arrival from the start of the trace.
func (r Row) At() time.Duration { return time.Duration(r.Timestamp) * time.Millisecond }

// Attribution says where rows come from. It is the first line of a file that
// Write made.
type Attribution struct {
	Source  string `json:"source"`
	Commit  string `json:"commit"`
	License string `json:"license"`
	Changes string `json:"changes"`
}

// line is a row or the attribution.
type line struct {
	Attribution *Attribution `json:"attribution,omitempty"`
	Row
}

// Rows reads a trace, plain or gzip-compressed. Rows come in order of time; one that
// does not, or that makes no sense, is an error that names the line and ends the sequence.
func Rows(src io.Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		plain, err := decompress(src)
		if err != nil {
			yield(Row{}, err)
			return
		}
		lines := bufio.NewScanner(plain)
		lines.Buffer(nil, maxLine)
		number, before := 0, int64(0)
		for lines.Scan() {
			number++
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			var l line
			err := json.Unmarshal(lines.Bytes(), &l)
			if err == nil && l.Attribution != nil {
				continue
			}
			if err == nil {
				err = l.check(before)
			}
			if err != nil {
				yield(Row{}, fmt.Errorf("line %d: %w", number, err))
				return
			}
			before = l.Timestamp
			if !yield(l.Row, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Row{}, fmt.Errorf("after line %d: %w", number, err))
		}
	}
}

// check refuses a row that cannot be replayed.
func (r Row) check(before int64) error {
	switch {
	case r.Timestamp < before:
		return fmt.Errorf("timestamp %d after %d", r.Timestamp, before)
	case r.InputLength < 1 || r.OutputLength < 1:
		return errors.New("a length below 1")
	case len(r.HashIDs) != (r.InputLength+BlockTokens-1)/BlockTokens:
		return fmt.Errorf("%d blocks for %d tokens", len(r.HashIDs), r.InputLength)
	}
	for _, id := range r.HashIDs {
		if id >= 1<<loopShift {
			return fmt.Errorf("block id %d is too large", id)
		}
	}
	return nil
}

// decompress gives the plain text of src.
func decompress(src io.Reader) (io.Reader, error) {
	buf := bufio.NewReader(src)
	magic, err := buf.Peek(2)
	if err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		return gzip.NewReader(buf)
	}
	return buf, nil // too short for gzip is for the reader to judge
}

// Write writes an excerpt as gzip-compressed JSON lines, the attribution first. Equal
// input gives equal bytes.
func Write(dst io.Writer, from Attribution, rows []Row) error {
	zw, err := gzip.NewWriterLevel(dst, gzip.BestCompression)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(zw)
	if err := enc.Encode(struct {
		Attribution Attribution `json:"attribution"`
	}{from}); err != nil {
		return err
	}
	for _, row := range rows {
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	return zw.Close()
}
