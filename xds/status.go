package xds

import (
	"cmp"
	"maps"
	"slices"
)

// Ready tells whether an Envoy that counts has accepted the listener.
func (s *Server) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.counting(), (*proxy).hasListener)
}

// Proxies gives the number of connected Envoys, and of those that count; one that
// has been lost for less than 30 s counts without being connected.
func (s *Server) Proxies() (connected, counting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.mu.proxies {
		if p.connected {
			connected++
		}
	}
	return connected, len(s.counting())
}

// Rejections counts the resources that were refused, by an Envoy or by
// validation, by type: secret, cluster, route, listener.
func (s *Server) Rejections() map[string]uint64 {
	out := make(map[string]uint64, kinds)
	for k := range kinds {
		out[k.String()] = s.rejections[k].Load()
	}
	return out
}

// ProxyStatus describes one Envoy.
type ProxyStatus struct {
	Node      string
	Version   string // of Envoy, as it says
	Connected bool
	Counts    bool
	Listener  bool              // it has accepted the listener
	Rejected  map[string]string // cluster -> Envoy's reason
}

// TargetStatus describes one target of the configuration, or one that is being
// removed.
type TargetStatus struct {
	ID        string
	Reachable bool
	Removed   bool   // it waits for its attempts to end
	Reason    string // why its cluster, in its latest form, is not in force; "" if it is or nobody has refused it
}

// Status describes the Envoys and the targets, each in a fixed order.
func (s *Server) Status() ([]ProxyStatus, []TargetStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.mu.store

	reasons := maps.Clone(st.invalid)
	var proxies []ProxyStatus
	for p := range s.mu.proxies {
		ps := ProxyStatus{
			Node: p.node, Version: p.version, Connected: p.connected,
			Counts: p.counts, Listener: p.hasListener(), Rejected: map[string]string{},
		}
		if sub := p.subs[clusters]; sub != nil {
			for name, r := range sub.rejected {
				if now := st.resources[clusters][name]; now != nil && now.version == r.version {
					ps.Rejected[name], reasons[name] = r.reason, r.reason
				}
			}
		}
		for name, need := range st.needs {
			if p.refused(secrets, need) {
				reason := "its secret was refused"
				ps.Rejected[name], reasons[name] = reason, reason
			}
		}
		proxies = append(proxies, ps)
	}
	slices.SortFunc(proxies, func(a, b ProxyStatus) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Version, b.Version), compareBool(b.Connected, a.Connected))
	})

	reachable := s.reachable()
	var targets []TargetStatus
	for name, id := range st.targets {
		targets = append(targets, TargetStatus{
			ID: id, Reachable: reachable[id], Removed: !st.removed[name].IsZero(), Reason: reasons[name],
		})
	}
	for id := range st.external {
		targets = append(targets, TargetStatus{ID: id, Reachable: true})
	}
	slices.SortFunc(targets, func(a, b TargetStatus) int { return cmp.Compare(a.ID, b.ID) })
	return proxies, targets
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
