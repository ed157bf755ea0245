package routing

import (
	"fmt"
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/tracker"
	"github.com/pointsman/pointsman/internal/wire"
	"github.com/pointsman/pointsman/picker"
)

// builder fills a snapshot.
type builder struct {
	cfg      *config.Config
	tracker  *tracker.Tracker
	snapshot *Snapshot
	prev     *Snapshot // may be nil
	share    int64     // of one target's prefix history, in bytes
}

// plan is what a pool is made of.
type plan struct {
	key       poolKey
	name      string
	strategy  string
	targets   []config.Target
	timeouts  config.RouteTimeouts
	retry     config.RouteRetry
	prefix    config.RoutePrefix
	loadGuard config.LoadGuard
}

func (b *builder) build() error {
	for i := range b.cfg.Routes {
		if err := b.route(&b.cfg.Routes[i]); err != nil {
			return fmt.Errorf("route %q: %w", b.cfg.Routes[i].Model, err)
		}
	}
	for i := range b.cfg.Groups {
		if err := b.group(&b.cfg.Groups[i]); err != nil {
			return fmt.Errorf("group %q: %w", b.cfg.Groups[i].Name, err)
		}
	}
	for i := range b.cfg.Providers {
		if err := b.pin(i); err != nil {
			return fmt.Errorf("provider %q: %w", b.cfg.Providers[i].Name, err)
		}
	}
	return nil
}

func (b *builder) route(r *config.Route) error {
	s := b.snapshot
	pl := &place{}
	base := plan{
		key: poolKey{routePool, r.Model, ""}, name: r.Model, strategy: r.Strategy, targets: r.Targets,
		timeouts: r.Timeouts, retry: r.Retry, prefix: r.Prefix, loadGuard: r.LoadGuard,
	}
	plans := []plan{base}
	if len(r.Variants) > 0 {
		plans = plans[:0]
		for _, v := range r.Variants {
			base.key.variant, base.name, base.targets = v.Name, r.Model+"::"+v.Name, v.Targets
			plans = append(plans, base)
			pl.names = append(pl.names, v.Name)
			pl.weights = append(pl.weights, v.Weight)
			pl.total += uint64(v.Weight)
		}
	}
	for i := range plans {
		p, err := b.pool(&plans[i])
		if err != nil {
			return err
		}
		pl.pools = append(pl.pools, p)
		s.pools = append(s.pools, p)
	}
	s.routes[r.Model] = pl
	s.models = append(s.models, model{id: r.Model, place: pl})
	return nil
}

func (b *builder) group(g *config.Group) error {
	s := b.snapshot
	p, err := b.pool(&plan{
		key: poolKey{groupPool, g.Slug, ""}, name: g.Slug + "/*", strategy: g.Strategy, targets: g.Members,
		timeouts: g.Timeouts, retry: g.Retry, prefix: g.Prefix, loadGuard: g.LoadGuard,
	})
	if err != nil {
		return err
	}
	pl := &place{pools: []*Pool{p}}
	var declared []string
	for _, m := range g.Members {
		if m.Model == "" {
			pl.anyModel = true
		} else if !slices.Contains(declared, m.Model) {
			declared = append(declared, m.Model)
			s.models = append(s.models, model{id: g.Slug + "/" + m.Model, place: pl, member: m.Model})
		}
	}
	s.pools = append(s.pools, p)
	s.slugs[g.Slug] = pl
	return nil
}

// pin makes the place that leads to one provider. Its settings are the deployment's.
func (b *builder) pin(i int) error {
	s, pr := b.snapshot, &b.cfg.Providers[i]
	id := pr.PinID()
	if id == "" {
		return nil
	}
	p, err := b.pool(&plan{
		key: poolKey{pinPool, pr.Slug, ""}, name: id,
		targets:  []config.Target{{Provider: pr.Name, ID: id, Weight: 1, ProviderIndex: i}},
		timeouts: config.RouteTimeouts{Request: b.cfg.Timeouts.Request},
		retry:    config.RouteRetry{OnTimeout: b.cfg.Retry.OnTimeout},
	})
	if err != nil {
		return err
	}
	s.pins = append(s.pins, p)
	s.slugs[pr.Slug] = &place{pools: []*Pool{p}, anyModel: true}
	return nil
}

// pool makes a pool, or takes over the one of the snapshot before.
func (b *builder) pool(pl *plan) (*Pool, error) {
	p := &Pool{
		Name:       pl.name,
		Strategy:   pl.strategy,
		MaxRetries: pl.retry.MaxRetries,
		key:        pl.key,
		timeout:    [2]time.Duration{picker.Unary: pl.timeouts.Request.Unary, picker.Stream: pl.timeouts.Request.Stream},
		perTry: [2]bool{
			picker.Unary:  slices.Contains(pl.retry.OnTimeout, picker.Unary.String()),
			picker.Stream: slices.Contains(pl.retry.OnTimeout, picker.Stream.String()),
		},
	}
	inputs := picker.Config{Strategy: pl.strategy, Settings: b.settings(pl)}
	for i := range pl.targets {
		ct := &pl.targets[i]
		p.targets = append(p.targets, b.target(ct))
		inputs.Targets = append(inputs.Targets, pickerTarget(pl.key.kind, ct.ID, ct.Model, ct.Weight))
	}
	var old *Pool
	if b.prev != nil {
		old = b.prev.byKey[pl.key]
	}
	if pl.key.kind != pinPool {
		var before *chooser
		if old != nil {
			before = old.chooser
		}
		var err error
		if p.chooser, err = newChooser(inputs, before); err != nil {
			return nil, err
		}
	}
	if old != nil && old.same(p) {
		p = old
	}
	b.snapshot.byKey[pl.key] = p
	return p, nil
}

func (b *builder) target(ct *config.Target) Target {
	pr := &b.cfg.Providers[ct.ProviderIndex]
	cluster := wire.ClusterName(ct.ID)
	if b.cfg.Envoy.Clusters == config.ClustersExternal {
		cluster = pr.Cluster
	}
	endpoint := pr.Slug
	if endpoint == "" {
		endpoint = pr.Name // a provider without a slug is still one endpoint
	}
	return Target{
		ID: ct.ID, Provider: pr.Slug, Model: ct.Model, Cluster: cluster, Weight: ct.Weight, Limit: int64(pr.MaxInFlight),
		State: b.tracker.Target(ct.ID), Endpoint: b.tracker.Endpoint(endpoint),
	}
}

func (b *builder) settings(pl *plan) picker.Settings {
	s := picker.DefaultSettings()
	s.PrefixThreshold = pl.prefix.Threshold
	s.GuardMargin, s.GuardRatio = pl.loadGuard.Margin, pl.loadGuard.Ratio
	s.PrefixMaxBytes = pl.prefix.MaxBytes
	if s.PrefixMaxBytes == 0 || s.PrefixMaxBytes > b.share {
		s.PrefixMaxBytes = b.share
	}
	return s
}
