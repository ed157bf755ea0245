package xds

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/envoy/envoytest"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/wire"
)

// withKey makes a target need a key. "" is a key that is not there.
func withKey(res *envoy.Resources, id, key string) *envoy.Resources {
	if res.Needs == nil {
		res.Needs, res.Secrets = map[string]string{}, map[string]*tlsv3.Secret{}
	}
	name := wire.SecretName(id)
	res.Needs[wire.ClusterName(id)] = name
	res.Secrets[name] = &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{
		Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: key}},
	}}}
	return res
}

func asking(ids ...string) func(*peer) {
	return func(p *peer) {
		p.secretOf = map[string]string{}
		for _, id := range ids {
			p.secretOf[wire.ClusterName(id)] = wire.SecretName(id)
		}
	}
}

// A target is reachable once its key is there too, and until then an Envoy that comes
// does not count; one without a key holds nothing back, nor does one whose key is empty.
func TestSecretFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := withKey(withKey(resources("a", "b", "c", "d"), "a", "k1"), "c", "")
		res.Needs[wire.ClusterName("d")] = "nowhere"
		w := newWorld(t, res)
		defer w.end()
		p := w.connect("n", asking("a", "c", "d"), holding(sds))
		w.wantUp("")
		w.wantProxies(1, 0)
		wantEqual(t, "clusters", p.sent(cds), []string{"a b " + wire.ClusterNone})
		p.release(sds)
		w.wantUp("a b")
		w.wantProxies(1, 1)
		for _, id := range []string{"c", "d"} {
			if got := w.reason(id); !strings.Contains(got, "secret") {
				t.Errorf("%s: reason %q", id, got)
			}
		}

		// A new key touches no cluster.
		before := len(p.sent(cds))
		w.update(withKey(resources("a", "b"), "a", "k2"))
		w.wantUp("a b")
		if len(p.sent(cds)) != before || len(p.sent(sds)) != 2 {
			t.Errorf("clusters %v, secrets %v", p.sent(cds), p.sent(sds))
		}

		// Cluster and key, new in one update.
		w.update(withKey(withKey(resources("a", "b", "c"), "a", "k2"), "c", "k3"))
		w.wantUp("a b c")
	})
}

// A lost stream costs nobody the target, an Envoy started anew has to get the key first.
func TestSecretOverReconnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withKey(resources("a"), "a", "k1"))
		defer w.end()
		p := w.connect("n", asking("a"))
		w.wantUp("a")
		p.vanish()
		w.wantUp("a")
		_, mark := w.board.since(0)
		p.open()
		w.wantUp("a")
		if news, _ := w.board.since(mark); len(news) != 0 {
			t.Errorf("told %v", news)
		}
		q := w.connect("m", asking("a"), holding(sds))
		w.wantUp("a")
		w.wantProxies(2, 1)
		q.release(sds)
		w.wantUp("a")
		w.wantProxies(2, 2)
	})
}

// A target that gets a key stays reachable all the time.
func TestKeyForTargetInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, resources("a"))
		defer w.end()
		p := w.connect("n")
		w.wantUp("a")
		asking("a")(p)
		p.delay = time.Second
		_, mark := w.board.since(0)
		next := withKey(resources("a=1"), "a", "k1")
		next.Chain = envoy.ChainKeys
		w.update(next)
		w.pass(10 * time.Second)
		w.wantUp("a")
		news, _ := w.board.since(mark)
		for _, n := range news {
			if strings.Contains(n, "false") {
				t.Errorf("told %v", news)
			}
		}
		wantEqual(t, "secrets", p.sent(sds), []string{wire.SecretName("a")})
	})
}

// What an Envoy says about a secret may quote it.
func TestSecretRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withKey(resources("a", "b"), "a", "sk-secret"))
		defer w.end()
		w.connect("n", asking("a"), refusing("bad inline_string: sk-secret", wire.SecretName("a")))
		w.wantUp("b")
		wantEqual(t, "counted", w.Rejections()["secret"], 1)
		wantEqual(t, "logged", w.log.with("resource rejected", wire.SecretName("a")), 1)
		wantEqual(t, "quoted", w.log.with("sk-secret"), 0)
		if got := w.reason("a"); !strings.Contains(got, "refused") || strings.Contains(got, "sk-") {
			t.Errorf("reason %q", got)
		}
	})
}

