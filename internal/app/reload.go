package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/upstream"
)

// install puts a configuration into force. On an error nothing has changed.
//
// The tracker must know a target before the control plane says that it is reachable, so
// the snapshot is made before the update. The update may fail, so it comes before
// everything else. A removed target is chosen until the swap, for which its cluster stays
// long enough.
//
// It waits for the names of providers, as long as ctx lives and 5 s at most. What the
// configuration refers to and is not there, a key or a file, is config.Faults.
func (a *App) install(ctx context.Context, cfg *config.Config) error {
	loaded, err := a.sources.Load(ctx, cfg)
	if err != nil {
		a.file.unmet = true
		return err
	}
	resources, err := envoy.BuildOver(cfg, upstreams(loaded.States), a.chain)
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.Path, err)
	}
	before := a.router.Snapshot() // nil at the start
	snapshot, err := routing.NewSnapshot(cfg, a.tracker, before)
	if err == nil {
		err = a.xds.Update(resources)
	}
	if err != nil {
		if before != nil {
			a.retain(before) // what the tracker has heard of in vain is forgotten again
		}
		return fmt.Errorf("%s: %w", cfg.Path, err)
	}
	retry := make(map[int]bool, len(cfg.Retry.OnStatus))
	for _, status := range cfg.Retry.OnStatus {
		retry[status] = true
	}
	a.retry.Store(&retry)
	a.cfg.Store(cfg)
	a.sources.Configure(loaded)
	// Requests that began under a chain may run for as long as answers do, so there is no
	// way back.
	a.chain = resources.Chain
	a.tracker.Configure(trackerSettings(cfg))
	a.router.Swap(snapshot)
	a.retain(snapshot)
	a.metrics.Configured(snapshot)
	a.log.SetLevel(cfg.Log.Level)
	a.reqLog.Switch(cfg.Log.Requests)
	for _, w := range cfg.Warnings {
		a.events.Warn("configuration", "warning", w)
	}
	return nil
}

func (a *App) retain(s *routing.Snapshot) {
	targets, endpoints := s.Targets()
	a.tracker.Retain(targets, endpoints, time.Now())
}

// refresh gives Envoy the addresses and keys that have changed under the configuration in
// force.
func (a *App) refresh() {
	resources, err := envoy.BuildOver(a.cfg.Load(), upstreams(a.sources.Now()), a.chain)
	if err == nil {
		err = a.xds.Update(resources)
	}
	if err != nil {
		a.events.Error("changed addresses or keys cannot be given to Envoy", "error", err.Error())
	}
}

// upstreams is what Envoy's resources are made of.
func upstreams(states map[string]upstream.State) map[string]envoy.Upstream {
	authorities := upstream.SystemAuthorities()
	all := make(map[string]envoy.Upstream, len(states))
	for name, s := range states {
		all[name] = envoy.Upstream{Addresses: s.Addresses, Key: s.Key, Authorities: authorities}
	}
	return all
}

// lastFile is what the configuration file was when it was last looked at.
type lastFile struct {
	content    []byte
	unreadable bool // it still was, after content
	unmet      bool // content was refused for what it refers to, which may be there by now
}

// reload reads the file again and puts it into force if it changed. A refused
// file changes nothing.
func (a *App) reload(ctx context.Context) {
	data, err := config.Read(a.opts.ConfigPath)
	if err != nil {
		if !a.file.unreadable {
			a.file.unreadable = true
			a.refuse(err)
		}
		return
	}
	a.file.unreadable = false
	if bytes.Equal(data, a.file.content) {
		return
	}
	a.file.content, a.file.unmet = data, false
	cfg, err := config.Parse(a.opts.ConfigPath, data)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, reloadResolve)
		defer cancel()
		err = a.replace(ctx, cfg)
	}
	if err != nil {
		a.refuse(err)
	}
}

// replace puts a changed configuration into force, and says what of it is not.
func (a *App) replace(ctx context.Context, cfg *config.Config) error {
	if a.tempDir != "" && !cfg.Listen.GRPCSet {
		cfg.Listen.GRPC = a.started.Listen.GRPC // the socket in the temporary folder
	}
	if cfg.Envoy.Clusters != a.started.Envoy.Clusters {
		// Half of it would be another shape: who guards the client's credentials is settled
		// at the start.
		return config.Faults{{File: cfg.Path, Field: "envoy.clusters", Msg: "cannot be changed by a reload: restart pointsman"}}
	}
	renewed := cfg.Envoy.Listener != a.cfg.Load().Envoy.Listener
	if err := a.install(ctx, cfg); err != nil {
		return err
	}
	a.events.Info("configuration in force", "routes", len(cfg.Routes), "providers", len(cfg.Providers))
	for _, field := range a.needRestart(cfg) {
		a.events.Warn("a changed setting takes effect after a restart only", "field", field)
	}
	if renewed {
		a.events.Warn("Envoy's listener is renewed: answers older than its drain time will be cut", "field", "envoy.listener")
	}
	return nil
}

// needRestart lists the settings that differ from the start and that only a new
// process can follow.
func (a *App) needRestart(now *config.Config) []string {
	old := a.started
	var fields []string
	for _, f := range []struct {
		name    string
		changed bool
	}{
		{"listen.grpc", old.Listen.GRPC != now.Listen.GRPC},
		{"listen.socket_mode", old.Listen.SocketMode != now.Listen.SocketMode},
		{"listen.admin", old.Listen.Admin != now.Listen.Admin},
		{"envoy.admin", old.Envoy.Admin != now.Envoy.Admin},
		{"log.format", old.Log.Format != now.Log.Format},
	} {
		if f.changed {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// refuse counts a refused configuration and logs each of its faults.
func (a *App) refuse(err error) {
	a.metrics.ReloadRefused()
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			a.events.Error("configuration refused", "fault", f.String())
		}
		return
	}
	a.events.Error("configuration refused", "fault", err.Error())
}
