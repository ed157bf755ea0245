package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/config"
)

// zone answers for names: what a test puts into it.
type zone struct {
	mu    sync.Mutex
	hosts map[string][]string
	hang  bool
	asked int
}

func (z *zone) set(host string, addresses ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.hosts == nil {
		z.hosts = map[string][]string{}
	}
	z.hosts[host] = addresses
}

func (z *zone) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	z.mu.Lock()
	hang := z.hang
	z.asked++
	list := z.hosts[host]
	z.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var out []netip.Addr
	for _, text := range list {
		out = append(out, netip.MustParseAddr(text))
	}
	return out, nil
}

// output is a log that tests read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) count(text string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.b.String(), text)
}

// world is Sources over a zone, and what Run told.
type world struct {
	*testing.T
	zone    *zone
	log     *output
	sources *Sources
	told    chan map[string]State
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, zone: &zone{}, log: &output{}, told: make(chan map[string]State, 100)}
	w.sources = New(Options{Log: slog.New(slog.NewTextHandler(w.log, nil)), Resolver: w.zone})
	return w
}

func (w *world) parse(text string) *config.Config {
	w.Helper()
	cfg, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		w.Fatal(err)
	}
	return cfg
}

// install loads a configuration and puts it into force.
func (w *world) install(text string) map[string]State {
	w.Helper()
	l, err := w.sources.Load(w.Context(), w.parse(text))
	if err != nil {
		w.Fatal(err)
	}
	w.sources.Configure(l)
	return l.States
}

// run runs until the test ends, or until the function it gives is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.sources.Run(ctx, func(m map[string]State) { w.told <- m }) }()
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Errorf("run ended with %v", err)
		}
	}
}

func addresses(list ...string) (out []netip.AddrPort) {
	for _, text := range list {
		out = append(out, netip.MustParseAddrPort(text))
	}
	return out
}

func (w *world) is(got State, want ...string) {
	w.Helper()
	if !slices.Equal(got.Addresses, addresses(want...)) {
		w.Errorf("addresses %v, want %v", got.Addresses, want)
	}
}

const named = `
providers:
  - {name: ip, url: "http://10.0.0.1:8000"}
  - {name: dns, url: "https://engine.example.com"}
  - {name: same, url: "http://engine.example.com:81/v1"}
  - {name: missing, url: "http://missing.example.com"}
`

// Case 392: a name that does not resolve holds nobody back; one that resolves later is there
// then; one that stops resolving keeps its last addresses. Several addresses are one provider.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.zone.set("engine.example.com", "10.1.0.2", "10.1.0.1", "2001:db8::1", "10.1.0.2")
		st := w.install(named)
		w.is(st["ip"], "10.0.0.1:8000")
		w.is(st["dns"], "10.1.0.1:443", "10.1.0.2:443")
		w.is(st["same"], "10.1.0.1:81", "10.1.0.2:81")
		w.is(st["missing"])
		stop := w.run()
		synctest.Wait()
		if n := w.log.count("its targets are not reachable"); n != 1 || len(w.told) > 0 {
			t.Errorf("warned %d times, told %d times", n, len(w.told))
		}

		w.zone.set("missing.example.com", "10.2.0.1")
		time.Sleep(missingRetry + time.Second)
		w.is((<-w.told)["missing"], "10.2.0.1:80")
		if w.log.count("name is resolved again") != 1 {
			t.Error("not told that it is there")
		}

		w.zone.set("engine.example.com", "10.1.0.3")
		time.Sleep(30 * time.Second)
		st = <-w.told
		w.is(st["dns"], "10.1.0.3:443")
		w.is(st["missing"], "10.2.0.1:80")

		w.zone.set("engine.example.com")
		time.Sleep(31 * time.Second)
		if n := w.log.count("its last addresses stay in use"); n != 1 {
			t.Errorf("warned %d times at once", n)
		}
		time.Sleep(10 * time.Minute)
		if n := w.log.count("its last addresses stay in use"); n < 2 || n > 3 {
			t.Errorf("warned %d times in 10 minutes, want one every 5", n)
		}
		w.is(w.sources.Now()["dns"], "10.1.0.3:443")
		if len(w.told) > 0 {
			t.Errorf("told of %v", <-w.told)
		}
		stop()
	})
}

// The start waits for names 5 s at most, however many hang; a reload that fails keeps what is known.
func TestLoadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.zone.set("engine.example.com", "10.1.0.1")
		w.install(named)
		w.zone.hang = true
		begin := time.Now()
		st := w.install(named + "  - {name: p5, url: \"http://h5\"}\n  - {name: p6, url: \"http://h6\"}\n")
		if took := time.Since(begin); took > loadTime {
			t.Errorf("took %v", took)
		}
		w.is(st["dns"], "10.1.0.1:443")
		w.is(st["p5"])
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		if _, err := w.sources.Load(ctx, w.parse(named)); err != nil || time.Since(begin) > time.Second {
			t.Errorf("took %v: %v", time.Since(begin), err)
		}
	})
}

func TestManyNamesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.zone.hang = true
		text := "providers:\n"
		for i := range 100 {
			text += fmt.Sprintf("  - {name: p%d, url: \"http://h%d\"}\n", i, i)
		}
		begin := time.Now()
		w.install(text)
		if took := time.Since(begin); took > loadTime {
			t.Errorf("took %v", took)
		}
	})
}

