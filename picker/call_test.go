package picker

import "testing"

func TestPrefixMatch(t *testing.T) {
	b := mustNew(t, newConfig("cache_aware", 3), nil)
	warm(b, 1, "abcdef")
	c := Call{Request: &Request{Text: []byte("abcxyz")}, Eligible: all(3)}
	if _, ok := c.PrefixMatch(1); ok {
		t.Error("a match before anything was prepared")
	}
	i := b.Pick(&c)
	b.Observe(i, &c)
	for i, want := range []int{0, 3, 0} {
		if got, ok := c.PrefixMatch(i); got != want || !ok {
			t.Errorf("target %d: %d, %v: want %d, as known before the request itself", i, got, ok, want)
		}
	}
	for _, i := range []int{-1, 3} {
		if _, ok := c.PrefixMatch(i); ok {
			t.Errorf("a match of target %d", i)
		}
	}
	rr := mustNew(t, newConfig("round_robin", 3), nil)
	rr.Prepare(&c)
	if _, ok := c.PrefixMatch(1); ok {
		t.Error("a match of a strategy that remembers no texts")
	}
}

// A call that serves several requests and balancers never answers with what it
// prepared for another.
func TestCallReuse(t *testing.T) {
	one, two := mustNew(t, newConfig("cache_aware", 3), nil), mustNew(t, newConfig("cache_aware", 5), nil)
	warm(one, 2, "first text")
	warm(two, 4, "first text")
	c := Call{Request: &Request{Text: []byte("first text")}, Eligible: all(5)}
	for range 2 {
		if got := one.Pick(&c); got != 2 {
			t.Errorf("first balancer: %d", got)
		}
		if got := two.Pick(&c); got != 4 {
			t.Errorf("second balancer: %d", got)
		}
	}
	c.Attempt = 2
	c.Reset()
	if c.Request != nil || c.Attempt != 0 || c.Eligible != nil || c.Why != WhyNone {
		t.Errorf("something is left: %+v", c)
	}
	c.Request, c.Eligible = &Request{Text: []byte("other text")}, all(5)
	if got := two.Pick(&c); got != 0 {
		t.Errorf("after Reset: %d", got)
	}
	if got, ok := c.PrefixMatch(4); got != 0 || !ok {
		t.Errorf("after Reset: match %d, %v", got, ok)
	}
	c.Request = &Request{Text: []byte("first text")}
	two.Prepare(&c)
	if got := two.Pick(&c); got != 4 {
		t.Errorf("prepared again: %d", got)
	}
}

func TestSetFollowing(t *testing.T) {
	for _, test := range []struct {
		set     Set
		from, n int
		want    int
	}{
		{nil, 0, 3, -1},
		{all(3), 3, 3, 0},
		{all(3, 1), 1, 3, 2},
		{only(130, 129), 0, 130, 129},
		{only(130, 129), 0, 129, -1},
		{only(130, 64), 129, 130, 64},
		{only(130, 100), 50, 70, -1},
	} {
		if got := test.set.following(test.from, test.n); got != test.want {
			t.Errorf("%v from %d of %d: %d, want %d", test.set, test.from, test.n, got, test.want)
		}
	}
}

func TestSetWithin(t *testing.T) {
	s := all(130)
	for _, test := range []struct {
		w, n int
		want uint64
	}{{0, 0, 0}, {0, 1, 1}, {0, 63, 1<<63 - 1}, {0, 64, 1<<64 - 1}, {1, 64, 0}, {1, 66, 3}, {2, 130, 3}, {2, 60, 0}} {
		if got := s.within(test.w, test.n); got != test.want {
			t.Errorf("word %d of %d: %x, want %x", test.w, test.n, got, test.want)
		}
	}
}
