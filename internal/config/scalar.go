package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// parser makes the value of a field out of a scalar node.
type parser func(n *yaml.Node, tag reflect.StructTag) (any, error)

// scalarParser gives the parser for a field of that type, or nil when its value is not a scalar.
func scalarParser(t reflect.Type, tag reflect.StructTag) parser {
	switch t {
	case reflect.TypeFor[time.Duration]():
		if tag.Get("unit") != "" {
			return parseCount
		}
		return parseDuration
	case reflect.TypeFor[PerKind]():
		return parsePerKind
	case reflect.TypeFor[Address]():
		return parseGRPC
	case reflect.TypeFor[Credentials]():
		return parseCredentials
	case reflect.TypeFor[netip.Prefix]():
		return parseCIDR
	}
	switch t.Kind() {
	case reflect.String:
		return parseString
	case reflect.Bool:
		return parseBool
	case reflect.Float64:
		return parseFloat
	case reflect.Int, reflect.Int64, reflect.Uint32:
		switch tag.Get("unit") {
		case "bytes":
			return parseSize
		case "mode":
			return parseMode
		}
		return parseInt
	}
	return nil
}

// blockOrWord tells whether a value of this type may stand in the file as a mapping too,
// not only as a scalar.
func blockOrWord(t reflect.Type) bool {
	return t == reflect.TypeFor[PerKind]() || t == reflect.TypeFor[Credentials]()
}

// isText and isNumber tell how YAML reads the scalar. A date is text to us.
func isText(n *yaml.Node) bool {
	return n.ShortTag() == "!!str" || n.ShortTag() == "!!timestamp"
}

func isNumber(n *yaml.Node) bool {
	return n.ShortTag() == "!!int" || n.ShortTag() == "!!float"
}

func parseString(n *yaml.Node, tag reflect.StructTag) (any, error) {
	if !isText(n) {
		return nil, fmt.Errorf("must be text, not %s: put it in quotes if it is meant as text", describe(n))
	}
	if enum := tag.Get("enum"); enum != "" {
		return oneOf(n.Value, choices(enum))
	}
	if format := tag.Get("format"); format != "" {
		return parseFormat(n.Value, format)
	}
	return n.Value, nil
}

func oneOf(s string, valid []string) (any, error) {
	if slices.Contains(valid, s) {
		return s, nil
	}
	msg := fmt.Sprintf("%s is not one of: %s", quote(s), strings.Join(valid, ", "))
	if near := nearest(s, valid); near != "" {
		msg += "; did you mean " + near + "?"
	}
	return nil, errors.New(msg)
}

func parseBool(n *yaml.Node, _ reflect.StructTag) (any, error) {
	if n.ShortTag() == "!!bool" {
		return strings.EqualFold(n.Value, "true"), nil
	}
	return nil, fmt.Errorf("must be true or false, not %s", describe(n))
}

var (
	decimal = regexp.MustCompile(`^[+-]?(0|[1-9][0-9]*)$`)
	real    = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	notReal = regexp.MustCompile(`(?i)^[+-]?\.(inf|nan)$`)
)

// parseInt takes decimal digits only: YAML would read 010 as 8.
func parseInt(n *yaml.Node, tag reflect.StructTag) (any, error) {
	if !isNumber(n) || !decimal.MatchString(n.Value) {
		return nil, fmt.Errorf("must be a whole number in plain digits, not %s", describe(n))
	}
	lowest, _ := strconv.ParseInt(tag.Get("min"), 10, 64)
	highest, _ := strconv.ParseInt(tag.Get("max"), 10, 64)
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || v < lowest || v > highest {
		return nil, outside(n, tag, "")
	}
	return v, nil
}

func parseFloat(n *yaml.Node, tag reflect.StructTag) (any, error) {
	v, err := number(n)
	if err != nil {
		return nil, err
	}
	lowest, _ := strconv.ParseFloat(tag.Get("min"), 64)
	highest, _ := strconv.ParseFloat(tag.Get("max"), 64)
	if v < lowest || v > highest {
		return nil, outside(n, tag, "")
	}
	return v, nil
}

