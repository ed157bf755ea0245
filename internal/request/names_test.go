package request

import (
	"strings"
	"testing"
	"unsafe"
)

// Short strings of one request share memory; long ones do not, or a session that is
// remembered would keep a salt of any length.
func TestNamesShareMemory(t *testing.T) {
	opts := DefaultOptions()
	opts.SessionBodyFields = []string{"user"}
	for _, size := range []int{10, maxShared} {
		salt := strings.Repeat("s", size)
		q := &Request{}
		for _, session := range []string{"first", "second", "second"} {
			body := `{"model":"mod\u0065l","cache_salt":"` + salt + `","user":" ` + session + ` "}`
			if err := NewReader(opts).Read(chatPath, header{}, []byte(body), q); err != nil {
				t.Fatal(err)
			}
			if q.Model != "model" || q.CacheSalt != salt || q.Session != session {
				t.Errorf("model %q, salt %.20q, session %q", q.Model, q.CacheSalt, q.Session)
			}
		}
		fresh := &Request{}
		if err := NewReader(opts).Read(chatPath, header{}, []byte(`{"model":"model","cache_salt":"`+salt+`","user":"user"}`), fresh); err != nil {
			t.Fatal(err)
		}
		end := uintptr(unsafe.Pointer(unsafe.StringData(fresh.CacheSalt))) + uintptr(size)
		shared := uintptr(unsafe.Pointer(unsafe.StringData(fresh.Session))) == end
		if want := size < maxShared; shared != want {
			t.Errorf("salt of %d bytes: shared with the session %t, want %t", size, shared, want)
		}
	}
}