// The key of a removed target stays as long as its cluster.
func TestSecretOfRemovedTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withKey(resources("a", "b"), "a", "k1"))
		defer w.end()
		p := w.connect("n", asking("a"))
		w.wantUp("a b")
		w.board.list("a", true)
		w.update(resources("b"))
		synctest.Wait()
		q := w.connect("m", asking("a"))
		w.wantProxies(2, 2)
		wantEqual(t, "secrets", q.sent(sds), []string{wire.SecretName("a")})
		w.board.list("a", false)
		w.pass(2 * linger)
		synctest.Wait()
		if n := len(w.mu.store.resources[secrets]); n != 0 {
			t.Errorf("%d secrets are left", n)
		}
		_ = p
	})
}

// An Envoy that goes on with a cluster whose filters would show one target's key to
// another is not given that target.
func TestOldChainStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, resources("a", "b"))
		defer w.end()
		refuse := refusing("no", wire.ClusterName("b"))
		p := w.connect("n", asking("a"))
		w.wantUp("a b")
		refuse(p)
		p.delay = time.Second
		next := withKey(resources("a=1", "b=1"), "a", "k1")
		next.Chain = envoy.ChainKeys
		w.update(next)
		w.wantUp("a b") // the answer may still come
		wantEqual(t, "chain in force", w.Chain(), envoy.ChainNone)
		w.pass(10 * time.Second)
		w.wantUp("a")
		wantEqual(t, "chain in force", w.Chain(), envoy.ChainKeys)
		p.delay = 0
		p.refuse = nil
		next = withKey(resources("a=1", "b=22"), "a", "k1")
		next.Chain = envoy.ChainKeys
		w.update(next)
		w.wantUp("a b")
		w.update(withKey(resources("a=1", "b=22"), "a", "k1")) // and back
		w.wantUp("a b")
	})
}

// Secrets over delta ADS to a real Envoy: in force without touching a cluster, and not in
// its dump.
func TestRealEnvoySecrets(t *testing.T) {
	socket := envoytest.SocketPath(t)
	cfg := realConfig(3, socket)
	cfg.Providers[0].Credentials = config.Credentials{Env: "A"}
	cfg.Providers[1].Credentials = config.Credentials{Env: "B"}
	bootstrap, err := envoy.Bootstrap(cfg)
	if err != nil {
		t.Fatal(err)
	}
	build := func(keys ...string) *envoy.Resources {
		t.Helper()
		res, err := envoy.Build(cfg, upstreams(cfg, keys...))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	w := newWorld(t, build("sk-first", "")) // the second has no key yet
	w.serve(socket)
	e := envoytest.Start(t, bootstrap)
	w.eventuallyUp(2)
	e.Listener(wire.ListenerName)
	w.update(build("sk-first", "sk-second"))
	w.eventuallyUp(3)
	updates := e.Stat("cluster_manager.cluster_modified")
	w.update(build("sk-third", "sk-second"))
	envoytest.Eventually(t, realLimit, "the new key is accepted", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for p := range w.mu.proxies {
			if !w.settled(p, secrets) {
				return fmt.Errorf("not yet")
			}
		}
		return nil
	})
	if n := e.Stat("cluster_manager.cluster_modified"); n != updates {
		t.Errorf("a new key changed %d clusters", n-updates)
	}
	wantEqual(t, "rejected", w.Rejections()["secret"], 0)
	for _, path := range []string{"/config_dump?include_eds", "/clusters?format=json", "/stats", "/certs"} {
		text, err := e.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "sk-") {
			t.Errorf("%s shows a key", path)
		}
	}
	if strings.Contains(e.Log(), "sk-") {
		t.Error("Envoy's log shows a key")
	}
}
