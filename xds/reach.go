package xds

import (
	"maps"
	"slices"
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
			!slices.ContainsFunc(counting, func(p *proxy) bool { return !p.has(clusters, name) })
	}
	for id := range s.mu.store.external {
		out[id] = true // the proxy's own clusters: nobody is asked
	}
	return out
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
