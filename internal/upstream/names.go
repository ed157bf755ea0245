package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// lookups is how many names are resolved at once.
	lookups = 16
	// lookupTime bounds one resolution.
	lookupTime = 5 * time.Second
	// missingRetry is how soon a name is tried again that has never been resolved: its
	// targets cannot be reached until then.
	missingRetry = 5 * time.Second
	// maxAddresses bounds the addresses of one name that are used.
	maxAddresses = 64
)

// name is a host name with its last addresses.
type name struct {
	host      string
	addresses []netip.Addr // sorted
	tried     time.Time
	trouble   trouble
}

// resolveForever resolves all names every dns.refresh, at once after a reload, and those
// that have never been resolved more often.
func (s *Sources) resolveForever(ctx context.Context) {
	var last time.Time
	tick := time.NewTicker(resolveTick)
	defer tick.Stop()
	for {
		now := time.Now()
		due, ok := s.dueNames(last, now)
		if ok {
			last = now
		}
		if len(due) > 0 {
			s.resolveInto(ctx, due)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// resolveTick is how often is looked whether it is time to resolve: dns.refresh is no less.
const resolveTick = 100 * time.Millisecond

// dueNames gives copies of the names to be resolved now; all tells that these are all.
func (s *Sources) dueNames(last, now time.Time) (due []*name, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.cfg == nil {
		return nil, false
	}
	all = now.Sub(last) >= s.mu.cfg.DNS.Refresh
	if s.mu.newNames {
		// Load has just resolved them.
		s.mu.newNames = false
		for _, n := range s.mu.names {
			if n.trouble.cause == "" {
				n.tried = now
			}
		}
		return nil, true
	}
	for _, n := range s.mu.names {
		if all || len(n.addresses) == 0 && now.Sub(n.tried) >= missingRetry {
			n.tried = now
			due = append(due, &name{host: n.host})
		}
	}
	return due, all
}

// resolveInto resolves names and takes over what was found, for those still in force.
func (s *Sources) resolveInto(ctx context.Context, due []*name) {
	s.resolve(ctx, due)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range due {
		n := s.mu.names[found.host]
		if n == nil {
			continue
		}
		if found.trouble.cause != "" {
			n.trouble.cause = found.trouble.cause
			s.warnName(n, time.Now())
			continue
		}
		if n.trouble.cause != "" {
			s.log.Info("name is resolved again", "host", n.host)
		}
		n.trouble = trouble{}
		if !slices.Equal(n.addresses, found.addresses) {
			n.addresses = found.addresses
			s.wake()
		}
	}
}

// resolve looks names up side by side. One that fails keeps the addresses it has.
func (s *Sources) resolve(ctx context.Context, names []*name) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, lookups)
	for _, n := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, lookupTime)
			defer cancel()
			found, err := s.lookUp(ctx, n.host)
			if err != nil {
				n.trouble.cause = reason(err)
				return
			}
			n.addresses, n.trouble.cause = found, ""
		})
	}
}

// lookUp gives the usable addresses of a name: those of IPv4 if there are any, since many a
// host has an IPv6 address that leads nowhere from here.
func (s *Sources) lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := s.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var v4, v6 []netip.Addr
	for _, ip := range found {
		switch ip = ip.Unmap(); {
		case !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "":
		case ip.Is4():
			v4 = append(v4, ip)
		default:
			v6 = append(v6, ip)
		}
	}
	if len(v4) == 0 {
		v4 = v6
	}
	if len(v4) == 0 {
		return nil, errors.New("no usable address")
	}
	slices.SortFunc(v4, netip.Addr.Compare)
	v4 = slices.Compact(v4)
	return v4[:min(len(v4), maxAddresses)], nil
}

// reason is why a name cannot be resolved, in few words that stay the same.
func reason(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.As(err, &dns) && dns.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return err.Error()
}

func (s *Sources) warnName(n *name, now time.Time) {
	if !n.trouble.due(now) {
		return
	}
	if len(n.addresses) == 0 {
		s.log.Warn("name cannot be resolved: its targets are not reachable", "host", n.host, "error", n.trouble.cause)
		return
	}
	s.log.Warn("name cannot be resolved: its last addresses stay in use", "host", n.host, "error", n.trouble.cause)
}
