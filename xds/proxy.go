package xds

import (
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// proxy is one stream of an Envoy, and for a while what is remembered of it. It
// is guarded by the Server's mutex, but for wake.
type proxy struct {
	wake chan struct{} // there may be something to send

	named   bool // the first message has come
	node    string
	version string // of Envoy

	connected bool
	lostAt    time.Time
	// counts says that targets must be accepted by it to be reachable: from the
	// moment it has accepted everything it asked for.
	counts bool
	// inherited says that it had a listener before its stream broke, until it
	// says so itself.
	inherited bool
	// inheritedSecrets are those that it had then, until it asks for secrets itself.
	inheritedSecrets map[string]string

	subs   [kinds]*subscription
	others map[string]*subscription // by type, of those that are not served
	nonce  uint64
}

func newProxy() *proxy {
	return &proxy{connected: true, wake: make(chan struct{}, 1), others: map[string]*subscription{}}
}

// subscription gives what the Envoy wants and has of a type, nil if it has not
// asked for it.
func (p *proxy) subscription(typeURL string) *subscription {
	if k, served := kindOf(typeURL); served {
		return p.subs[k]
	}
	return p.others[typeURL]
}

// has tells whether the Envoy has a resource, in whatever version.
func (p *proxy) has(k kind, name string) bool {
	sub := p.subs[k]
	if sub == nil {
		return false
	}
	_, ok := sub.accepted[name]
	return ok
}

// hasSecret tells whether the Envoy has a secret, in whatever version.
func (p *proxy) hasSecret(name string) bool {
	if p.subs[secrets] == nil {
		_, ok := p.inheritedSecrets[name]
		return ok
	}
	return p.has(secrets, name)
}

// hasListener tells whether the Envoy has accepted a listener.
func (p *proxy) hasListener() bool {
	if sub := p.subs[listeners]; sub != nil {
		return len(sub.accepted) > 0
	}
	return p.inherited
}

// settled tells whether an Envoy has answered everything of a type.
func (s *Server) settled(p *proxy, k kind) bool {
	sub := p.subs[k]
	return sub == nil || sub.settled(s.mu.store.resources[k])
}

// complete tells whether an Envoy has accepted everything it subscribed to. One
// that does not take clusters cannot carry requests to targets. One that has a
// cluster will ask for its secret; until then it is still loading.
func (s *Server) complete(p *proxy) bool {
	if p.subs[clusters] == nil {
		return false
	}
	for k := range kinds {
		if !s.settled(p, k) {
			return false
		}
	}
	for name, need := range s.mu.store.needs {
		if p.has(clusters, name) && !p.hasSecret(need) && !p.refused(secrets, need) {
			return false
		}
	}
	return true
}

// refused tells whether the Envoy has refused a resource in some version, and has none.
func (p *proxy) refused(k kind, name string) bool {
	sub := p.subs[k]
	if sub == nil {
		return false
	}
	_, ok := sub.rejected[name]
	return ok
}

// succeed lets a new stream take the place of a lost Envoy of its node id. What
// it says it holds is what that one had: so it counts on, and the targets it can
// reach stay reachable. One that holds nothing has been started anew.
func (s *Server) succeed(p *proxy, sub *subscription) {
	var lost *proxy
	for q := range s.mu.proxies {
		if !q.connected && q.node == p.node && (lost == nil || q.lostAt.Before(lost.lostAt)) {
			lost = q
		}
	}
	if lost == nil {
		return
	}
	delete(s.mu.proxies, lost)
	if len(sub.accepted) == 0 {
		return
	}
	p.counts = true
	p.inherited = lost.hasListener()
	if had := lost.subs[clusters]; had != nil {
		sub.rejected = had.rejected
	}
	p.inheritedSecrets = lost.inheritedSecrets
	if had := lost.subs[secrets]; had != nil {
		p.inheritedSecrets = had.accepted
	}
}

// evictLost makes room by forgetting the Envoy that has been away for longest.
func (s *Server) evictLost() bool {
	var oldest *proxy
	for p := range s.mu.proxies {
		if !p.connected && (oldest == nil || p.lostAt.Before(oldest.lostAt)) {
			oldest = p
		}
	}
	if oldest == nil {
		return false
	}
	delete(s.mu.proxies, oldest)
	return true
}

func nodeVersion(n *corev3.Node) string {
	v := n.GetUserAgentBuildVersion().GetVersion()
	if v == nil {
		return n.GetUserAgentVersion()
	}
	return fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
}
