package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder lays a YAML node over a value that holds the defaults already, as the
// tags of the types say, and goes on after every fault.
type decoder struct {
	faults, warnings collector

	root    reflect.Value // the Config being filled: what routes inherit from
	places  map[string]place
	visited int
	shapes  map[reflect.Type]*shape
	fresh   map[reflect.Type]reflect.Value // a value of each element type with its defaults
	// discard is set while something is decoded for its faults only.
	discard bool
}

// place is what is known about one field of the file.
type place struct {
	line int
	set  bool // it has a value, not null
	bad  bool // a fault was found in the value: nothing more is to be said of it
}

// field is a position in the configuration.
type field struct {
	path string
	tag  reflect.StructTag
}

func (f field) key(name string, tag reflect.StructTag) field {
	if f.path != "" {
		name = f.path + "." + name
	}
	return field{name, tag}
}

func (f field) index(i int) field {
	return field{fmt.Sprintf("%s[%d]", f.path, i), f.tag}
}

// maxNodes bounds the keys and values looked at: some 25,000 targets. With
// aliases of long lists a small file could have any number.
const maxNodes = 200_000

func (d *decoder) fault(f field, line int, format string, args ...any) {
	d.faults.add(line, f.path, format, args...)
	if !d.discard {
		p := d.places[f.path]
		if p.line == 0 {
			p.line = line
		}
		p.bad = true
		d.places[f.path] = p
	}
}

// decode lays n over v. A fault stands at the line where the value is used, also
// when it is an alias.
func (d *decoder) decode(v reflect.Value, n *yaml.Node, f field) {
	line := n.Line
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.tooMany(f, line) {
		return
	}
	set := n.ShortTag() != "!!null"
	if !d.discard {
		d.places[f.path] = place{line: line, set: set}
	}
	if !set {
		if v.Kind() == reflect.Struct {
			d.required(v.Type(), nil, f, line)
		}
		return
	}
	if v.Kind() == reflect.Pointer { // an optional block: nil without it
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	block := blockOrWord(v.Type()) && n.Kind == yaml.MappingNode
	switch parse := scalarParser(v.Type(), f.tag); {
	case parse != nil && !block:
		d.scalar(v, n, f, line, parse)
	case v.Kind() == reflect.Struct:
		d.mapping(v, n, f, line)
	case v.Kind() == reflect.Slice:
		d.list(v, n, f, line)
	}
}

// tooMany counts a key or value that is looked at, and tells whether to stop.
func (d *decoder) tooMany(f field, line int) bool {
	d.visited++
	if d.visited == maxNodes+1 {
		d.fault(f, line, "too large: more than %d keys and values, aliases followed", maxNodes)
	}
	return d.visited > maxNodes
}

func (d *decoder) scalar(v reflect.Value, n *yaml.Node, f field, line int, parse parser) {
	if n.Kind != yaml.ScalarNode {
		d.fault(f, line, "must be a single value, not %s", describe(n))
		return
	}
	value, err := parse(n, f.tag)
	if err != nil {
		d.fault(f, line, "%s", err)
		return
	}
	v.Set(reflect.ValueOf(value).Convert(v.Type()))
}

func (d *decoder) mapping(v reflect.Value, n *yaml.Node, f field, line int) {
	if n.Kind != yaml.MappingNode || n.ShortTag() != "!!map" {
		d.fault(f, line, "must be a mapping of keys to values, not %s", describe(n))
		return
	}
	t := v.Type()
	keys := d.shape(t)
	first := make(map[string]int, len(keys.fields)) // line of each known key
	var lists []func()
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		keyLine := k.Line
		if d.tooMany(f, keyLine) {
			return
		}
		for k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		sf, known := keys.byKey[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode:
			d.fault(f, keyLine, "a key must be a word, not %s", describe(k))
			continue
		case k.ShortTag() == "!!merge":
			d.fault(f, keyLine, "merge keys (<<) are not supported: write the keys out, or use an alias for a whole value")
			continue
		case !known:
			d.unknownKey(t, k.Value, f, keyLine)
			continue
		}
		at := f.key(k.Value, sf.Tag)
		if before, ok := first[k.Value]; ok {
			d.fault(at, keyLine, "duplicate key, first at line %d", before)
			d.again(sf.Type, value, at)
			continue
		}
		first[k.Value] = keyLine
		if sf.Type.Kind() == reflect.Slice && sf.Type.Elem().Kind() == reflect.Struct {
			// Lists last: their elements inherit the settings beside them.
			lists = append(lists, func() { d.decode(v.FieldByIndex(sf.Index), value, at) })
			continue
		}
		d.decode(v.FieldByIndex(sf.Index), value, at)
	}
	for _, decode := range lists {
		decode()
	}
	d.required(t, first, f, line)
}

