package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shape is what the decoder needs to know of a struct: its fields that are keys of the file.
type shape struct {
	fields, required []reflect.StructField
	keys             []string
	byKey            map[string]reflect.StructField
}

func (d *decoder) shape(t reflect.Type) *shape {
	if s, ok := d.shapes[t]; ok {
		return s
	}
	s := &shape{byKey: map[string]reflect.StructField{}}
	for i := range t.NumField() {
		sf := t.Field(i)
		key := sf.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		s.fields = append(s.fields, sf)
		s.keys = append(s.keys, key)
		s.byKey[key] = sf
		if sf.Tag.Get("required") != "" {
			s.required = append(s.required, sf)
		}
	}
	if d.shapes == nil {
		d.shapes = map[reflect.Type]*shape{}
	}
	d.shapes[t] = s
	return s
}

// newElement gives what an element of a list is before the file says anything
// about it. Slices in it are shared, which does no harm: nobody writes to them.
func (d *decoder) newElement(t reflect.Type) reflect.Value {
	if v, ok := d.fresh[t]; ok {
		return v
	}
	v := reflect.New(t).Elem()
	d.setDefaults(v)
	if d.fresh == nil {
		d.fresh = map[reflect.Type]reflect.Value{}
	}
	d.fresh[t] = v
	return v
}

// setDefaults fills a struct with the defaults of its tags, and with what it
// inherits. Defaults stand in the tags as they would in the file and come the
// same way, so they cannot be out of range.
func (d *decoder) setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		if block := sf.Tag.Get("inherit"); block != "" {
			d.inherit(v.Field(i), block)
			continue
		}
		text := sf.Tag.Get("default")
		if text == "" {
			d.setDefaults(v.Field(i))
			continue
		}
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
		if strings.ContainsAny(text[:1], "[{") {
			var doc yaml.Node
			if yaml.Unmarshal([]byte(text), &doc) != nil {
				continue // no such tag: a test decodes them all
			}
			n = doc.Content[0]
		}
		(&decoder{discard: true}).decode(v.Field(i), n, field{sf.Name, sf.Tag})
	}
}

// inherit copies into a block of a route what the block of that name in the root says.
func (d *decoder) inherit(v reflect.Value, block string) {
	from := d.root.FieldByIndex(d.shape(d.root.Type()).byKey[block].Index)
	known := d.shape(from.Type()).byKey
	for _, sf := range d.shape(v.Type()).fields {
		v.FieldByIndex(sf.Index).Set(from.FieldByIndex(known[sf.Tag.Get("yaml")].Index))
	}
}
