package picker

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// remembered is a history under test, with what it says of itself.
type remembered struct {
	tb      testing.TB
	history *tree
	members []*member
	scratch scratch
	gen     uint64
}

func newRemembered(tb testing.TB, members int, bound int64) *remembered {
	r := &remembered{tb: tb, history: newTree()}
	for range members {
		r.members = append(r.members, newMember(""))
	}
	r.retain(bound)
	return r
}

// retain keeps the members as they are listed now.
func (r *remembered) retain(bound int64) {
	r.gen++
	r.history.retain(r.gen, r.members, bound)
}

func (r *remembered) observe(i int, text string) {
	r.tb.Helper()
	r.history.observe(r.members[i], []byte(text))
	checkTree(r.tb, r.history)
}

func (r *remembered) match(text string) []int {
	r.scratch.matched = make([]int, len(r.members))
	r.history.match([]byte(text), r.members, &r.scratch)
	return r.scratch.matched
}

func TestHistory(t *testing.T) {
	type matches map[string]int
	for _, test := range []struct {
		name      string
		bound     int64
		texts     []string
		size      int64
		forgotten uint64
		matches   matches
	}{
		{
			"case 50", 0, []string{"system: be kind\nuser: one", "system: be kind\nuser: two"}, 28, 0,
			matches{"system: be kind\nuser: three": 23, "unrelated": 0, "system: be": 10, "system: be kind\nuser: one and more": 25},
		},
		{"case 51", 0, []string{"abc", "abd"}, 4, 0, matches{"abc": 3, "abd": 3, "abe": 2}},
		{"case 52", 0, []string{"abc", "abc"}, 3, 0, matches{"abc": 3}},
		{"case 53", 3, []string{"abc", "xyz"}, 3, 1, matches{"abc": 0, "xyz": 3}},
		{"case 54", 7, []string{"share-a", "share-b"}, 7, 1, matches{"share-a": 6, "share-b": 7}},
		{"case 55", 8, []string{"aaaa", "bbbb", "aaaa", "cccc"}, 8, 1, matches{"aaaa": 4, "bbbb": 0, "cccc": 4}},
		{"case 57", 8, []string{"123456789"}, 0, 0, matches{"123456789": 0}},
		{"case 57, others stay", 8, []string{"abcd", "123456789"}, 4, 0, matches{"abcd": 4, "123456789": 0}},
		{"exactly the bound", 8, []string{"abcd", "12345678"}, 8, 1, matches{"abcd": 0, "12345678": 8}},
		{"a text that is the beginning of another", 0, []string{"abcdef", "abc"}, 6, 0, matches{"abcd": 4}},
		{"and goes first", 7, []string{"abc", "abcdef", "xyz"}, 3, 2, matches{"abcdef": 0, "xyz": 3}},
		{"the longer one goes first", 6, []string{"abcdef", "abc", "xyz"}, 6, 1, matches{"abcdef": 3, "xyz": 3}},
		{"nothing", 8, nil, 0, 0, matches{"a": 0, "": 0}},
		{"any bytes", 0, []string{"\x00\xff\x00", "\x00\xff"}, 3, 0, matches{"\x00\xff\x00\x00": 3, "\x00\x00": 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRemembered(t, 1, test.bound)
			for _, text := range test.texts {
				r.observe(0, text)
				if size := r.members[0].size; test.bound > 0 && size > test.bound {
					t.Errorf("%d bytes held after %q", size, text)
				}
			}
			if m := r.members[0]; m.size != test.size || m.forgotten != test.forgotten {
				t.Errorf("%d bytes held, %d forgotten: want %d, %d", m.size, m.forgotten, test.size, test.forgotten)
			}
			for text, want := range test.matches {
				if got := r.match(text)[0]; got != want {
					t.Errorf("match of %q: %d, want %d", text, got, want)
				}
			}
		})
	}
}

// Case 56.
func TestHistoryMatchingRefreshesNothing(t *testing.T) {
	r := newRemembered(t, 1, 8)
	r.observe(0, "aaaa")
	r.observe(0, "bbbb")
	for range 10 {
		r.match("aaaa")
	}
	r.observe(0, "cccc")
	if got := []int{r.match("aaaa")[0], r.match("bbbb")[0]}; !slices.Equal(got, []int{0, 4}) {
		t.Errorf("matches %v", got)
	}
}

// Case 58.
func TestHistoryOneTextAMillionTimes(t *testing.T) {
	r := newRemembered(t, 1, 1000)
	text := []byte(strings.Repeat("again and ", 10))
	for range 1_000_000 {
		r.history.observe(r.members[0], text)
	}
	checkTree(t, r.history)
	if m := r.members[0]; m.size != 100 || m.texts != 1 || len(r.history.root.kids) != 1 || m.forgotten != 0 {
		t.Errorf("%d bytes of %d texts in %d branches, %d forgotten", m.size, m.texts, len(r.history.root.kids), m.forgotten)
	}
}

