package config

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// check looks at what no single value shows, and fills in what follows from
// others. It says nothing of a field in which a fault was found already.
func check(d *decoder, cfg *Config) {
	cfg.Listen.GRPCSet = d.places["listen.grpc"].set
	checkListeners(d, cfg)
	checkOrder(d, "retry.base_backoff_ms", "retry.max_backoff_ms", cfg.Retry.BaseBackoff, cfg.Retry.MaxBackoff)
	checkOrder(d, "cooldown.base_secs", "cooldown.max_secs", cfg.Cooldown.Base, cfg.Cooldown.Max)
	checkProviders(d, cfg)
	checkPools(d, cfg)
	checkCallers(d, cfg)
}

// at gives the position of a field, and its line: that of the nearest block around
// it when the field itself is not in the file.
func (d *decoder) at(format string, args ...any) (field, int) {
	full := fmt.Sprintf(format, args...)
	for path := full; path != ""; {
		if p := d.places[path]; p.line > 0 {
			return field{path: full}, p.line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return field{path: full}, d.places[""].line
}

// ok tells whether a field has a value in the file, and no fault in it.
func (d *decoder) ok(format string, args ...any) bool {
	p := d.places[fmt.Sprintf(format, args...)]
	return p.set && !p.bad
}

// bad tells whether a fault was found in a field.
func (d *decoder) bad(format string, args ...any) bool {
	return d.places[fmt.Sprintf(format, args...)].bad
}

// checkOrder refuses a maximum below its base, at the one which the file sets.
func checkOrder(d *decoder, basePath, maxPath string, base, most time.Duration) {
	if most >= base || d.bad("%s", basePath) || d.bad("%s", maxPath) {
		return
	}
	if d.ok("%s", maxPath) {
		f, line := d.at("%s", maxPath)
		d.fault(f, line, "must not be below %s, which is %s", basePath, base)
		return
	}
	f, line := d.at("%s", basePath)
	d.fault(f, line, "must not be above %s, which is %s", maxPath, most)
}

// checkListeners finds listeners that would take each other's address. Envoy and
// pointsman may stand in different network name spaces, so between them it is a warning.
func checkListeners(d *decoder, cfg *Config) {
	at, line := d.at("listen.admin")
	if cfg.Listen.GRPC.Network == "tcp" && sameAddress(cfg.Listen.Admin, cfg.Listen.GRPC.Addr) {
		d.fault(at, line, "%s is taken by listen.grpc", cfg.Listen.Admin)
	}
	if cfg.Envoy.Clusters != ClustersManaged {
		return // Envoy's own configuration says where it listens
	}
	if sameAddress(cfg.Listen.Admin, cfg.Envoy.Listener) {
		d.warnings.add(line, at.path, "the same address as envoy.listener: one of them will fail, unless Envoy has a network of its own")
	}
	if sameAddress(cfg.Listen.Admin, cfg.Envoy.Admin) {
		d.warnings.add(line, at.path, "the same address as envoy.admin: one of them will fail, unless Envoy has a network of its own")
	}
	if at, line := d.at("envoy.admin"); sameAddress(cfg.Envoy.Admin, cfg.Envoy.Listener) {
		d.fault(at, line, "%s is taken by envoy.listener (%s)", cfg.Envoy.Admin, cfg.Envoy.Listener)
	}
}

// sameAddress tells whether two listeners cannot be opened together. Port 0 is free for all.
func sameAddress(a, b string) bool {
	x, errX := netip.ParseAddrPort(a)
	y, errY := netip.ParseAddrPort(b)
	return errX == nil && errY == nil && x.Port() == y.Port() && x.Port() != 0 &&
		(x.Addr() == y.Addr() || x.Addr().IsUnspecified() || y.Addr().IsUnspecified())
}

func checkProviders(d *decoder, cfg *Config) {
	if d.ok("providers") && len(cfg.Providers) == 0 {
		f, line := d.at("providers")
		d.fault(f, line, "must name at least one provider")
	}
	names, slugs := map[string]int{}, map[string]int{}
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		_, p.Line = d.at("providers[%d]", i)
		nameField, nameLine := d.at("providers[%d].name", i)
		sameName := false
		if d.ok("providers[%d].name", i) {
			var first int
			if first, sameName = names[p.Name]; sameName {
				d.fault(nameField, nameLine, "%s is already the name of providers[%d] (line %d)", quote(p.Name), first, cfg.Providers[first].Line)
			} else {
				names[p.Name] = i
			}
		}
		checkProviderSlug(d, cfg, i, sameName, slugs)
		if d.ok("providers[%d].url", i) {
			a, err := parseURL(p.URL)
			if err != nil {
				f, line := d.at("providers[%d].url", i)
				d.fault(f, line, "%s", err)
			}
			p.HTTPS, p.Host, p.Hostname, p.Port, p.Prefix, p.Addr = a.https, a.host, a.hostname, a.port, a.prefix, a.addr
		}
		checkCredentials(d, cfg, i)
		f, line := d.at("providers[%d].cluster", i)
		switch {
		case d.bad("envoy.clusters") || d.bad("%s", f.path):
		case cfg.Envoy.Clusters == ClustersExternal && p.Cluster == "":
			d.fault(f, line, "is required with envoy.clusters: external: the name of your own cluster for this provider")
		case cfg.Envoy.Clusters == ClustersManaged && p.Cluster != "":
			d.warnings.add(line, f.path, "is read only with envoy.clusters: external")
		}
	}
}

func checkProviderSlug(d *decoder, cfg *Config, i int, sameName bool, slugs map[string]int) {
	p := &cfg.Providers[i]
	f, line := d.at("providers[%d].slug", i)
	explicit := d.ok("%s", f.path)
	if !explicit {
		if d.bad("%s", f.path) || sameName {
			return // the slug of a name used twice is the same fault
		}
		p.Slug = Slug(p.Name)
		f, line = d.at("providers[%d].name", i)
	}
	if p.Slug == "" {
		return
	}
	first, taken := slugs[p.Slug]
	switch {
	case !taken:
		slugs[p.Slug] = i
	case explicit:
		d.fault(f, line, "%s is already the slug of providers[%d] (line %d)", quote(p.Slug), first, cfg.Providers[first].Line)
	default:
		d.fault(f, line, "its slug %s is already that of providers[%d] (line %d): set a slug", quote(p.Slug), first, cfg.Providers[first].Line)
	}
}
