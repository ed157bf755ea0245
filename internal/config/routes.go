package config

import (
	"fmt"
	"slices"
)

// pair is what a target id stands for, and where that was said first. The model of
// a member that serves any is "".
type pair struct {
	path            string
	line            int
	provider, model string
}

// pools checks everything that has targets: routes with their variants, and groups.
type pools struct {
	d      *decoder
	cfg    *Config
	byName map[string]int  // providers
	ids    map[string]pair // over all pools
}

// checkPools completes the routes and groups and leaves out those that are drained.
func checkPools(d *decoder, cfg *Config) {
	p := &pools{d: d, cfg: cfg, byName: map[string]int{}, ids: map[string]pair{}}
	for i, pr := range cfg.Providers {
		if _, ok := p.byName[pr.Name]; !ok {
			p.byName[pr.Name] = i
		}
		if id := pr.PinID(); id != "" {
			if _, ok := p.ids[id]; !ok {
				p.ids[id] = pair{fmt.Sprintf("providers[%d]", i), pr.Line, pr.Name, ""}
			}
		}
	}
	p.routes()
	p.groups()
}

func (p *pools) routes() {
	d, cfg := p.d, p.cfg
	models := map[string]int{}
	served := []Route{}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		path := fmt.Sprintf("routes[%d]", i)
		_, r.Line = d.at("%s", path)
		if d.ok("%s.model", path) {
			if first, ok := models[r.Model]; ok {
				f, line := d.at("%s.model", path)
				d.fault(f, line, "%s is already the model of routes[%d] (line %d)", quote(r.Model), first, cfg.Routes[first].Line)
			} else {
				models[r.Model] = i
			}
		}
		keep := false
		if len(r.Variants) == 0 {
			keep = p.routeTargets(path, r)
		} else {
			keep = p.variants(path, r)
		}
		if keep {
			served = append(served, *r)
		}
	}
	p.passthrough(models, served)
	cfg.Routes = served
	if len(served) == 0 {
		f, line := d.at("routes")
		d.warnings.add(line, f.path, "no route is served: every model asked for by name is answered 404")
	}
}

// routeTargets checks the list of a route without variants, and tells whether it is served.
func (p *pools) routeTargets(path string, r *Route) bool {
	d := p.d
	at := path + ".targets"
	f, line := d.at("%s", at)
	switch {
	case d.bad("%s", at) || d.bad("%s.variants", path) || d.bad("%s", path):
	case d.ok("%s", at) && len(r.Targets) == 0:
		d.fault(f, line, "must name at least one target")
	case d.ok("%s", at):
	case d.ok("%s.variants", path):
		f, line := d.at("%s.variants", path)
		d.fault(f, line, "must name at least one variant")
	case d.places[at].line > 0:
		d.fault(f, line, "is required, and has no value")
	default:
		d.fault(f, line, "is required, or variants instead")
	}
	p.list(at, r.Targets, r.Model, d.bad("%s.model", path))
	if !p.drained(at, r.Strategy, r.Targets) {
		return true
	}
	f, line = d.at("%s", path)
	d.warnings.add(line, f.path, "all targets have a weight of 0: the route %s is left out, and answered 404", quote(r.Model))
	return false
}

// variants checks the variants of a route and leaves out those that are drained. It
// tells whether the route is served.
func (p *pools) variants(path string, r *Route) bool {
	d := p.d
	if d.ok("%s.targets", path) {
		f, line := d.at("%s.targets", path)
		d.fault(f, line, "a route has targets or variants, not both: put these targets into a variant")
	}
	names := map[string]int{}
	served := []Variant{}
	drawn, unsure := false, false
	for j := range r.Variants {
		v := &r.Variants[j]
		at := fmt.Sprintf("%s.variants[%d]", path, j)
		_, v.Line = d.at("%s", at)
		if d.ok("%s.name", at) {
			if first, ok := names[v.Name]; ok {
				f, line := d.at("%s.name", at)
				d.fault(f, line, "%s is already the name of variants[%d] (line %d)", quote(v.Name), first, r.Variants[first].Line)
			} else {
				names[v.Name] = j
			}
		}
		if d.ok("%s.targets", at) && len(v.Targets) == 0 {
			f, line := d.at("%s.targets", at)
			d.fault(f, line, "must name at least one target")
		}
		p.list(at+".targets", v.Targets, r.Model, d.bad("%s.model", path))
		unsure = unsure || d.bad("%s.weight", at)
		if p.drained(at+".targets", r.Strategy, v.Targets) {
			f, line := d.at("%s", at)
			d.warnings.add(line, f.path, "all targets have a weight of 0: the variant %s is left out", quote(v.Name))
			continue
		}
		drawn = drawn || v.Weight > 0
		served = append(served, *v)
	}
	r.Variants = served
	if drawn || unsure {
		return true
	}
	f, line := d.at("%s", path)
	d.warnings.add(line, f.path, "no variant has a weight above 0: the route %s is left out, and answered 404", quote(r.Model))
	return false
}

