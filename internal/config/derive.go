package config

// PinID is the id of the target that serves whatever model is asked of this provider: of its
// pin, and of a member of a group without a model. "" when the provider has no slug.
func (p *Provider) PinID() string {
	if p.Slug == "" {
		return ""
	}
	return p.Slug + "/" + anyModel
}

// Targets gives every target of the configuration once, by id: those of routes and
// variants, of groups, and the pins of providers, which have the model "". Nothing about
// a target but its weight and line differs between the pools that have it.
func (c *Config) Targets() []Target {
	var all []Target
	seen := map[string]bool{}
	add := func(targets []Target) {
		for _, t := range targets {
			if !seen[t.ID] {
				seen[t.ID] = true
				all = append(all, t)
			}
		}
	}
	for i := range c.Routes {
		for _, list := range c.Routes[i].Lists() {
			add(list)
		}
	}
	for i := range c.Groups {
		add(c.Groups[i].Members)
	}
	for i := range c.Providers {
		p := &c.Providers[i]
		if id := p.PinID(); id != "" {
			add([]Target{{Provider: p.Name, Weight: 1, ID: id, ProviderIndex: i, Line: p.Line}})
		}
	}
	return all
}

// Lists gives the lists of targets of a route: its one, or that of each variant.
func (r *Route) Lists() [][]Target {
	if len(r.Variants) == 0 {
		return [][]Target{r.Targets}
	}
	lists := make([][]Target, len(r.Variants))
	for i := range r.Variants {
		lists[i] = r.Variants[i].Targets
	}
	return lists
}

// Chained tells whether attempts of one request may have to differ in more than their
// cluster: some provider has a key, passes the client's on or has a path prefix, or
// some list may hold several upstream models. Then the cluster of every target resets
// what an attempt before it has set. Otherwise one change of the request serves all attempts.
//
// With envoy.clusters: external the clusters are not ours.
func (c *Config) Chained() bool {
	if c.Envoy.Clusters == ClustersExternal {
		return false
	}
	for i := range c.Providers {
		if p := &c.Providers[i]; p.Credentials.Key() || p.Credentials.Passthrough || p.Prefix != "" {
			return true
		}
	}
	for i := range c.Routes {
		if lists := c.Routes[i].Lists(); severalModels(lists...) {
			return true
		}
	}
	for i := range c.Groups {
		if severalModels(c.Groups[i].Members) {
			return true
		}
	}
	return false
}

func severalModels(lists ...[]Target) bool {
	first, seen := "", false
	for _, list := range lists {
		for _, t := range list {
			if t.Weight == 0 {
				continue // never listed
			}
			if !seen {
				first, seen = t.Model, true
			} else if t.Model != first {
				return true
			}
		}
	}
	return false
}
