package config

// position is where a target stands in the file.
type position struct {
	route, target, line int
}

// identities are the target ids seen so far, over all routes, each with the
// first target that has it.
type identities map[string]struct {
	position
	provider, model string
}

// checkRoutes completes the routes and leaves out those that are drained.
func checkRoutes(d *decoder, cfg *Config) {
	models := map[string]int{}
	byName := map[string]int{}
	for i, p := range cfg.Providers {
		if _, ok := byName[p.Name]; !ok {
			byName[p.Name] = i
		}
	}
	ids := identities{}
	served := []Route{}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		_, r.Line = d.at("routes[%d]", i)
		if d.ok("routes[%d].model", i) {
			if first, ok := models[r.Model]; ok {
				f, line := d.at("routes[%d].model", i)
				d.fault(f, line, "%s is already the model of routes[%d] (line %d)", quote(r.Model), first, cfg.Routes[first].Line)
			} else {
				models[r.Model] = i
			}
		}
		if d.ok("routes[%d].targets", i) && len(r.Targets) == 0 {
			f, line := d.at("routes[%d].targets", i)
			d.fault(f, line, "must name at least one target")
		}
		pool := map[string]position{}
		for j := range r.Targets {
			checkTarget(d, cfg, byName, i, j)
			checkIdentity(d, cfg, i, j, pool, ids)
		}
		checkOneModel(d, cfg, i)
		if checkWeights(d, cfg, i) {
			served = append(served, *r)
		}
	}
	cfg.Routes = served
	if len(served) == 0 {
		f, line := d.at("routes")
		d.warnings.add(line, f.path, "no route is served: every model asked for by name is answered 404")
	}
}

// checkTarget completes a target from its provider and its route.
func checkTarget(d *decoder, cfg *Config, byName map[string]int, i, j int) {
	r := &cfg.Routes[i]
	t := &r.Targets[j]
	_, t.Line = d.at("routes[%d].targets[%d]", i, j)
	if t.Model == "" {
		t.Model = r.Model
	}
	if !d.ok("routes[%d].targets[%d].provider", i, j) {
		return
	}
	index, known := byName[t.Provider]
	if !known {
		names := make([]string, 0, len(byName))
		for i, p := range cfg.Providers {
			if p.Name != "" && byName[p.Name] == i {
				names = append(names, p.Name)
			}
		}
		f, line := d.at("routes[%d].targets[%d].provider", i, j)
		hint := "known: " + listed(names)
		if near := nearest(t.Provider, names); near != "" {
			hint += "; did you mean " + near + "?"
		}
		d.fault(f, line, "unknown provider %s; %s", quote(t.Provider), hint)
		return
	}
	t.ProviderIndex = index
	p := &cfg.Providers[index]
	if t.ID != "" || d.bad("routes[%d].targets[%d].id", i, j) || d.bad("providers[%d].slug", index) {
		return
	}
	if p.Slug == "" {
		f, line := d.at("routes[%d].targets[%d].id", i, j)
		d.fault(f, line, "is required: no slug can be made from the name of provider %s", quote(p.Name))
		return
	}
	t.ID = p.Slug + "/" + t.Model
}

// checkIdentity refuses an id that is another target's of the same route, or that stands
// for another provider and model anywhere.
func checkIdentity(d *decoder, cfg *Config, i, j int, pool map[string]position, ids identities) {
	t := &cfg.Routes[i].Targets[j]
	if t.ID == "" || t.Model == "" || !d.ok("routes[%d].targets[%d].provider", i, j) || d.bad("routes[%d].targets[%d].model", i, j) {
		return
	}
	here := position{i, j, t.Line}
	f, line := d.at("routes[%d].targets[%d].id", i, j)
	if before, ok := pool[t.ID]; ok {
		d.fault(f, line, "the id %s of routes[%d].targets[%d] is already that of routes[%d].targets[%d] (line %d): set an id, or name the target once",
			quote(t.ID), i, j, before.route, before.target, before.line)
		return
	}
	pool[t.ID] = here
	before, ok := ids[t.ID]
	if !ok {
		before.position, before.provider, before.model = here, t.Provider, t.Model
		ids[t.ID] = before
		return
	}
	if before.provider != t.Provider || before.model != t.Model {
		d.fault(f, line, "the id %s stands for provider %s, model %s at routes[%d].targets[%d], but for provider %s, model %s at routes[%d].targets[%d] (line %d)",
			quote(t.ID), quote(t.Provider), quote(t.Model), i, j, quote(before.provider), quote(before.model), before.route, before.target, before.line)
	}
}

// checkOneModel refuses a route whose targets have different upstream models.
func checkOneModel(d *decoder, cfg *Config, i int) {
	targets := cfg.Routes[i].Targets
	for j := range targets {
		if d.bad("routes[%d].targets[%d].model", i, 0) || d.bad("routes[%d].targets[%d].model", i, j) || d.bad("routes[%d].model", i) {
			continue
		}
		if targets[j].Model != targets[0].Model {
			f, line := d.at("routes[%d].targets[%d].model", i, j)
			d.fault(f, line, "%s differs from %s, the upstream model of targets[0]: several upstream models in one route are not supported yet",
				quote(targets[j].Model), quote(targets[0].Model))
		}
	}
}

// checkWeights tells whether the route is served: some weight is above 0.
func checkWeights(d *decoder, cfg *Config, i int) bool {
	r := &cfg.Routes[i]
	drained, told := true, readsWeights(r.Strategy)
	for j, t := range r.Targets {
		drained = drained && t.Weight == 0 && !d.bad("routes[%d].targets[%d].weight", i, j)
		if t.Weight > 1 && !told {
			told = true
			f, line := d.at("routes[%d].targets[%d].weight", i, j)
			d.warnings.add(line, f.path, "%s does not read weights; only 0 has an effect", r.Strategy)
		}
	}
	if drained && len(r.Targets) > 0 {
		f, line := d.at("routes[%d]", i)
		d.warnings.add(line, f.path, "all targets have a weight of 0: the route %s is left out, and answered 404", quote(r.Model))
	}
	return !drained || len(r.Targets) == 0
}
