package picker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

// owner asks where a request belongs.
func owner(b Balancer, q Request, out ...int) int {
	return b.Pick(&Call{Request: &q, Eligible: all(b.Len(), out...)})
}

// ownersOf asks for many sessions, and gives ids.
func ownersOf(b Balancer, ids []string, sessions int, out ...int) []string {
	owners := make([]string, sessions)
	for k := range owners {
		owners[k] = ids[owner(b, Request{Session: "session " + strconv.Itoa(k)}, out...)]
	}
	return owners
}

// Case 24.
func TestRing(t *testing.T) {
	r := newRing(ids(4), 100)
	if len(r.hashes) != 400 || len(r.owners) != 400 || !slices.IsSorted(r.hashes) {
		t.Fatalf("%d points of %d owners, sorted: %v", len(r.hashes), len(r.owners), slices.IsSorted(r.hashes))
	}
	var want []uint64
	for _, id := range ids(4) {
		for v := range 100 {
			want = append(want, xxh3.HashString(fmt.Sprintf("%s#%d", id, v)))
		}
	}
	slices.Sort(want)
	if !slices.Equal(r.hashes, want) {
		t.Error("points are not the hashes of <id>#<v>")
	}
	for k, hash := range r.hashes {
		if got := r.at(hash); got != k {
			t.Fatalf("the hash of point %d leads to %d", k, got)
		}
		if got := r.at(hash + 1); got != (k+1)%400 {
			t.Fatalf("one after the hash of point %d leads to %d", k, got)
		}
	}
	if got := (ring{}).at(5); got != -1 {
		t.Errorf("empty ring: %d", got)
	}
}

// Points with equal hashes are in the order of the ids, whatever that of the list.
func TestRingOfEqualHashes(t *testing.T) {
	for _, ids := range [][]string{{"a", "b", "c"}, {"c", "a", "b"}, {"b", "c", "a"}} {
		var points []point
		for i := range ids {
			points = append(points, point{7, int32(i)}, point{9, int32(i)})
		}
		r := ringOf(points, ids)
		for k, want := range []string{"a", "b", "c", "a", "b", "c"} {
			if got := ids[r.owners[k]]; got != want {
				t.Errorf("%v: point %d is of %s, want %s", ids, k, got, want)
			}
		}
	}
}

// The values of the hash are fixed: replicas of different versions agree.
func TestRingIsFixed(t *testing.T) {
	b := mustNew(t, configOf("consistent_hash", "gpu-a/llama", "gpu-b/llama", "gpu-c/llama"), nil)
	var got strings.Builder
	for k := range 24 {
		got.WriteString(strconv.Itoa(owner(b, Request{Session: "session-" + strconv.Itoa(k)})))
	}
	if want := "122011200222020020211121"; got.String() != want {
		t.Errorf("owners %s, want %s", got.String(), want)
	}
}

func TestConsistentHashKey(t *testing.T) {
	b := mustNew(t, newConfig("consistent_hash", 4), nil)
	text := []byte("user: hello\n")
	spread := func(request func(k int) Request) int {
		seen := map[int]bool{}
		for k := range 64 {
			q := request(k)
			i := owner(b, q)
			if i < 0 || i > 3 || owner(b, q) != i {
				t.Errorf("request %d: %d, then %d", k, i, owner(b, q))
			}
			seen[i] = true
		}
		return len(seen)
	}
	for _, test := range []struct {
		name    string
		request func(k int) Request
		want    int
	}{
		{"case 23, one session", func(int) Request { return Request{Session: "s"} }, 1},
		{"case 25", func(k int) Request { return Request{Text: text, Digest: uint64(k), HasDigest: true} }, 4},
		{"case 26", func(k int) Request { return Request{Text: []byte{byte(k)}, Digest: 7, HasDigest: true} }, 1},
		{"case 27", func(k int) Request {
			return Request{Session: "s", Text: []byte{byte(k)}, Digest: uint64(k), HasDigest: true}
		}, 1},
		{"case 35", func(k int) Request { return Request{Session: "", Digest: uint64(k), HasDigest: true} }, 4},
		{"case 123, the text is cut, the digest is not", func(k int) Request {
			return Request{Text: []byte(strings.Repeat("rule ", 6000)), Digest: xxh3.HashString(strconv.Itoa(k)), HasDigest: true}
		}, 4},
		{"case 124, equal text and length", func(k int) Request {
			return Request{Text: text, Length: 12, Digest: xxh3.HashString("image " + strconv.Itoa(k)), HasDigest: true}
		}, 4},
		{"text alone", func(k int) Request { return Request{Text: []byte(strconv.Itoa(k))} }, 4},
		{"one text alone", func(int) Request { return Request{Text: text} }, 1},
		{"other things are no key", func(k int) Request {
			return Request{Digest: 7, HasDigest: true, Adapter: strconv.Itoa(k), Length: int64(k)}
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := spread(test.request); got != test.want {
				t.Errorf("%d targets, want %d", got, test.want)
			}
		})
	}
}

