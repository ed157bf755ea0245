package config

import (
	"fmt"
	"slices"
)

// checkCallers looks at who may use what.
func checkCallers(d *decoder, cfg *Config) {
	c := &cfg.Callers
	id, line := d.at("callers.identity")
	header, metadata, key := d.ok("callers.identity.header"), d.ok("callers.identity.metadata"), d.ok("callers.identity.key")
	switch {
	case d.bad("callers.identity.header") || d.bad("callers.identity.metadata") || d.bad("callers.identity.key"):
	case header && (metadata || key):
		d.fault(id, line, "is a header, or metadata with its key, not both")
	case metadata != key:
		d.fault(id, line, "metadata and key go together")
	}
	if f, line := d.at("callers.trusted"); len(c.Trusted) == 0 && header && cfg.Envoy.Clusters == ClustersManaged {
		d.warnings.add(line, f.path, "no address is trusted: the header %s is believed from nobody, and every caller is anonymous", c.Identity.Header)
	} else if len(c.Trusted) > 0 && !header {
		d.warnings.add(line, f.path, "is read only with callers.identity.header")
	}
	if f, line := d.at("callers.allow"); len(c.Allow) > 0 && !header && !metadata {
		d.warnings.add(line, f.path, "limits nobody: without callers.identity every caller is anonymous")
	}
	slugs := make([]string, 0, len(cfg.Providers))
	for _, p := range cfg.Providers {
		if p.Slug != "" {
			slugs = append(slugs, p.Slug)
		}
	}
	names := map[string]int{}
	for i := range c.Allow {
		a := &c.Allow[i]
		path := fmt.Sprintf("callers.allow[%d]", i)
		_, a.Line = d.at("%s", path)
		if d.ok("%s.name", path) {
			if first, ok := names[a.Name]; ok {
				f, line := d.at("%s.name", path)
				d.fault(f, line, "%s is already the name of callers.allow[%d] (line %d)", quote(a.Name), first, c.Allow[first].Line)
			} else {
				names[a.Name] = i
			}
		}
		for _, slug := range a.Providers {
			if slices.Contains(slugs, slug) {
				continue
			}
			f, line := d.at("%s.providers", path)
			hint := "known: " + listed(slugs)
			if near := nearest(slug, slugs); near != "" {
				hint += "; did you mean " + near + "?"
			}
			d.fault(f, line, "%s is not the slug of a provider; %s", quote(slug), hint)
		}
	}
}

// checkCredentials looks at the reference to a provider's key and at its TLS files.
func checkCredentials(d *decoder, cfg *Config, i int) {
	p := &cfg.Providers[i]
	c := &p.Credentials
	path := fmt.Sprintf("providers[%d].credentials", i)
	f, line := d.at("%s", path)
	if d.ok("%s", path) {
		c.Line = line
	}
	switch {
	case !d.ok("%s", path) || d.bad("%s.env", path) || d.bad("%s.file", path):
	case c.Env != "" && c.File != "":
		d.fault(f, line, "is an environment variable or a file, not both: several keys for one service are several providers in a group or route")
	case !c.Key() && !c.Passthrough:
		d.fault(f, line, "must be {env: NAME}, {file: path} or passthrough")
	case cfg.Envoy.Clusters == ClustersExternal:
		d.warnings.add(line, f.path, "is not sent with envoy.clusters: external: your own Envoy decides what an upstream gets")
	}
	if p.TLS == nil {
		return
	}
	path = fmt.Sprintf("providers[%d].tls", i)
	f, line = d.at("%s", path)
	p.TLS.Line = line
	switch {
	case d.bad("%s.cert", path) || d.bad("%s.key", path):
	case (p.TLS.Cert == "") != (p.TLS.Key == ""):
		d.fault(f, line, "cert and key go together")
	case !p.HTTPS && d.ok("providers[%d].url", i):
		d.warnings.add(line, f.path, "is read only with an https:// url")
	}
}
