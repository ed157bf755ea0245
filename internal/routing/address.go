package routing

import (
	"strings"

	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/picker"
)

// place is where requests are sent: a route with its one pool or its variants, a
// group, or a provider's pin. Immutable.
type place struct {
	pools   []*Pool
	total   uint64 // of weights
	weights []int  // of variants; nil if there are none
	names   []string
	// anyModel says that a member serves whatever model is asked for: that is the adapter then.
	anyModel bool
}

// Address is what a request asks for. The zero value leads nowhere.
type Address struct {
	place *place
	model string // what stands right of the slug of a group or provider
}

// Lookup gives what a request asks for: by its model, or by its path if it names none.
// It is not ok for a miss, which an address is too when it is hidden from the caller.
func (s *Snapshot) Lookup(q *request.Request, caller string) (Address, bool) {
	if q.Model == "" {
		p := s.byPath(q.Path)
		return Address{place: p}, p != nil
	}
	return s.lookup(q.Model, caller)
}

// lookup resolves a model string: the whole of it is a route, or what is left of
// the first slash is the slug of a provider or group.
func (s *Snapshot) lookup(model, caller string) (Address, bool) {
	if p := s.routes[model]; p != nil {
		return Address{place: p}, true
	}
	slug, right, _ := strings.Cut(model, "/")
	if slug == "" || right == "" {
		return Address{}, false
	}
	p := s.slugs[slug]
	if p == nil || p.pools[0].key.kind == pinPool && !s.allowed(caller).has(slug) {
		return Address{}, false
	}
	return Address{place: p, model: right}, true
}

// ServesPath tells whether requests without a model are served on this path (without query).
func (s *Snapshot) ServesPath(path string) bool { return s.byPath(path) != nil }

// byPath gives the route of the longest configured beginning of a path, or nil.
func (s *Snapshot) byPath(path string) *place {
	for i := range s.paths {
		if strings.HasPrefix(path, s.paths[i].prefix) {
			return s.paths[i].place
		}
	}
	return nil
}

// providers are the slugs that a caller may use; nil = all.
type providers map[string]bool

func (p providers) has(slug string) bool { return p == nil || slug != "" && p[slug] }

func (s *Snapshot) allowed(caller string) providers {
	if caller == "" {
		return nil
	}
	return s.callers[caller]
}

// Limited tells whether a caller may use some providers only.
func (s *Snapshot) Limited(caller string) bool { return s.allowed(caller) != nil }

// Models gives the models that a caller may ask for by name: routes in list order, then
// slug/model for every model that members of groups declare.
func (s *Snapshot) Models(caller string) []string {
	allowed := s.allowed(caller)
	list := []string{}
	for i := range s.models {
		if m := &s.models[i]; m.place.usable(allowed, m.member) {
			list = append(list, m.id)
		}
	}
	return list
}

// HasModel tells whether Models of the caller has this one.
func (s *Snapshot) HasModel(id, caller string) bool {
	allowed := s.allowed(caller)
	for i := range s.models {
		if m := &s.models[i]; m.id == id && m.place.usable(allowed, m.member) {
			return true
		}
	}
	return false
}

// model is one that can be asked for by name.
type model struct {
	id     string
	place  *place
	member string // the declared model of a group's members, "" = of a route
}

// usable tells whether the caller may use a target of the place, of those with this
// declared model if one is given.
func (p *place) usable(allowed providers, member string) bool {
	for _, pool := range p.pools {
		for i := range pool.targets {
			if t := &pool.targets[i]; (member == "" || t.Model == member) && allowed.has(t.Provider) {
				return true
			}
		}
	}
	return false
}

// reachable tells whether some target may be chosen at all.
func (p *place) reachable(allowed providers) bool {
	for _, pool := range p.pools {
		for i := range pool.targets {
			if t := &pool.targets[i]; t.open() && allowed.has(t.Provider) {
				return true
			}
		}
	}
	return false
}

// adapter gives the adapter that the address names, if it does.
func (a Address) adapter() string {
	if a.place.anyModel && a.place.pools[0].key.kind == groupPool {
		return a.model
	}
	return ""
}

// primary draws the variant that is asked first, in proportion to the weights. draw gives
// an even number below its argument.
func (p *place) primary(draw func(uint64) uint64) int {
	if len(p.weights) < 2 {
		return 0
	}
	x := draw(p.total)
	for i, w := range p.weights {
		if x < uint64(w) {
			return i
		}
		x -= uint64(w)
	}
	return 0
}

// ownModel tells the picker which members never hold the adapter that a request names.
func ownModel(kind poolKind, model string) bool { return kind == groupPool && model != "" }

// pickerTarget is a target as strategies see it.
func pickerTarget(kind poolKind, id, model string, weight int) picker.Target {
	return picker.Target{ID: id, Weight: weight, OwnModel: ownModel(kind, model)}
}
