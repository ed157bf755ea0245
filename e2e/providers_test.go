package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// envKey is the variable that holds a key.
const envKey = "POINTSMAN_E2E_KEY"

// kindOfTarget is one kind of target of the table, with what its engine must see.
type kindOfTarget struct {
	name, provider, model  string // provider: what its entry holds beside the name
	authorization, xAPIKey string
	prefix, host           string
	markers                []string // what no other engine may see
	engine                 *upstream
}

const clientKey = "sk-client-own"

// everyKind starts one engine of every kind.
func everyKind(t *testing.T, r *records) []*kindOfTarget {
	t.Helper()
	ca := newAuthority(t)
	_, cert, key := ca.issue(t, "client.test")
	fileA := filepath.Join(t.TempDir(), "key")
	keyFile(t, fileA, "sk-key-of-a")
	//nolint:usetesting // t.Setenv forbids parallel tests; it is for the child, and no other test reads it
	if err := os.Setenv(envKey, " sk-key-of-b\n"); err != nil {
		t.Fatal(err)
	}
	const shared = "shared-model"
	kinds := []*kindOfTarget{
		{name: "keya", provider: `kind: openai, credentials: {file: "` + fileA + `"}`, model: shared, authorization: "Bearer sk-key-of-a", markers: []string{"sk-key-of-a"}},
		{name: "keyb", provider: `kind: anthropic, credentials: {env: ` + envKey + `}`, model: shared, xAPIKey: "sk-key-of-b", markers: []string{"sk-key-of-b"}},
		{name: "nokey", provider: `kind: vllm`, model: shared},
		{name: "pass", provider: `credentials: passthrough`, model: shared, authorization: "Bearer " + clientKey, xAPIKey: clientKey + "-x", markers: []string{clientKey}},
		{name: "prefix", provider: `kind: other`, model: shared, prefix: "/only/here%20/v1", markers: []string{"/only/here"}},
		{name: "long", model: "a-much-longer-model-name/than-any-of-the-others", markers: []string{"a-much-longer"}},
		{name: "short", model: "s", markers: []string{`"s"`}},
		{name: "odd", model: "q\"uo\\te%d-é中", markers: []string{"-é中"}},
		{name: "host", model: shared, host: "localhost"},
		{name: "secure", model: shared, provider: fmt.Sprintf(`tls: {ca: %q, cert: %q, key: %q, server_name: engine.test}`, ca.file, cert, key)},
	}
	for _, k := range kinds {
		scheme := "http"
		switch k.name {
		case "secure":
			scheme = "https"
			k.engine = newUpstream(t, r, k.name, ca.server(t, "engine.test", true))
		case "host":
			hosts, err := net.DefaultResolver.LookupHost(t.Context(), "localhost")
			if err != nil {
				t.Fatal(err)
			}
			k.engine = newUpstream(t, r, k.name, nil, hosts...)
		default:
			k.engine = newUpstream(t, r, k.name, nil)
		}
		if k.host == "" {
			k.host = "127.0.0.1"
		}
		k.host += ":" + k.engine.port
		k.markers = append(k.markers, k.host)
		entry := fmt.Sprintf("name: %s, url: %q", k.name, scheme+"://"+k.host+k.prefix)
		if k.provider != "" {
			entry += ", " + k.provider
		}
		k.provider = entry
		k.prefix = strings.TrimSuffix(k.prefix, "/v1")
	}
	return kinds
}

// orders calls f with every choice of n of these numbers below size, in every order that begins
// with the least: the others are its rotations.
func orders(size, n int, f func([]int)) {
	var grow func(list []int)
	grow = func(list []int) {
		if len(list) == n {
			f(slices.Clone(list))
			return
		}
		for i := range size {
			if len(list) > 0 && i <= list[0] || slices.Contains(list, i) {
				continue
			}
			grow(append(list, i))
		}
	}
	grow(nil)
}