// list checks the targets of one pool, in which every id stands once. A target without a
// model has the given one; none if that is "".
func (p *pools) list(path string, targets []Target, model string, modelBad bool) {
	pool := map[string]pair{}
	for j := range targets {
		at := fmt.Sprintf("%s[%d]", path, j)
		p.target(at, &targets[j], model)
		if !modelBad || p.d.ok("%s.model", at) {
			p.identity(at, &targets[j], pool)
		}
	}
}

// target completes a target from its provider and its pool.
func (p *pools) target(at string, t *Target, model string) {
	d, cfg := p.d, p.cfg
	_, t.Line = d.at("%s", at)
	if t.Model == "" {
		t.Model = model
	}
	if !d.ok("%s.provider", at) {
		return
	}
	index, known := p.byName[t.Provider]
	if !known {
		names := make([]string, 0, len(p.byName))
		for i, pr := range cfg.Providers {
			if pr.Name != "" && p.byName[pr.Name] == i {
				names = append(names, pr.Name)
			}
		}
		f, line := d.at("%s.provider", at)
		hint := "known: " + listed(names)
		if near := nearest(t.Provider, names); near != "" {
			hint += "; did you mean " + near + "?"
		}
		d.fault(f, line, "unknown provider %s; %s", quote(t.Provider), hint)
		return
	}
	t.ProviderIndex = index
	pr := &cfg.Providers[index]
	if t.ID != "" || d.bad("%s.id", at) || d.bad("providers[%d].slug", index) {
		return
	}
	if pr.Slug == "" {
		f, line := d.at("%s.id", at)
		d.fault(f, line, "is required: no slug can be made from the name of provider %s", quote(pr.Name))
		return
	}
	t.ID = pr.Slug + "/" + orAny(t.Model)
}

// anyModel stands in ids for the model of whatever the client asked for.
const anyModel = "*"

func orAny(model string) string {
	if model == "" {
		return anyModel
	}
	return model
}

// identity refuses an id that is another target's of the same pool, or that stands
// for another provider and model anywhere.
func (p *pools) identity(at string, t *Target, pool map[string]pair) {
	d := p.d
	if t.ID == "" || !d.ok("%s.provider", at) || d.bad("%s.provider", at) || d.bad("%s.model", at) {
		return
	}
	here := pair{at, t.Line, t.Provider, t.Model}
	f, line := d.at("%s.id", at)
	if before, ok := pool[t.ID]; ok {
		d.fault(f, line, "the id %s of %s is already that of %s (line %d): set an id, or name the target once",
			quote(t.ID), at, before.path, before.line)
		return
	}
	pool[t.ID] = here
	before, ok := p.ids[t.ID]
	if !ok {
		p.ids[t.ID] = here
		return
	}
	if before.provider != t.Provider || before.model != t.Model {
		d.fault(f, line, "the id %s stands for provider %s, %s at %s, but for provider %s, %s at %s (line %d)",
			quote(t.ID), quote(t.Provider), modelWords(t.Model), at, quote(before.provider), modelWords(before.model), before.path, before.line)
	}
}

func modelWords(model string) string {
	if model == "" {
		return "any model"
	}
	return "model " + quote(model)
}

// drained tells whether all targets of a pool have a weight of 0. It warns once of weights that
// the strategy does not read.
func (p *pools) drained(path, strategy string, targets []Target) bool {
	d := p.d
	drained, told := true, readsWeights(strategy)
	for j, t := range targets {
		drained = drained && t.Weight == 0 && !d.bad("%s[%d].weight", path, j)
		if t.Weight > 1 && !told {
			told = true
			f, line := d.at("%s[%d].weight", path, j)
			d.warnings.add(line, f.path, "%s does not read weights; only 0 has an effect", strategy)
		}
	}
	return drained && len(targets) > 0
}

// passthrough checks the paths that lead to a route.
func (p *pools) passthrough(models map[string]int, served []Route) {
	d, cfg := p.d, p.cfg
	paths := map[string]int{}
	var kept []Passthrough
	for i := range cfg.Passthrough {
		e := &cfg.Passthrough[i]
		path := fmt.Sprintf("passthrough[%d]", i)
		_, e.Line = d.at("%s", path)
		if d.ok("%s.path_prefix", path) {
			if first, ok := paths[e.PathPrefix]; ok {
				f, line := d.at("%s.path_prefix", path)
				d.fault(f, line, "%s is already the path of passthrough[%d] (line %d)", quote(e.PathPrefix), first, cfg.Passthrough[first].Line)
			} else {
				paths[e.PathPrefix] = i
			}
		}
		if !d.ok("%s.route", path) {
			continue
		}
		f, line := d.at("%s.route", path)
		if _, known := models[e.Route]; !known {
			names := make([]string, 0, len(cfg.Routes))
			for _, r := range cfg.Routes {
				names = append(names, r.Model)
			}
			hint := "known: " + listed(names)
			if near := nearest(e.Route, names); near != "" {
				hint += "; did you mean " + near + "?"
			}
			d.fault(f, line, "unknown route %s; %s", quote(e.Route), hint)
			continue
		}
		if !slices.ContainsFunc(served, func(r Route) bool { return r.Model == e.Route }) {
			d.warnings.add(line, f.path, "the route %s is left out, and so is this path", quote(e.Route))
			continue
		}
		kept = append(kept, *e)
	}
	cfg.Passthrough = kept
}
