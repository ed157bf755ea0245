package enginesim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"

	"github.com/zeebo/xxh3"
)

// readForm parses a form: its fields, and instead of each file the hash of it.
func readForm(body []byte, boundary string) (*call, error) {
	c := new(call)
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) && n > 0 {
			return c, nil
		}
		if err != nil {
			return nil, fmt.Errorf("form: %w", err)
		}
		value, err := io.ReadAll(part) // of a body that is in memory
		if err != nil {
			return nil, fmt.Errorf("form: %w", err)
		}
		switch name := part.FormName(); {
		case part.FileName() != "":
			c.form = fmt.Appendf(c.form, "%s %016x\n", name, xxh3.Hash(value))
		case name == "model":
			c.Model = string(value)
		case name == "stream":
			c.Stream = string(value) == "true"
		case name == "prompt":
			c.form = append(c.form, value...)
		}
	}
}

// formBoundary is the boundary of a form, "" for everything else.
func formBoundary(contentType string) string {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" {
		return ""
	}
	return params["boundary"]
}
