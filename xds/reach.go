package xds

import (
	"maps"
	"slices"

	"github.com/pointsman/pointsman/envoy"
)

// tell gives Targets what has changed, in order. No mutex is held by the caller.
func (s *Server) tell() {
	s.telling.Lock()
	defer s.telling.Unlock()
	for {
		s.mu.Lock()
		news := s.news()
		s.mu.Unlock()
		if len(news) == 0 {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(news)) {
			s.targets.SetReachable(id, news[id])
		}
	}
}

// news are the differences between what Targets was told and what holds, and it
// counts them as told. The mutex is held.
func (s *Server) news() map[string]bool {
	s.chain.Store(int32(s.leastChain()))
	now := s.reachable()
	news := map[string]bool{}
	for id, ok := range now {
		if told, known := s.mu.told[id]; !known || told != ok {
			news[id], s.mu.told[id] = ok, ok
		}
	}
	for id, told := range s.mu.told {
		if _, known := now[id]; known {
			continue
		}
		delete(s.mu.told, id)
		if told {
			news[id] = false
		}
	}
	return news
}

// reachable says of every target whether all Envoys that count can route to it.
// With none that counts nothing is reachable. The mutex is held.
func (s *Server) reachable() map[string]bool {
	counting := s.counting()
	out := make(map[string]bool, len(s.mu.store.targets)+len(s.mu.store.external))
	for name, id := range s.mu.store.targets {
		out[id] = len(counting) > 0 && !s.mu.store.withdrawn[name] &&
			!slices.ContainsFunc(counting, func(p *proxy) bool { return !s.canReach(p, name) })
	}
	for id := range s.mu.store.external {
		out[id] = true // the proxy's own clusters: nobody is asked
	}
	return out
}

// canReach tells whether an Envoy can send to a cluster of a target: it has the
// cluster, the secret that it needs, and nothing stays in force in which the cluster
// would show its engine what another target was given. The mutex is held.
func (s *Server) canReach(p *proxy, name string) bool {
	if !p.has(clusters, name) {
		return false
	}
	sub := p.subs[clusters]
	accepted := sub.accepted[name]
	now := s.mu.store.resources[clusters][name]
	// An older form of the cluster works with what it had. When the latest has just taken its
	// place, Envoy has the secret, and may say so a moment later.
	latest := now != nil && now.version == accepted
	justNow := s.mu.told[s.mu.store.targets[name]] && !p.refused(secrets, s.mu.store.needs[name])
	if need := s.mu.store.needs[name]; latest && need != "" && !p.hasSecret(need) && !justNow {
		return false
	}
	if chainIn(accepted) >= s.mu.store.chain {
		return true
	}
	// Its filters do too little for the other clusters. That is soon over if the next form
	// is on its way; but if that was refused, or there is none, the old one stays.
	return s.mu.store.removed[name].IsZero() && now != nil && !latest && sub.rejected[name].version != now.version
}

// Chain gives the chain that the filters of every target's cluster have at least, in all
// Envoys that count: less than that of the latest update until they have accepted it. It
// never blocks.
func (s *Server) Chain() envoy.Chain { return envoy.Chain(s.chain.Load()) }

// leastChain is what Chain gives. The mutex is held.
func (s *Server) leastChain() envoy.Chain {
	least := s.mu.store.chain
	for _, p := range s.counting() {
		sub := p.subs[clusters]
		if sub == nil {
			return envoy.ChainNone
		}
		for name := range s.mu.store.targets {
			if version, ok := sub.accepted[name]; ok && s.mu.store.removed[name].IsZero() && s.canReach(p, name) {
				least = min(least, chainIn(version))
			}
		}
	}
	return least
}

func (s *Server) counting() []*proxy {
	var out []*proxy
	for p := range s.mu.proxies {
		if p.counts {
			out = append(out, p)
		}
	}
	return out
}