// Case 59.
func TestHistoryLongText(t *testing.T) {
	rng := rand.New(rand.NewPCG(59, 1))
	r := newRemembered(t, 2, 0)
	text := string(randomBytes(rng, 32<<10))
	r.observe(0, text)
	other := text[:30_001] + string(text[30_001]+1) + text[30_002:]
	if got := r.match(other); got[0] != 30_001 || got[1] != 0 {
		t.Errorf("match %v", got)
	}
}

// Members know their own texts only, whatever the tree shares between them.
func TestHistoryOfSeveralMembers(t *testing.T) {
	r := newRemembered(t, 3, 8)
	r.observe(0, "share-a")
	r.observe(1, "share-b")
	r.observe(2, "share")
	for text, want := range map[string][]int{"share-a": {7, 6, 5}, "share-b": {6, 7, 5}, "shame": {3, 3, 3}} {
		if got := r.match(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	r.observe(0, "12345678") // forgets share-a there
	if got := r.match("share-a"); !slices.Equal(got, []int{0, 6, 5}) {
		t.Errorf("after one forgot: %v", got)
	}
}

// Very many short texts are bounded too, although their bytes are few.
func TestHistoryBoundsTexts(t *testing.T) {
	r := newRemembered(t, 1, minTexts*8)
	for i := range minTexts + 1000 {
		r.history.observe(r.members[0], fmt.Appendf(nil, "%06x", i*2654435761%(1<<24)))
	}
	checkTree(t, r.history)
	if m := r.members[0]; m.texts != minTexts || m.forgotten != 1000 {
		t.Errorf("%d texts, %d forgotten, %d bytes", m.texts, m.forgotten, m.size)
	}
}

func TestHistoryRetain(t *testing.T) {
	r := newRemembered(t, 70, 1000) // sets of two words
	for i := range r.members {
		for k := range 3 * sweepTexts {
			r.history.observe(r.members[i], fmt.Appendf(nil, "common %d %d", i%3, k))
		}
	}
	before := r.match("common 0 1")[0]
	gone := r.members[69]
	r.members = slices.Delete(r.members, 69, 70)
	r.members = slices.Insert(r.members, 0, newMember("new"))
	r.retain(1000)
	if got := r.match("common 0 1"); got[0] != 0 || got[1] != before {
		t.Errorf("after the reload: %v", got)
	}
	r.history.observe(gone, []byte("from an attempt that is late"))
	if gone.texts == 0 {
		t.Fatal("everything forgotten at once: this test sees nothing")
	}
	r.history.retain(r.gen-1, []*member{gone}, 1) // a former balancer is used once more
	for range 10 {
		r.observe(0, "new")
	}
	if gone.texts != 0 || gone.size != 0 || r.history.numbered[gone.number] != nil && r.history.numbered[gone.number] != r.members[0] {
		t.Errorf("the member that left still has %d texts", gone.texts)
	}
	if got := r.match("common 0 1")[1]; got != before {
		t.Errorf("one that stayed: %d, before %d", got, before)
	}

	r.retain(10) // a lower bound holds from the next text on
	r.observe(1, "0123456789")
	if m := r.members[1]; m.size > 10 {
		t.Errorf("%d bytes under a bound of 10", m.size)
	}
}

// naive is what the specification says, word by word.
type naive struct {
	bound   int64
	members []naiveMember
}

type naiveMember struct {
	texts     []string // oldest first
	forgotten uint64
}

func (m *naiveMember) size() int64 {
	prefixes := map[string]bool{}
	for _, text := range m.texts {
		for n := range len(text) {
			prefixes[text[:n+1]] = true
		}
	}
	return int64(len(prefixes))
}

func (n *naive) observe(i int, text string) {
	m := &n.members[i]
	if n.bound > 0 && int64(len(text)) > n.bound {
		text = ""
	}
	if text != "" {
		m.texts = append(slices.DeleteFunc(m.texts, func(t string) bool { return t == text }), text)
	}
	for n.bound > 0 && m.size() > n.bound {
		m.texts = m.texts[1:]
		m.forgotten++
	}
}

func (n *naive) match(i int, text string) int {
	longest := 0
	for _, t := range n.members[i].texts {
		k := 0
		for k < min(len(t), len(text)) && t[k] == text[k] {
			k++
		}
		longest = max(longest, k)
	}
	return longest
}

// compareWithNaive runs a script of operations on both and compares all that can
// be seen. Two bytes are one operation.
func compareWithNaive(tb testing.TB, script []byte) {
	const members = 3
	bounds := []int64{0, 1, 7, 20, 60}
	bound := bounds[1]
	if len(script) > 0 {
		bound = bounds[int(script[0])%len(bounds)]
		script = script[1:]
	}
	r := newRemembered(tb, members, bound)
	n := &naive{bound: bound, members: make([]naiveMember, members)}
	var text []byte // texts grow out of each other, as conversations do
	for ; len(script) >= 2; script = script[2:] {
		op, arg := script[0], script[1]
		i := int(op>>4) % members
		switch op & 15 {
		case 0:
			text = text[:0]
		case 1, 2:
			text = text[:int(arg)%(len(text)+1)]
		case 3, 4, 5:
			text = append(text, bytes.Repeat([]byte{'a' + arg&1}, 1+int(arg>>1)%4)...)
		case 6:
			text = append(text, arg)
		case 7:
			if arg < 32 { // a reload: another target in its place, perhaps another bound
				bound = bounds[int(arg)%len(bounds)]
				n.bound, n.members[i] = bound, naiveMember{}
				r.members[i] = newMember("")
				r.retain(bound)
				continue
			}
			fallthrough
		default:
			if len(text) > 0 {
				r.history.observe(r.members[i], text)
				n.observe(i, string(text))
			}
		}
		matches := r.match(string(text))
		for i, m := range r.members {
			if want := n.match(i, string(text)); matches[i] != want {
				tb.Fatalf("member %d, match of %q: %d, want %d (it has %q)", i, text, matches[i], want, n.members[i].texts)
			}
			if size := n.members[i].size(); m.size != size || m.texts != len(n.members[i].texts) || m.forgotten != n.members[i].forgotten {
				tb.Fatalf("member %d: %d bytes, %d texts, %d forgotten; want %d, %d, %d", i, m.size, m.texts, m.forgotten,
					size, len(n.members[i].texts), n.members[i].forgotten)
			}
		}
		checkTree(tb, r.history)
	}
}

func TestHistoryAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 1))
	for range 300 {
		compareWithNaive(t, randomBytes(rng, 1+rng.IntN(600)))
	}
}