func TestLookUp(t *testing.T) {
	w := newWorld(t)
	w.zone.set("six", "2001:db8::2", "2001:db8::1")
	w.zone.set("mapped", "::ffff:10.0.0.1")
	w.zone.set("useless", "0.0.0.0", "224.0.0.1", "fe80::1%eth0")
	for i := range 200 {
		w.zone.set("many", append(w.zone.hosts["many"], netip.AddrFrom4([4]byte{10, 9, 0, byte(i)}).String())...)
	}
	for host, want := range map[string][]string{"six": {"2001:db8::1", "2001:db8::2"}, "mapped": {"10.0.0.1"}, "useless": nil, "nowhere": nil} {
		got, err := w.sources.lookUp(t.Context(), host)
		var texts []string
		for _, ip := range got {
			texts = append(texts, ip.String())
		}
		if diff := cmp.Diff(want, texts); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%s: %v %s", host, err, diff)
		}
	}
	if got, _ := w.sources.lookUp(t.Context(), "many"); len(got) != maxAddresses {
		t.Errorf("%d addresses", len(got))
	}
}

// Keys that are not there refuse the configuration, with file, line and field, and no message holds one.
func TestMissingKeys(t *testing.T) {
	dir := t.TempDir()
	empty, wide, good := filepath.Join(dir, "empty"), filepath.Join(dir, "wide"), filepath.Join(dir, "good")
	write(t, empty, " \n")
	write(t, wide, "S3CRET\nS3CRET")
	write(t, good, "  sk-S3CRET \n")
	t.Setenv("POINTSMAN_TEST_EMPTY", "  ")
	t.Setenv("POINTSMAN_TEST_KEY", " sk-env\n")
	w := newWorld(t)
	text := "providers:\n" +
		"  - {name: a, url: \"http://10.0.0.1\", credentials: {env: POINTSMAN_TEST_ABSENT}}\n" +
		"  - {name: b, url: \"http://10.0.0.1\", credentials: {env: POINTSMAN_TEST_EMPTY}}\n" +
		"  - {name: c, url: \"http://10.0.0.1\", credentials: {file: " + dir + "/absent}}\n" +
		"  - {name: d, url: \"http://10.0.0.1\", credentials: {file: " + empty + "}}\n" +
		"  - {name: e, url: \"http://10.0.0.1\", credentials: {file: " + wide + "}}\n" +
		"  - {name: f, url: \"https://10.0.0.1\", tls: {ca: " + dir + "/ca}}\n"
	_, err := w.sources.Load(t.Context(), w.parse(text))
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`test.yaml:2: providers[0].credentials: the environment variable POINTSMAN_TEST_ABSENT is not set
test.yaml:3: providers[1].credentials: the environment variable POINTSMAN_TEST_EMPTY is empty
test.yaml:4: providers[2].credentials: the key cannot be read: open DIR/absent: no such file or directory
test.yaml:5: providers[3].credentials: the file DIR/empty is empty
test.yaml:6: providers[4].credentials: the file DIR/wide holds more than a key: a line end, or a byte that cannot stand in a header
test.yaml:7: providers[5].tls.ca: cannot be read: open DIR/ca: no such file or directory`, "DIR", dir)
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(faults, Check(w.parse(text))); diff != "" {
		t.Error(diff)
	}
	st := w.install("providers:\n  - {name: a, url: \"http://10.0.0.1\", credentials: {env: POINTSMAN_TEST_KEY}}\n" +
		"  - {name: b, url: \"http://10.0.0.1\", credentials: {file: " + good + "}}\n  - {name: c, url: \"http://10.0.0.1\", credentials: passthrough}\n")
	if st["a"].Key != "sk-env" || st["b"].Key != "sk-S3CRET" || st["c"].Key != "" {
		t.Errorf("keys %q %q %q", st["a"].Key, st["b"].Key, st["c"].Key)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// wait waits for the key of provider a.
func (w *world) wait(key string) {
	w.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case m := <-w.told:
			if m["a"].Key == key {
				return
			}
		case <-deadline:
			w.Fatalf("key %q never came", key)
		}
	}
}

// Case 390, the source: a replaced file gives the new key, an emptied or removed one keeps the last with a
// warning, and one that comes back is told of.
func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	write(t, path, "sk-one\n")
	w := newWorld(t)
	st := w.install("providers:\n  - {name: a, url: \"http://10.0.0.1\", credentials: {file: " + path + "}}\n")
	if st["a"].Key != "sk-one" {
		t.Fatalf("key %q", st["a"].Key)
	}
	stop := w.run()
	defer stop()
	write(t, path, "sk-two")
	w.wait("sk-two")
	write(t, path, "\n")
	w.logged("the last one stays in use", 1)
	if key := w.sources.Now()["a"].Key; key != "sk-two" {
		t.Errorf("key %q", key)
	}
	write(t, path, "sk-three")
	w.wait("sk-three")
	w.logged("key is there again", 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.logged("the last one stays in use", 2)
	write(t, path, "sk-four")
	w.wait("sk-four")
	for _, key := range []string{"sk-one", "sk-two", "sk-three", "sk-four"} {
		if w.log.count(key) > 0 {
			t.Errorf("%s is in the log", key)
		}
	}
}

// logged waits for n lines of the log.
func (w *world) logged(text string, n int) {
	w.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if w.log.count(text) >= n {
			return
		}
	}
	w.Fatalf("not logged %d times: %s", n, text)
}

// A file that changes between Load and Configure is not missed, and files of a former
// configuration are no longer watched.
func TestReloadOfFiles(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	write(t, one, "k1")
	write(t, two, "k2")
	file := func(path string) string {
		return "providers:\n  - {name: a, url: \"http://10.0.0.1\", credentials: {file: " + path + "}}\n"
	}
	w := newWorld(t)
	w.install(file(one))
	stop := w.run()
	defer stop()
	l, err := w.sources.Load(t.Context(), w.parse(file(two)))
	if err != nil {
		t.Fatal(err)
	}
	write(t, two, "k3")
	w.sources.Configure(l)
	w.wait("k3")
	write(t, one, "k4")
	write(t, two, "k5")
	w.wait("k5")
}
