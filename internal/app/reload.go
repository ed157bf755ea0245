package app

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/routing"
)

// install puts a configuration into force. On an error nothing has changed.
//
// The tracker must know a target before the control plane says that it is reachable, so
// the snapshot is made before the update. The update may fail, so it comes before
// everything else. A removed target is chosen until the swap, for which its cluster stays
// long enough.
func (a *App) install(cfg *config.Config) error {
	resources, err := envoy.Build(cfg)
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

// lastFile is what the configuration file was when it was last looked at.
type lastFile struct {
	content    []byte
	unreadable bool // it still was, after content
}

// reload reads the file again and puts it into force if it changed. A refused
// file changes nothing.
func (a *App) reload() {
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
	a.file.content = data
	cfg, err := config.Parse(a.opts.ConfigPath, data)
	if err == nil {
		err = a.replace(cfg)
	}
	if err != nil {
		a.refuse(err)
	}
}

// replace puts a changed configuration into force, and says what of it is not.
func (a *App) replace(cfg *config.Config) error {
	if a.tempDir != "" && !cfg.Listen.GRPCSet {
		cfg.Listen.GRPC = a.started.Listen.GRPC // the socket in the temporary folder
	}
	if cfg.Envoy.Clusters != a.started.Envoy.Clusters {
		// Half of it would be another shape: who guards the client's credentials is settled
		// at the start.
		return config.Faults{{File: cfg.Path, Field: "envoy.clusters", Msg: "cannot be changed by a reload: restart pointsman"}}
	}
	renewed := cfg.Envoy.Listener != a.cfg.Load().Envoy.Listener
	if err := a.install(cfg); err != nil {
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
		{"limits.body", now.Limits.Body > a.maxBody},
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
