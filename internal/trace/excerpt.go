package trace

import (
	"bytes"
	_ "embed" // for the excerpt
	"fmt"
)

// excerpt is described in testdata/README.md.
//
//go:embed testdata/mooncake_conversation_excerpt.jsonl.gz
var excerpt []byte

// Excerpt is the part of the Mooncake conversation trace that the demo replays:
// 392 conversations of an hour.
func Excerpt() ([]Row, error) {
	var rows []Row
	for row, err := range Rows(bytes.NewReader(excerpt)) {
		if err != nil {
			return nil, fmt.Errorf("embedded excerpt: %w", err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
