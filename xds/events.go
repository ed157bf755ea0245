package xds

import "time"

const (
	// An Envoy that comes and goes is logged so often in a minute; the rest is
	// counted and said later.
	eventsPerWindow = 10
	eventWindow     = time.Minute
)

// budget is what is left of the lines about one node.
type budget struct {
	since   time.Time
	used    int
	dropped int
}

// event logs that an Envoy came, counts, or went. The mutex is held.
func (s *Server) event(msg string, p *proxy) {
	now := time.Now()
	b := s.mu.budgets[p.node]
	if b == nil {
		if len(s.mu.budgets) >= maxProxies {
			clear(s.mu.budgets)
		}
		b = &budget{}
		s.mu.budgets[p.node] = b
	}
	if now.Sub(b.since) >= eventWindow {
		b.since, b.used = now, 0
	}
	if b.used >= eventsPerWindow {
		b.dropped++
		return
	}
	b.used++
	args := []any{"node", p.node, "version", p.version}
	if b.dropped > 0 {
		args = append(args, "lines_left_out", b.dropped)
		b.dropped = 0
	}
	s.log.Info(msg, args...)
}

// reject counts a resource that was refused, and logs it unless this form of it
// has been logged before: every Envoy refuses it, and each again when it comes
// back. The mutex is held.
func (s *Server) reject(k kind, f fault, by string) {
	s.rejections[k].Add(1)
	if s.mu.store.logged[k][f.name] == f.version {
		return
	}
	s.mu.store.logged[k][f.name] = f.version
	s.log.Warn("resource rejected", "type", k.String(), "name", f.name,
		"target", s.mu.store.targets[f.name], "by", by, "reason", f.reason)
}