// required tells which required keys of a mapping, seen with these keys, are missing or null.
func (d *decoder) required(t reflect.Type, seen map[string]int, f field, line int) {
	for _, sf := range d.shape(t).required {
		key := sf.Tag.Get("yaml")
		at := f.key(key, sf.Tag)
		if _, ok := seen[key]; !ok {
			d.fault(at, line, "is required")
		} else if p := d.places[at.path]; !d.discard && !p.set && !p.bad {
			d.fault(at, p.line, "is required, and has no value")
		}
	}
}

// again looks for faults in a value that is a fault already, as a duplicate.
func (d *decoder) again(t reflect.Type, n *yaml.Node, f field) {
	before := d.discard
	d.discard = true
	d.decode(reflect.New(t).Elem(), n, f)
	d.discard = before
}

func (d *decoder) unknownKey(t reflect.Type, key string, f field, line int) {
	at := f.key(shownKey(key), "")
	if d.faults.total > 2*maxFaults {
		d.fault(at, line, "unknown key") // help costs time, and that is no typing error any more
		return
	}
	if whole, ok := d.deploymentWide(t, key); ok {
		d.fault(at, line, "holds for the whole deployment and cannot be set in a route: set %s", whole)
		return
	}
	known := d.shape(t).keys
	if near := nearest(key, known); near != "" {
		d.fault(at, line, "unknown key; did you mean %s?", near)
		return
	}
	d.fault(at, line, "unknown key; known here: %s", strings.Join(known, ", "))
}

// deploymentWide gives the path of a key that is unknown in a block of a route,
// but known in the block of the root from which that one inherits.
func (d *decoder) deploymentWide(t reflect.Type, key string) (string, bool) {
	for _, sf := range d.shape(reflect.TypeFor[Route]()).fields {
		block := sf.Tag.Get("inherit")
		if block == "" || sf.Type != t {
			continue
		}
		from := d.shape(reflect.TypeFor[Config]()).byKey[block]
		if _, ok := d.shape(from.Type).byKey[key]; ok {
			return block + "." + key, true
		}
	}
	return "", false
}

func (d *decoder) list(v reflect.Value, n *yaml.Node, f field, line int) {
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" {
		d.fault(f, line, "must be a list, not %s", describe(n))
		return
	}
	if f.tag.Get("unit") == "status" {
		d.statuses(v, n, f)
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, min(len(n.Content), maxNodes))
	for i, e := range n.Content {
		if d.visited > maxNodes {
			break
		}
		if e.Kind == yaml.ScalarNode && e.ShortTag() == "!!null" && v.Type().Elem().Kind() != reflect.Struct {
			d.fault(f.index(i), e.Line, "has no value")
			continue
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		elem.Set(d.newElement(elem.Type()))
		d.decode(elem, e, f.index(i))
		out = reflect.Append(out, elem)
	}
	if words, ok := out.Interface().([]string); ok {
		slices.Sort(words)
		out = reflect.ValueOf(slices.Compact(words))
	}
	v.Set(out)
}

// statuses decodes a list of statuses, in which 5xx stands for a hundred of them.
func (d *decoder) statuses(v reflect.Value, n *yaml.Node, f field) {
	out := []int{}
	for i, e := range n.Content {
		at, line := f.index(i), e.Line
		for e.Kind == yaml.AliasNode {
			e = e.Alias
		}
		if d.tooMany(at, line) {
			return
		}
		codes, err := parseStatuses(e)
		if err != nil {
			d.fault(at, line, "%s", err)
			continue
		}
		out = append(out, codes...)
	}
	slices.Sort(out)
	v.Set(reflect.ValueOf(slices.Compact(out)))
}
