package routing

import (
	"cmp"
	"slices"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/picker"
)

// Snapshot is an immutable routing configuration.
type Snapshot struct {
	Config *config.Config
	Reader *request.Reader

	pools  []*Pool // routes and variants, then groups, in list order
	pins   []*Pool
	byKey  map[poolKey]*Pool
	routes map[string]*place // by model
	slugs  map[string]*place // groups and pins
	models []model
	paths  []pathPrefix // the longest first

	callers map[string]providers // those that may use some only
}

// pathPrefix sends requests without a model to a route.
type pathPrefix struct {
	prefix string
	place  *place
}

// minPrefixBytes is the least that prefix.max_total_bytes leaves to one target
// of one pool: fewer than 32 full texts would make the history useless.
const minPrefixBytes = 1 << 20

// NewSnapshot builds the snapshot of a configuration. Pools of prev, which may be nil,
// are taken over by name: as they are if nothing about them changed, else with the
// same balancer if its inputs did not, else with what it knows of the targets that
// remain. Every target and endpoint is known to the tracker afterwards. prev is not
// changed and may stay in force.
func NewSnapshot(cfg *config.Config, t *tracker.Tracker, prev *Snapshot) (*Snapshot, error) {
	s := &Snapshot{
		Config:  cfg,
		Reader:  request.NewReader(ReadOptions(cfg)),
		byKey:   make(map[poolKey]*Pool),
		routes:  make(map[string]*place, len(cfg.Routes)),
		slugs:   make(map[string]*place, len(cfg.Providers)+len(cfg.Groups)),
		callers: make(map[string]providers),
	}
	b := &builder{cfg: cfg, tracker: t, snapshot: s, prev: prev, share: prefixShare(cfg)}
	if err := b.build(); err != nil {
		return nil, err
	}
	for _, e := range cfg.Passthrough {
		s.paths = append(s.paths, pathPrefix{e.PathPrefix, s.routes[e.Route]})
	}
	slices.SortStableFunc(s.paths, func(a, b pathPrefix) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	for _, a := range cfg.Callers.Allow {
		if len(a.Providers) > 0 {
			s.callers[a.Name] = make(providers, len(a.Providers))
			for _, slug := range a.Providers {
				s.callers[a.Name][slug] = true
			}
		}
	}
	return s, nil
}

// prefixShare is the bound of one target's prefix history that keeps all of them
// together within prefix.max_total_bytes.
func prefixShare(cfg *config.Config) int64 {
	n := int64(0)
	for i := range cfg.Routes {
		if r := &cfg.Routes[i]; picker.RemembersTexts(r.Strategy) {
			for _, list := range r.Lists() {
				n += int64(len(list))
			}
		}
	}
	for i := range cfg.Groups {
		if g := &cfg.Groups[i]; picker.RemembersTexts(g.Strategy) {
			n += int64(len(g.Members))
		}
	}
	return max(cfg.Prefix.MaxTotalBytes/max(n, 1), minPrefixBytes)
}

// Pools gives the pools of routes, variants and groups in list order. Pins are none of them.
func (s *Snapshot) Pools() []*Pool { return s.pools }

// Pins gives the pins of providers, each as a pool of one target without a strategy.
func (s *Snapshot) Pins() []*Pool { return s.pins }

// Pool gives the pool of the route of this name, which has no variants, or nil.
func (s *Snapshot) Pool(model string) *Pool { return s.byKey[poolKey{routePool, model, ""}] }

// Targets gives the ids of all targets and the names of all endpoints.
func (s *Snapshot) Targets() (targets, endpoints map[string]bool) {
	targets, endpoints = make(map[string]bool), make(map[string]bool)
	for _, list := range [][]*Pool{s.pools, s.pins} {
		for _, p := range list {
			for i := range p.targets {
				targets[p.targets[i].ID] = true
				endpoints[p.targets[i].Endpoint.Name()] = true
			}
		}
	}
	return targets, endpoints
}
