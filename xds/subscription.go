package xds

import (
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// wildcardName subscribes to all resources of a type.
const wildcardName = "*"

// subscription is what one stream wants of one type, and what it has.
type subscription struct {
	typeURL  string
	wildcard bool
	names    map[string]bool // subscribed by name

	accepted map[string]string    // name -> version that the Envoy has for certain
	rejected map[string]rejection // name -> the version that it refused last
	pending  *pending             // sent, not answered
	owed     map[string]bool      // names that it must be told about, whatever it has
	greet    bool                 // it must be answered even if there is nothing
	suspects int                  // of what is next, so many hold one that was refused unnamed
}

type rejection struct{ version, reason string }

// pending is a response that was neither accepted nor rejected yet.
type pending struct {
	nonce    string
	versions map[string]string
	removed  []string
}

// newSubscription reads the first request of a type on a stream. What the Envoy
// says it holds has been accepted if it is what we would send.
func newSubscription(req *discoveryv3.DeltaDiscoveryRequest, canBeEmpty bool) *subscription {
	sub := &subscription{
		typeURL:  req.GetTypeUrl(),
		names:    map[string]bool{},
		accepted: maps.Clone(req.GetInitialResourceVersions()),
		rejected: map[string]rejection{},
		owed:     map[string]bool{},
	}
	if sub.accepted == nil {
		sub.accepted = map[string]string{}
	}
	// A first request that names nothing means everything, of the types of which
	// that can be wanted. Envoy waits for an answer to it before it goes on, unless it
	// has been through that before.
	sub.wildcard = canBeEmpty && len(req.GetResourceNamesSubscribe()) == 0
	sub.greet = sub.wildcard && len(sub.accepted) == 0
	return sub
}

// change adds and drops names.
func (s *subscription) change(req *discoveryv3.DeltaDiscoveryRequest, first bool) {
	for _, name := range req.GetResourceNamesSubscribe() {
		if name == wildcardName {
			s.greet = s.greet || !s.wildcard && len(s.accepted) == 0
			s.wildcard = true
			continue
		}
		s.names[name] = true
		// Whoever subscribes gets an answer, also when he has the resource
		// already; except that a new stream says what it has.
		if _, has := s.accepted[name]; !first || !has {
			s.owed[name] = true
		}
	}
	for _, name := range req.GetResourceNamesUnsubscribe() {
		if name == wildcardName {
			s.wildcard = false
			continue
		}
		delete(s.names, name)
		delete(s.owed, name)
		if s.wildcard {
			s.owed[name] = true // it stays or it is gone: the Envoy asks which
		}
	}
	if s.wildcard {
		return
	}
	// An Envoy forgets what it does not subscribe to.
	maps.DeleteFunc(s.accepted, func(name, _ string) bool { return !s.names[name] })
	maps.DeleteFunc(s.rejected, func(name string, _ rejection) bool { return !s.names[name] })
}

func (s *subscription) wants(name string) bool { return s.wildcard || s.names[name] }

// todo lists, in order, what the Envoy should get and what it should lose.
func (s *subscription) todo(have map[string]*resource) (send, remove []string) {
	for name, r := range have {
		if !s.wants(name) || s.rejected[name].version == r.version {
			continue
		}
		if s.accepted[name] != r.version || s.owed[name] {
			send = append(send, name)
		}
	}
	for name := range s.accepted {
		if have[name] == nil {
			remove = append(remove, name)
		}
	}
	for name := range s.owed {
		if _, listed := s.accepted[name]; have[name] == nil && !listed {
			remove = append(remove, name)
		}
	}
	slices.Sort(send)
	slices.Sort(remove)
	return send, remove
}

// settled tells whether the Envoy has accepted, or refused, all that it should have.
func (s *subscription) settled(have map[string]*resource) bool {
	if s.pending != nil || s.greet {
		return false
	}
	send, remove := s.todo(have)
	return len(send) == 0 && len(remove) == 0
}

// next makes the next response, nil if there is none or one is on its way.
func (s *subscription) next(have map[string]*resource, nonce string) *discoveryv3.DeltaDiscoveryResponse {
	if s.pending != nil {
		return nil
	}
	send, remove := s.todo(have)
	if len(send) == 0 && len(remove) == 0 && !s.greet {
		s.suspects = 0
		return nil
	}
	if s.suspects > 1 && len(send) > s.suspects/2 {
		send = send[:s.suspects/2]
	} else if s.suspects == 1 {
		send = send[:min(1, len(send))]
	}
	resp := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: s.typeURL, Nonce: nonce, RemovedResources: remove}
	s.pending = &pending{nonce: nonce, versions: make(map[string]string, len(send)), removed: remove}
	for _, name := range send {
		r := have[name]
		s.pending.versions[name] = r.version
		resp.Resources = append(resp.Resources, &discoveryv3.Resource{Name: name, Version: r.version, Resource: r.body})
	}
	return resp
}

// answered takes the Envoy's answer to a response. Answers to anything but the
// one on its way are old. It gives the resources that are refused now for good.
func (s *subscription) answered(req *discoveryv3.DeltaDiscoveryRequest) (refused []fault) {
	p := s.pending
	if p == nil || req.GetResponseNonce() != p.nonce {
		return nil
	}
	s.pending, s.greet = nil, false
	if req.GetErrorDetail() == nil {
		s.suspects = max(s.suspects-len(p.versions), 0)
		s.accept(p)
		return nil
	}
	names := slices.Sorted(maps.Keys(p.versions))
	message := req.GetErrorDetail().GetMessage()
	if s.typeURL == secrets.typeURL() {
		message = secretRefused(message, names)
	}
	bad := blamed(message, names)
	switch {
	case len(bad) > 0:
	case len(names) == 1:
		bad[names[0]] = tidy(message)
	case len(names) == 0:
		// Nothing but removals, which there is no other way to say.
		s.accept(p)
		return nil
	default:
		// Nobody is named: the bad one is found by halving.
		s.suspects = len(names)
		return nil
	}
	s.suspects = 0
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		s.rejected[name] = rejection{p.versions[name], bad[name]}
		delete(s.owed, name)
		refused = append(refused, fault{name, p.versions[name], bad[name]})
	}
	return refused
}

// secretRefused stands for an Envoy's message about secrets, which may quote them: of
// it no more is kept than the names.
func secretRefused(message string, names []string) string {
	out := "the proxy refused it"
	for name := range blamed(message, names) {
		out = name + ": " + out
	}
	return out
}

func (s *subscription) accept(p *pending) {
	for name, version := range p.versions {
		if s.wants(name) {
			s.accepted[name] = version
		}
		delete(s.rejected, name)
		delete(s.owed, name)
	}
	for _, name := range p.removed {
		delete(s.accepted, name)
		delete(s.rejected, name)
		delete(s.owed, name)
	}
}
