package routing

import (
	"fmt"
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/request"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/wire"
	"github.com/pointsman/pointsman/picker"
)

// Snapshot is an immutable routing configuration.
type Snapshot struct {
	Config *config.Config
	Reader *request.Reader

	pools  []*Pool // in list order
	byName map[string]*Pool
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
		Config: cfg,
		Reader: request.NewReader(ReadOptions(cfg)),
		byName: make(map[string]*Pool, len(cfg.Routes)),
	}
	share := prefixShare(cfg)
	for i := range cfg.Routes {
		var old *Pool
		if prev != nil {
			old = prev.byName[cfg.Routes[i].Model]
		}
		p, err := newPool(cfg, &cfg.Routes[i], share, t, old)
		if err != nil {
			return nil, fmt.Errorf("route %q: %w", cfg.Routes[i].Model, err)
		}
		s.pools = append(s.pools, p)
		s.byName[p.Name] = p
	}
	return s, nil
}

// prefixShare is the bound of one target's prefix history that keeps all of them
// together within prefix.max_total_bytes.
func prefixShare(cfg *config.Config) int64 {
	n := int64(0)
	for i := range cfg.Routes {
		if cfg.Routes[i].Strategy == "cache_aware" {
			n += int64(len(cfg.Routes[i].Targets))
		}
	}
	return max(cfg.Prefix.MaxTotalBytes/max(n, 1), minPrefixBytes)
}

// Pools gives all pools in list order.
func (s *Snapshot) Pools() []*Pool { return s.pools }

// Pool gives the pool that a model string addresses, or nil: a miss.
func (s *Snapshot) Pool(model string) *Pool { return s.byName[model] }

// Targets gives the ids of all targets and the names of all endpoints.
func (s *Snapshot) Targets() (targets, endpoints map[string]bool) {
	targets, endpoints = make(map[string]bool), make(map[string]bool)
	for _, p := range s.pools {
		for i := range p.targets {
			targets[p.targets[i].ID] = true
			endpoints[p.targets[i].Endpoint.Name()] = true
		}
	}
	return targets, endpoints
}

func newPool(cfg *config.Config, r *config.Route, share int64, t *tracker.Tracker, old *Pool) (*Pool, error) {
	p := &Pool{
		Name:       r.Model,
		Strategy:   r.Strategy,
		MaxRetries: r.Retry.MaxRetries,
		timeout:    [2]time.Duration{picker.Unary: r.Timeouts.Request.Unary, picker.Stream: r.Timeouts.Request.Stream},
		perTry: [2]bool{
			picker.Unary:  slices.Contains(r.Retry.OnTimeout, picker.Unary.String()),
			picker.Stream: slices.Contains(r.Retry.OnTimeout, picker.Stream.String()),
		},
	}
	inputs := picker.Config{Strategy: r.Strategy, Settings: settings(r, share)}
	for i := range r.Targets {
		rt := &r.Targets[i]
		pr := &cfg.Providers[rt.ProviderIndex]
		cluster := wire.ClusterName(rt.ID)
		if cfg.Envoy.Clusters == config.ClustersExternal {
			cluster = pr.Cluster
		}
		endpoint := pr.Slug
		if endpoint == "" {
			endpoint = pr.Name // a provider without a slug is still one endpoint
		}
		p.targets = append(p.targets, Target{
			ID: rt.ID, Provider: pr.Slug, Model: rt.Model, Cluster: cluster, Weight: rt.Weight,
			State: t.Target(rt.ID), Endpoint: t.Endpoint(endpoint),
		})
		inputs.Targets = append(inputs.Targets, picker.Target{ID: rt.ID, Weight: rt.Weight})
	}
	var before *chooser
	if old != nil {
		before = old.chooser
	}
	var err error
	if p.chooser, err = newChooser(inputs, before); err != nil {
		return nil, err
	}
	if old != nil && old.same(p) {
		return old, nil
	}
	return p, nil
}

func settings(r *config.Route, share int64) picker.Settings {
	s := picker.DefaultSettings()
	s.PrefixThreshold = r.Prefix.Threshold
	s.GuardMargin, s.GuardRatio = r.LoadGuard.Margin, r.LoadGuard.Ratio
	s.PrefixMaxBytes = r.Prefix.MaxBytes
	if s.PrefixMaxBytes == 0 || s.PrefixMaxBytes > share {
		s.PrefixMaxBytes = share
	}
	return s
}