// Every order of four targets out of every kind, the first three of which fail: every
// engine sees what is its own and not a byte of another's, and what comes next on its
// connections is the next request. Cases 150, 151, 389.
func TestEveryOrderOfProviders(t *testing.T) {
	t.Parallel()
	const listed = 4
	r := newRecords()
	kinds := everyKind(t, r)
	byName := map[string]*kindOfTarget{}
	var config strings.Builder
	config.WriteString("cooldown: {base_secs: 0}\nretry: {max_retries: 3, base_backoff_ms: 1, max_backoff_ms: 1}\nproviders:\n")
	for _, k := range kinds {
		byName[k.name] = k
		fmt.Fprintf(&config, "  - {%s}\n", k.provider)
	}
	config.WriteString("routes:\n")
	routes := 0
	orders(len(kinds), listed, func(list []int) {
		fmt.Fprintf(&config, "  - model: route-%d\n    targets:\n", routes)
		for _, i := range list {
			fmt.Fprintf(&config, "      - {provider: %s, model: %s}\n", kinds[i].name, quoted(kinds[i].model))
		}
		routes++
	})
	m := newMesh(t, config.String())
	m.reachable(len(kinds))

	var seen sync.Map // orders
	var attempts, failures atomic.Int64
	one := func(route, turn int) {
		name := fmt.Sprintf("case-%d-%d", route, turn)
		asked := fmt.Sprintf("route-%d", route)
		plan := [...]string{"503,reset,early", "reset,early,503", "early,503,reset", "503,503,503"}[(route+turn)%4]
		body := fmt.Sprintf(`{"seed":12345678901234567890,"model":%q, "z":"é%s","messages":[{"role":"user","content":"x"}],"a":1.0}`, asked, name)
		headers := []string{"content-type", "application/json", headerCase, name, headerPlan, plan + ",200",
			"authorization", "Bearer " + clientKey, "x-api-key", clientKey + "-x", "x-data-parallel-rank", "7"}
		sent := []byte(body)
		variant := (route/4 + turn) % 4
		switch variant {
		case 1: // two keys, one of them escaped
			body = strings.Replace(body, `"a":1.0`, fmt.Sprintf(`"mod\u0065l" : %q`, asked), 1)
			sent = []byte(body)
		case 2:
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(sent)
			_ = z.Close()
			sent = b.Bytes()
			headers = append(headers, "content-encoding", "gzip")
		}
		a, err := m.send("POST", "/v1/chat/completions?q=1", sent, variant == 3, headers...)
		if err != nil || a.status != 200 {
			t.Errorf("%s: status %d %s, %v after %v", name, a.status, a.body, err, r.take(name))
			failures.Add(1)
			return
		}
		list := r.take(name)
		attempts.Add(int64(len(list)))
		var order []string
		for _, at := range list {
			order = append(order, at.engine)
		}
		seen.Store(strings.Join(order, " "), true)
		if len(list) != listed {
			t.Errorf("%s: %v", name, order)
			failures.Add(1)
			return
		}
		for i, at := range list {
			k := byName[at.engine]
			length := int64(-1)
			want := strings.ReplaceAll(body, `"`+asked+`"`, jsonText(k.model))
			if !at.unread && at.length >= 0 {
				length = int64(len(want))
			}
			if at.unread {
				want, length = "", at.length
			}
			wanted := attempt{
				engine: k.name, number: fmt.Sprint(i + 1), path: k.prefix + "/v1/chat/completions?q=1", host: k.host,
				authorization: k.authorization, xAPIKey: k.xAPIKey, length: length, body: want, unread: at.unread,
			}
			if at != wanted {
				t.Errorf("%s: list %v:\n got %+v\nwant %+v", name, order, at, wanted)
				failures.Add(1)
			}
		}
		last := byName[order[listed-1]]
		for h, want := range map[string]string{
			"x-pointsman-target": last.name + "/" + last.model, "x-pointsman-provider": last.name,
			"x-pointsman-model": last.model, "x-pointsman-attempts": fmt.Sprint(listed),
		} {
			if got := a.header.Get(h); got != want {
				t.Errorf("%s: %s is %q, want %q", name, h, got, want)
			}
		}
	}
	todo := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for route := range todo {
				for turn := range listed { // each begins with the next target
					if failures.Load() < 20 {
						one(route, turn)
					}
				}
			}
		})
	}
	for route := range routes {
		todo <- route
	}
	close(todo)
	wg.Wait()
	count := 0
	seen.Range(func(any, any) bool { count++; return true })
	if want := routes * listed; count != want {
		t.Errorf("%d orders, want %d", count, want)
	}

	total := int64(0)
	for _, k := range kinds {
		total += k.engine.requests
		if s := k.engine.errors.String(); s != "" {
			t.Errorf("%s could not read a request: %s", k.name, tail(s, 500))
		}
		raw := k.engine.raw.String()
		for _, other := range kinds {
			if other == k {
				continue
			}
			for _, marker := range other.markers {
				if at := strings.Index(raw, marker); at >= 0 {
					t.Errorf("%s saw %q of %s: %q", k.name, marker, other.name, raw[max(at-300, 0):min(at+100, len(raw))])
				}
			}
		}
	}
	if total != attempts.Load() {
		t.Errorf("%d requests reached engines, %d of them meant", total, attempts.Load())
	}
	m.settled()
	m.noKeys("sk-key-of-a", "sk-key-of-b", clientKey)
}

// noKeys searches everything that can be read for keys.
func (m *mesh) noKeys(keys ...string) {
	m.t.Helper()
	texts := map[string]string{"pointsman's log": m.pointsman.log.String(), "Envoy's log": m.envoy.log.String(),
		"an error": m.errors.String()}
	for _, url := range []string{
		m.envoyURL + "/config_dump?include_eds", m.envoyURL + "/stats", m.envoyURL + "/clusters?format=json", m.envoyURL + "/certs",
		m.envoyURL + "/listeners", m.admin + "/metrics", m.admin + "/readyz",
	} {
		body, err := fetch(url)
		if err != nil || len(body) == 0 {
			m.t.Errorf("%s: %v", url, err)
		}
		texts[url] = string(body)
	}
	for name, text := range texts {
		for _, key := range keys {
			if at := strings.Index(text, key); at >= 0 {
				m.t.Errorf("a key stands in %s: %q", name, text[max(at-200, 0):min(at+50, len(text))])
			}
		}
	}
}

// quoted writes a text for YAML, which reads JSON's.
func quoted(s string) string { return jsonText(s) }

func jsonText(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
