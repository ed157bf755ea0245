package config

import "fmt"

// groups completes the groups, and leaves out those that can never be matched.
func (p *pools) groups() {
	d, cfg := p.d, p.cfg
	names, slugs := map[string]int{}, map[string]int{}
	providers := map[string]int{}
	for i, pr := range cfg.Providers {
		if _, ok := providers[pr.Slug]; !ok && pr.Slug != "" {
			providers[pr.Slug] = i
		}
	}
	var served []Group
	for i := range cfg.Groups {
		g := &cfg.Groups[i]
		path := fmt.Sprintf("groups[%d]", i)
		_, g.Line = d.at("%s", path)
		sameName := false
		if d.ok("%s.name", path) {
			var first int
			if first, sameName = names[g.Name]; sameName {
				f, line := d.at("%s.name", path)
				d.fault(f, line, "%s is already the name of groups[%d] (line %d)", quote(g.Name), first, cfg.Groups[first].Line)
			} else {
				names[g.Name] = i
			}
		}
		p.list(path+".members", g.Members, "", false)
		f, line := d.at("%s", path)
		switch {
		case !p.groupSlug(path, i, sameName, slugs, providers):
		case len(g.Members) == 0:
			d.warnings.add(line, f.path, "the group %s has no members: it is never matched", quote(g.Name))
		case p.drained(path+".members", g.Strategy, g.Members):
			d.warnings.add(line, f.path, "all members have a weight of 0: the group %s is left out, and answered 404", quote(g.Name))
		default:
			served = append(served, *g)
		}
	}
	cfg.Groups = served
}

// groupSlug completes the slug of a group, and tells whether the group can be addressed by it.
func (p *pools) groupSlug(path string, i int, sameName bool, slugs, providers map[string]int) bool {
	d, cfg := p.d, p.cfg
	g := &cfg.Groups[i]
	f, line := d.at("%s.slug", path)
	explicit := d.ok("%s", f.path)
	if !explicit {
		if d.bad("%s", f.path) || d.bad("%s.name", path) || sameName {
			return false
		}
		g.Slug = Slug(g.Name)
		f, line = d.at("%s.name", path)
	}
	if g.Slug == "" {
		if g.Name != "" {
			d.warnings.add(line, f.path, "no slug can be made from %s: the group is never matched, set a slug", quote(g.Name))
		}
		return false
	}
	if first, taken := providers[g.Slug]; taken {
		if explicit {
			d.fault(f, line, "%s is already the slug of providers[%d] (line %d)", quote(g.Slug), first, cfg.Providers[first].Line)
		} else {
			d.warnings.add(line, f.path, "its slug %s is that of providers[%d] (line %d), which it leads to: the group is left out, set a slug",
				quote(g.Slug), first, cfg.Providers[first].Line)
		}
		return false
	}
	if first, taken := slugs[g.Slug]; taken {
		d.fault(f, line, "its slug %s is already that of groups[%d] (line %d)", quote(g.Slug), first, cfg.Groups[first].Line)
		return false
	}
	slugs[g.Slug] = i
	return true
}