func FuzzHistory(f *testing.F) {
	rng := rand.New(rand.NewPCG(24, 2))
	for _, n := range []int{1, 20, 200} {
		f.Add(randomBytes(rng, n))
	}
	f.Fuzz(func(t *testing.T, script []byte) { compareWithNaive(t, script[:min(len(script), 2000)]) })
}

func TestCommonPrefix(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 1))
	for range 2000 {
		a := randomBytes(rng, rng.IntN(2000))
		b := append(slices.Clone(a), randomBytes(rng, rng.IntN(10))...)
		if len(b) == 0 {
			continue
		}
		at := rng.IntN(len(b))
		b[at]++
		if got, want := commonPrefix(a, b), min(at, len(a)); got != want {
			t.Fatalf("%d and %d bytes, different from %d on: %d", len(a), len(b), at, got)
		}
	}
	if got := commonPrefix(nil, []byte("a")); got != 0 {
		t.Errorf("nothing and something share %d", got)
	}
}

// checkTree holds a tree to what its comments say of it.
func checkTree(tb testing.TB, t *tree) {
	tb.Helper()
	sizes := make([]int64, len(t.numbered))
	texts := make([]int, len(t.numbered))
	var walk func(n *node, depth int)
	walk = func(n *node, depth int) {
		owners := NewSet(len(t.numbered))
		for e := n.ends; e != nil; e = e.next {
			if e.end != n || t.numbered[e.owner.number] != e.owner || owners.Has(e.owner.number) {
				tb.Fatalf("text at depth %d: %+v", depth, e)
			}
			owners.Add(e.owner.number)
			texts[e.owner.number]++
		}
		if len(n.keys) != len(n.kids) {
			tb.Fatalf("%d keys, %d kids", len(n.keys), len(n.kids))
		}
		for i, k := range n.kids {
			if len(k.label) == 0 || k.label[0] != n.keys[i] || k.parent != n || bytes.Count(n.keys, n.keys[i:i+1]) != 1 {
				tb.Fatalf("kid %q of %q is under %q", k.label, n.label, n.keys)
			}
			walk(k, depth+len(k.label))
			for w, word := range k.owners {
				owners[w] |= word
			}
		}
		if n == &t.root {
			return
		}
		if n.ends == nil && len(n.kids) < 2 {
			tb.Fatalf("%q at depth %d ends no text and has %d kids", n.label, depth, len(n.kids))
		}
		if slices.CompareFunc(trimmed(n.owners), trimmed(owners), cmp.Compare[uint64]) != 0 || owners.Len() == 0 {
			tb.Fatalf("%q at depth %d: owners %v, want %v", n.label, depth, n.owners, owners)
		}
		for i := owners.Next(0); i >= 0; i = owners.Next(i + 1) {
			sizes[i] += int64(len(n.label))
		}
	}
	walk(&t.root, 0)
	for i, m := range t.numbered {
		if m == nil {
			if texts[i] != 0 {
				tb.Fatalf("number %d is free and has texts", i)
			}
			continue
		}
		listed := 0
		var newer *text
		for e := m.newest; e != nil; newer, e = e, e.older {
			listed++
			if e.owner != m || e.newer != newer {
				tb.Fatalf("member %d: order broken at %+v", i, e)
			}
		}
		if m.number != i || m.size != sizes[i] || m.texts != texts[i] || listed != texts[i] || m.oldest != newer {
			tb.Fatalf("member %d: %+v, but the tree has %d bytes, %d texts, the order %d", i, m.memory, sizes[i], texts[i], listed)
		}
	}
}

func trimmed(s Set) Set {
	for len(s) > 0 && s[len(s)-1] == 0 {
		s = s[:len(s)-1]
	}
	return s
}
