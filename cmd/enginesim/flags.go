package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/internal/enginesim"
)

// engineUsage is the help of --engine.
const engineUsage = "an engine; repeat for more. `spec` is key=value,... with the keys\n" +
	"name     unique; letters, digits, '.', '_' and '-' (needed)\n" +
	"listen   host:port, default 127.0.0.1:0\n" +
	"prefill  tokens of prompts read per second, default 0 = instant\n" +
	"decode   tokens written per second and answer, default 0 = instant\n" +
	"batch    requests that run at once, default 4096\n" +
	"queue    requests that may wait, default 4096, -1 = none\n" +
	"cache    prefix cache in tokens, default 262144, -1 = none\n" +
	"block    tokens of a block of the cache, default 16\n" +
	"output   tokens of an answer without max_tokens, default 16\n" +
	"models   names joined by '+', default any"

// engineFlags are the engines of all --engine flags.
type engineFlags []enginesim.Options

// String is what flag prints as the default.
func (f *engineFlags) String() string { return "" }

// Set adds one engine.
func (f *engineFlags) Set(spec string) error {
	opts, err := parseEngine(spec)
	if err != nil {
		return err
	}
	for _, other := range *f {
		if other.Name == opts.Name {
			return fmt.Errorf("the name %q is taken", opts.Name)
		}
	}
	*f = append(*f, opts)
	return nil
}

// parseEngine reads key=value,...
func parseEngine(spec string) (enginesim.Options, error) {
	var o enginesim.Options
	seen := make(map[string]bool)
	for pair := range strings.SplitSeq(spec, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || value == "" {
			return o, fmt.Errorf("%q is not key=value", pair)
		}
		if seen[key] {
			return o, fmt.Errorf("%s stands there twice", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "name":
			o.Name = value
		case "listen":
			o.Listen = value
		case "prefill":
			o.Prefill, err = strconv.ParseFloat(value, 64)
		case "decode":
			o.Decode, err = strconv.ParseFloat(value, 64)
		case "batch":
			o.Batch, err = strconv.Atoi(value)
		case "queue":
			o.Queue, err = strconv.Atoi(value)
		case "cache":
			o.CacheTokens, err = strconv.Atoi(value)
		case "block":
			o.BlockTokens, err = strconv.Atoi(value)
		case "output":
			o.Output, err = strconv.Atoi(value)
		case "models":
			o.Models = strings.Split(value, "+")
		default:
			err = errors.New("unknown key")
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w", key, err)
		}
	}
	// The name is part of the control port's paths.
	if !regexp.MustCompile(`^[A-Za-z0-9._-]+$`).MatchString(o.Name) {
		return o, fmt.Errorf("name: %q is not a name", o.Name)
	}
	return o, nil
}
