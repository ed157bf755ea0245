package request

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
)

// encoding is a Content-Encoding that can be undone.
type encoding uint8

const (
	identity encoding = iota
	gzipped
	deflated
	unsupported
)

// encodingOf reads all Content-Encoding headers. Several encodings, one over the
// other, are not supported.
func encodingOf(h Header) encoding {
	if h.Get("content-encoding") == "" {
		return identity
	}
	found := identity
	for _, value := range h.Values("content-encoding") {
		for name := range strings.SplitSeq(value, ",") {
			name = strings.TrimSpace(name)
			e := unsupported
			switch {
			case name == "" || strings.EqualFold(name, "identity"):
				continue
			case strings.EqualFold(name, "gzip") || strings.EqualFold(name, "x-gzip"):
				e = gzipped
			case strings.EqualFold(name, "deflate"):
				e = deflated
			}
			if found != identity {
				return unsupported
			}
			found = e
		}
	}
	return found
}

// inflater holds the decompressors, which are large, for the next body.
type inflater struct {
	src   bytes.Reader
	gzip  *gzip.Reader
	zlib  io.ReadCloser
	flate io.ReadCloser
}

// decode appends to dst (empty) the body without its encoding.
func (d *inflater) decode(dst, body []byte, e encoding, limit int64) ([]byte, error) {
	d.src.Reset(body)
	defer d.src.Reset(nil)
	r, err := d.open(body, e)
	if err != nil {
		return dst, InvalidEncoding
	}
	if cap(dst) == 0 {
		dst = make([]byte, 0, min(4*int64(len(body))+512, limit+1))
	}
	for {
		if len(dst) == cap(dst) {
			grown := make([]byte, len(dst), min(2*int64(cap(dst)), limit+1))
			copy(grown, dst)
			dst = grown
		}
		n, err := r.Read(dst[len(dst):min(int64(cap(dst)), limit+1)])
		dst = dst[:len(dst)+n]
		switch {
		case int64(len(dst)) > limit:
			return dst, BodyTooLarge
		case err == io.EOF && d.src.Len() > 0: // something follows the compressed data
			return dst, InvalidEncoding
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, InvalidEncoding
		}
	}
}

// open gives the decompressor of src, which holds the body.
func (d *inflater) open(body []byte, e encoding) (io.Reader, error) {
	if e == gzipped {
		if d.gzip == nil {
			r, err := gzip.NewReader(&d.src)
			if err != nil {
				return nil, err
			}
			d.gzip = r
			return r, nil
		}
		return d.gzip, d.gzip.Reset(&d.src)
	}
	// By the standard deflate is zlib's format; some clients send the bare data. A
	// zlib header cannot be taken for bare data: its first block would be of the
	// stored kind, with padding that is not 0.
	if len(body) >= 2 && body[0]&0x0F == 8 && (uint(body[0])<<8|uint(body[1]))%31 == 0 {
		if d.zlib == nil {
			r, err := zlib.NewReader(&d.src)
			if err != nil {
				return nil, err
			}
			d.zlib = r
			return r, nil
		}
		return d.zlib, d.zlib.(zlib.Resetter).Reset(&d.src, nil)
	}
	if d.flate == nil {
		d.flate = flate.NewReader(&d.src)
		return d.flate, nil
	}
	return d.flate, d.flate.(flate.Resetter).Reset(&d.src, nil)
}
