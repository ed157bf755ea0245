package request

import (
	"bytes"
	"encoding/hex"
	"strings"

	"github.com/zeebo/xxh3"
)

// maxSession is the longest session key that is kept as it is, in bytes.
const maxSession = 256

// sessionFields are the body fields that may hold a session key.
func sessionField(name string) key {
	switch name {
	case "user":
		return keyUser
	case "prompt_cache_key":
		return keyPromptCacheKey
	case "previous_response_id":
		return keyPreviousResponseID
	case "session_id":
		return keySessionID
	case "metadata.user_id":
		return keyMetadata
	}
	return none
}

// SessionBodyFields are the names that Options.SessionBodyFields may hold.
func SessionBodyFields() []string {
	return []string{"user", "prompt_cache_key", "previous_response_id", "session_id", "metadata.user_id"}
}

// headerSession is the session key of the headers, or "". It may be longer than maxSession.
func headerSession(h Header, names []string) string {
	for _, name := range names {
		s := strings.TrimSpace(h.Get(name))
		if s != "" {
			return s
		}
	}
	return ""
}

// bodySession is the session key of the body, if it has one: a piece of the body, or scratch
// memory that the next call overwrites.
func (w *work) bodySession(fields []key) []byte {
	for _, k := range fields {
		i := w.body[k]
		if k == keyMetadata && i > 0 {
			m := w.members(i)
			i = m.get(keyUserID)
		}
		if !w.is(i, '"') {
			continue
		}
		s := bytes.TrimSpace(w.decoded(i))
		if len(s) > maxSession {
			h := xxh3.Hash(s)
			w.scratch = appendHex(w.scratch[:0], h)
			return w.scratch
		}
		if len(s) > 0 {
			return s
		}
	}
	return nil
}

// decoded is the decoded form of the string at i: a piece of the body, or scratch
// that is valid until the next call.
func (w *work) decoded(i int) []byte {
	v := w.tape.nodes[i]
	raw := w.tape.b[v.start+1 : v.end-1]
	if same, _ := plain(raw, v.flags); same {
		return raw
	}
	w.scratch = appendDecoded(w.scratch[:0], raw, v.flags)
	return w.scratch
}

// keep gives b as a string, and was if that is the same: the next request of a
// reused Request often has the model of the one before.
func keep(was string, b []byte) string {
	if was == string(b) {
		return was
	}
	return string(b)
}

// appendHex appends a hash in 16 hexadecimal digits.
func appendHex(dst []byte, h uint64) []byte {
	var b [8]byte
	for i := range b {
		b[i] = byte(h >> (56 - 8*i))
	}
	return hex.AppendEncode(dst, b[:])
}