// number reads a finite number.
func number(n *yaml.Node) (float64, error) {
	if n.ShortTag() == "!!float" && notReal.MatchString(n.Value) {
		return 0, fmt.Errorf("must be a finite number, not %s", n.Value)
	}
	if !isNumber(n) || !real.MatchString(n.Value) {
		return 0, fmt.Errorf("must be a number in plain digits, not %s", describe(n))
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil {
		return 0, fmt.Errorf("must be a finite number, not %s", quote(n.Value))
	}
	return v, nil
}

func outside(n *yaml.Node, tag reflect.StructTag, unit string) error {
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Errorf("must be from %s to %s%s, not %s", tag.Get("min"), tag.Get("max"), unit, cut(n.Value))
}

// parseCount reads the plain number of a setting that has its unit, seconds or
// milliseconds, in its name.
func parseCount(n *yaml.Node, tag reflect.StructTag) (any, error) {
	unit, word := time.Second, "seconds"
	if tag.Get("unit") == "ms" {
		unit, word = time.Millisecond, "milliseconds"
	}
	if isText(n) {
		if _, err := time.ParseDuration(n.Value); err == nil {
			return nil, fmt.Errorf("must be a plain number of %s, not %s", word, describe(n))
		}
	}
	v, err := number(n)
	if err != nil {
		return nil, fmt.Errorf("%w (it is in %s)", err, word)
	}
	lowest, _ := strconv.ParseFloat(tag.Get("min"), 64)
	highest, _ := strconv.ParseFloat(tag.Get("max"), 64)
	if v < lowest || v > highest {
		return nil, outside(n, tag, word)
	}
	// Envoy counts in milliseconds: what would become 0 there would mean "none".
	ms := v * float64(unit/time.Millisecond)
	if math.Abs(ms-math.Round(ms)) > 1e-6 {
		return nil, fmt.Errorf("must be whole milliseconds, not %s %s", n.Value, word)
	}
	return time.Duration(math.Round(ms)) * time.Millisecond, nil
}

// parsePerKind reads one number for both kinds.
func parsePerKind(n *yaml.Node, _ reflect.StructTag) (any, error) {
	stream, _ := reflect.TypeFor[PerKind]().FieldByName("Stream")
	v, err := parseCount(n, stream.Tag)
	if err != nil {
		return nil, err
	}
	return PerKind{Stream: v.(time.Duration), Unary: v.(time.Duration)}, nil
}

const durationHint = "a duration such as 250ms, 5s, 5m or 1h"

func parseDuration(n *yaml.Node, tag reflect.StructTag) (any, error) {
	v, err := time.ParseDuration(n.Value)
	switch {
	case !isText(n) && !isNumber(n):
		return nil, fmt.Errorf("must be %s, not %s", durationHint, describe(n))
	case err != nil && real.MatchString(n.Value):
		return nil, fmt.Errorf("%s has no unit: must be %s", n.Value, durationHint)
	case err != nil:
		return nil, fmt.Errorf("must be %s, not %s", durationHint, describe(n))
	}
	lowest, _ := time.ParseDuration(tag.Get("min"))
	highest, _ := time.ParseDuration(tag.Get("max"))
	switch {
	case v < lowest, v > highest:
		return nil, outside(n, tag, "")
	case v%time.Millisecond != 0:
		return nil, fmt.Errorf("must be whole milliseconds, not %s", n.Value)
	}
	return v, nil
}

var sizeText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)

func parseSize(n *yaml.Node, tag reflect.StructTag) (any, error) {
	if !isText(n) && !isNumber(n) {
		return nil, fmt.Errorf("must be a size such as 65536, 64KiB or 32MiB, not %s", describe(n))
	}
	v, err := size(n.Value)
	if err != nil {
		return nil, err
	}
	lowest, _ := size(tag.Get("min"))
	highest, _ := size(tag.Get("max"))
	if v < lowest || v > highest {
		return nil, outside(n, tag, "")
	}
	return v, nil
}

func size(s string) (int64, error) {
	m := sizeText.FindStringSubmatch(s)
	if m == nil {
		if strings.HasPrefix(s, "-") && sizeText.MatchString(s[1:]) {
			return -1, nil // out of every range
		}
		return 0, fmt.Errorf("must be a number of bytes, or a number with KiB, MiB or GiB, not %s", quote(s))
	}
	var shift uint
	switch m[2] {
	case "":
	case "KiB":
		shift = 10
	case "MiB":
		shift = 20
	case "GiB":
		shift = 30
	default:
		return 0, fmt.Errorf("unknown unit %s: use KiB, MiB or GiB, or a plain number of bytes", quote(m[2]))
	}
	v, err := strconv.ParseFloat(m[1], 64)
	v *= float64(int64(1) << shift)
	switch {
	case err != nil || v > 1<<53: // far above every limit, and the last number a float holds exactly
		return math.MaxInt64, nil
	case v != math.Trunc(v):
		return 0, fmt.Errorf("must be whole bytes, not %s", quote(s))
	}
	return int64(v), nil
}

// parseMode reads octal digits, with or without the 0 or 0o before them.
func parseMode(n *yaml.Node, _ reflect.StructTag) (any, error) {
	v, err := strconv.ParseUint(strings.TrimPrefix(n.Value, "0o"), 8, 32)
	if err != nil || v > 0o777 || !isText(n) && !isNumber(n) {
		return nil, fmt.Errorf("must be an octal mode from 0 to 0777, such as 0660, not %s", describe(n))
	}
	return v, nil
}

// parseStatuses reads one entry of a list of statuses.
func parseStatuses(n *yaml.Node) ([]int, error) {
	if n.Kind == yaml.ScalarNode && isText(n) && n.Value == "5xx" {
		codes := make([]int, 100)
		for i := range codes {
			codes[i] = 500 + i
		}
		return codes, nil
	}
	if n.Kind == yaml.ScalarNode && isNumber(n) {
		if v, err := strconv.Atoi(n.Value); err == nil && v >= 400 && v <= 599 {
			return []int{v}, nil
		}
	}
	return nil, fmt.Errorf("must be a status from 400 to 599, or 5xx, not %s", describe(n))
}