// Cases 28 and 29.
func TestConsistentHashOwnerOut(t *testing.T) {
	b, ids := mustNew(t, newConfig("consistent_hash", 4), nil), ids(4)
	before, without := ownersOf(b, ids, 10_000), ownersOf(b, ids, 10_000, 1)
	moved := map[string]int{}
	for k := range before {
		if before[k] == "t1" {
			moved[without[k]]++
		} else if without[k] != before[k] {
			t.Fatalf("session %d moved from %s to %s", k, before[k], without[k])
		}
	}
	total := moved["t0"] + moved["t2"] + moved["t3"]
	for id, n := range moved {
		if id == "t1" || n*10 < total {
			t.Errorf("%s gets %d of %d", id, n, total)
		}
	}
	if len(moved) != 3 || !slices.Equal(ownersOf(b, ids, 10_000), before) {
		t.Error("not as before when it comes back")
	}
}

// Cases 30 to 33, and report 067.
func TestConsistentHashOverReload(t *testing.T) {
	five := []string{"a", "b", "c", "d", "e"}
	b := mustNew(t, configOf("consistent_hash", five...), nil)
	before := ownersOf(b, five, 10_000)
	after := func(ids ...string) []string {
		return ownersOf(mustNew(t, configOf("consistent_hash", ids...), b), ids, 10_000)
	}

	for k, id := range after("a", "b", "d", "e") {
		if before[k] != "c" && id != before[k] {
			t.Fatalf("case 30: session %d moved from %s to %s", k, before[k], id)
		}
	}
	if !slices.Equal(after("e", "c", "a", "d", "b"), before) {
		t.Error("case 31: keys moved")
	}
	moved := 0
	for k, id := range after("new", "a", "b", "c", "d", "e") {
		if id != before[k] {
			moved++
			if id != "new" {
				t.Fatalf("case 32: session %d moved from %s to %s", k, before[k], id)
			}
		}
	}
	if moved < 1000 || moved > 2400 {
		t.Errorf("case 32: %d of 10,000 moved", moved)
	}
	if other := mustNew(t, configOf("consistent_hash", five...), nil); !slices.Equal(ownersOf(other, five, 10_000), before) {
		t.Error("case 33: another replica says otherwise")
	}
}

// Case 34.
func TestConsistentHashWithoutKey(t *testing.T) {
	b := mustNew(t, newConfig("consistent_hash", 3), nil)
	if got := turns(b, 4); !slices.Equal(got, []int{0, 1, 2, 0}) {
		t.Errorf("got %v", got)
	}
	c := Call{Request: &Request{Session: "s"}, Eligible: all(3)}
	b.Pick(&c)
	if c.Why != WhyHash {
		t.Errorf("with a key: %v", c.Why)
	}
	c = Call{Request: &Request{Adapter: "a"}, Eligible: all(3)}
	if got := b.Pick(&c); got != 1 || c.Why != WhyRotation {
		t.Errorf("goes on with %d (%v)", got, c.Why)
	}
}

// Reports 064 and 071: keys of any kind spread over four targets.
func TestConsistentHashSpreads(t *testing.T) {
	b := mustNew(t, configOf("consistent_hash", "A", "B", "C", "D"), nil)
	for name, request := range map[string]func(k int) Request{
		"sessions":      func(k int) Request { return Request{Session: fmt.Sprint("user-", k)} },
		"conversations": func(k int) Request { return Request{Digest: xxh3.HashString(fmt.Sprint(k)), HasDigest: true} },
	} {
		var count [4]int
		for k := range 400 {
			count[owner(b, request(k))]++
		}
		for i, got := range count {
			if got < 60 || got > 140 {
				t.Errorf("%s: target %d got %d of 400", name, i, got)
			}
		}
	}
}

// Points and other numbers of them.
func TestRingPoints(t *testing.T) {
	for _, points := range []int{-1, 0, 1, 7} {
		cfg := newConfig("consistent_hash", 3)
		cfg.Settings.RingPoints = points
		b := mustNew(t, cfg, nil).(*consistentHash)
		if got := len(b.ring.hashes); got != 3*max(points, 1) {
			t.Errorf("%d points each: %d in all", points, got)
		}
		if got := owner(b, Request{Session: "s"}, 0, 1); got != 2 {
			t.Errorf("only the last: %d", got)
		}
	}
}
