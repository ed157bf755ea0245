package request

// header is a Header of canned values.
type header map[string][]string

func (h header) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (h header) Values(name string) []string { return h[name] }
