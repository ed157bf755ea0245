package config

import "strings"

// strategies are the strategies that can be configured, in the order in which
// messages list them.
var strategies = []struct {
	name    string
	weights bool // it reads weights (0 drains under every strategy)
}{
	{"cache_aware", false},
	{"consistent_hash", false},
	{"power_of_two", false},
	{"random", false},
	{"round_robin", false},
	{"weighted", true},
}

// Strategies gives the names that routes[].strategy may have.
func Strategies() []string {
	names := make([]string, len(strategies))
	for i, s := range strategies {
		names[i] = s.name
	}
	return names
}

// readsWeights tells whether the strategy of that name reads weights. An unknown
// one, which is a fault of its own, is taken to.
func readsWeights(name string) bool {
	for _, s := range strategies {
		if s.name == name {
			return s.weights
		}
	}
	return true
}

// choices gives the values that an enum tag allows.
func choices(tag string) []string {
	if tag == "$strategies" {
		return Strategies()
	}
	return strings.Split(tag, "|")
}
