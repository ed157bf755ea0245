package xds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pointsman/pointsman/envoy"
)

// kind is a type of resource that is served, in the order in which changes are
// sent: what is named before what names it.
type kind int

const (
	secrets kind = iota
	clusters
	routes
	listeners
	kinds
)

// kindTable names the kinds: for logs and metrics, and as the protocol does.
var kindTable = [kinds]struct{ name, typeURL string }{
	secrets:   {"secret", "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"},
	clusters:  {"cluster", "type.googleapis.com/envoy.config.cluster.v3.Cluster"},
	routes:    {"route", "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"},
	listeners: {"listener", "type.googleapis.com/envoy.config.listener.v3.Listener"},
}

func (k kind) String() string  { return kindTable[k].name }
func (k kind) typeURL() string { return kindTable[k].typeURL }

// kindOf gives the kind of a type that is served.
func kindOf(typeURL string) (kind, bool) {
	for k := range kinds {
		if kindTable[k].typeURL == typeURL {
			return k, true
		}
	}
	return 0, false
}

// resource is one resource as it is sent. It is immutable. Its version is a
// hash of its content, so that an Envoy which holds it from an earlier run
// of pointsman is sent nothing.
type resource struct {
	version string
	body    *anypb.Any
}

// fault is a resource that was refused in one version.
type fault struct{ name, version, reason string }

// prepared is an update in the form in which it is served.
type prepared struct {
	resources [kinds]map[string]*resource
	targets   map[string]string // cluster -> target id
	needs     map[string]string // cluster -> secret
	external  []string
	chain     envoy.Chain
	faults    []fault // clusters only
}

// prepare validates, packs and hashes: the costly part, done without the mutex.
func prepare(res *envoy.Resources) (*prepared, error) {
	if res == nil {
		return nil, errors.New("no resources")
	}
	p := &prepared{
		targets: maps.Clone(res.Targets), needs: maps.Clone(res.Needs),
		external: slices.Clone(res.External), chain: res.Chain,
	}
	for k := range p.resources {
		p.resources[k] = map[string]*resource{}
	}
	for name, secret := range res.Secrets {
		// What is wrong with one is not said: it would be said with the secret.
		if r, err := newResource(secret); err == nil && len(secret.GetGenericSecret().GetSecret().GetInlineString()) > 0 {
			p.resources[secrets][name] = r
		}
	}
	for _, name := range slices.Sorted(maps.Keys(res.Clusters)) {
		r, err := newResource(res.Clusters[name])
		if need := res.Needs[name]; err == nil && need != "" && p.resources[secrets][need] == nil {
			err = fmt.Errorf("the secret %s that it needs is missing or not valid", need)
		}
		if err != nil {
			p.faults = append(p.faults, fault{name: name, version: "invalid: " + err.Error(), reason: tidy(err.Error())})
			continue
		}
		r.version = withChain(r.version, res.Chain)
		p.resources[clusters][name] = r
	}
	if res.Route != nil {
		r, err := newResource(res.Route)
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", res.Route.GetName(), err)
		}
		p.resources[routes][res.Route.GetName()] = r
	}
	if res.Listener != nil {
		r, err := newResource(res.Listener)
		if err != nil {
			return nil, fmt.Errorf("listener %s: %w", res.Listener.GetName(), err)
		}
		p.resources[listeners][res.Listener.GetName()] = r
	}
	return p, nil
}

// newResource refuses what Envoy would refuse by the same rules: there, one such
// resource takes all others of the response with it.
func newResource(m proto.Message) (*resource, error) {
	if err := validate(m); err != nil {
		return nil, err
	}
	body := &anypb.Any{}
	if err := anypb.MarshalFrom(body, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, err
	}
	return &resource{version: strconv.FormatUint(xxh3.Hash(body.GetValue()), 16), body: body}, nil
}

// withChain makes the chain of a cluster's filters readable in its version, also for a
// pointsman that has started since.
func withChain(version string, chain envoy.Chain) string {
	if chain == envoy.ChainNone {
		return version
	}
	return version + "." + strconv.Itoa(int(chain))
}

// chainIn gives the chain of the cluster of this version.
func chainIn(version string) envoy.Chain {
	_, chain, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(chain)
	return envoy.Chain(n)
}

// validate checks a message and all that is packed in it.
func validate(m proto.Message) error {
	check := func(m proto.Message) error {
		if v, ok := m.(interface{ ValidateAll() error }); ok {
			return v.ValidateAll()
		}
		return nil
	}
	if err := check(m); err != nil {
		return err
	}
	return protorange.Range(m.ProtoReflect(), func(v protopath.Values) error {
		if last := v.Index(-1); last.Step.Kind() == protopath.AnyExpandStep {
			return check(last.Value.Message().Interface())
		}
		return nil
	})
}

// store is what every Envoy should have. It is guarded by the Server's mutex.
type store struct {
	resources [kinds]map[string]*resource
	targets   map[string]string        // cluster -> target id, draining ones included
	removed   map[string]time.Time     // draining cluster -> since when
	withdrawn map[string]bool          // about to be deleted
	external  map[string]bool          // target ids
	needs     map[string]string        // cluster -> secret, of draining ones too
	chain     envoy.Chain              // of the latest clusters
	invalid   map[string]string        // cluster whose latest form is not valid -> why
	logged    [kinds]map[string]string // name -> version whose refusal was logged
}

func newStore() store {
	st := store{
		targets: map[string]string{}, removed: map[string]time.Time{}, withdrawn: map[string]bool{},
		external: map[string]bool{}, needs: map[string]string{}, invalid: map[string]string{},
	}
	for k := range kinds {
		st.resources[k] = map[string]*resource{}
		st.logged[k] = map[string]string{}
	}
	return st
}

// apply takes an update over. It gives the faults that were not known before.
func (st *store) apply(p *prepared, now time.Time) (news []fault) {
	old := st.resources[clusters]
	next := p.resources[clusters]
	invalid := map[string]string{}
	for _, f := range p.faults {
		invalid[f.name] = f.reason
		if st.invalid[f.name] != f.reason {
			news = append(news, f)
		}
		if had := old[f.name]; had != nil {
			next[f.name] = had
			st.keepSecret(p, f.name)
		}
	}
	removed := map[string]time.Time{}
	targets := map[string]string{}
	for name, r := range old {
		if next[name] != nil {
			continue
		}
		id, isTarget := st.targets[name]
		if !isTarget {
			continue // nobody waits for it
		}
		next[name], targets[name] = r, id
		st.keepSecret(p, name)
		if removed[name] = st.removed[name]; removed[name].IsZero() {
			removed[name] = now
		}
	}
	maps.Copy(targets, p.targets)
	st.resources, st.targets, st.removed, st.invalid = p.resources, targets, removed, invalid
	st.needs, st.chain = p.needs, p.chain
	st.withdrawn = map[string]bool{}
	for k := range kinds {
		maps.DeleteFunc(st.logged[k], func(name, _ string) bool {
			return st.resources[k][name] == nil && invalid[name] == ""
		})
	}
	st.external = map[string]bool{}
	for _, id := range p.external {
		st.external[id] = true
	}
	return news
}

// keepSecret takes over what a cluster needs that stays as it was. A newer key of the
// same name is as good.
func (st *store) keepSecret(p *prepared, cluster string) {
	need := st.needs[cluster]
	if need == "" {
		delete(p.needs, cluster)
		return
	}
	if p.needs == nil {
		p.needs = map[string]string{}
	}
	p.needs[cluster] = need
	if p.resources[secrets][need] == nil {
		if had := st.resources[secrets][need]; had != nil {
			p.resources[secrets][need] = had
		}
	}
}

// ids are the ids of all targets, draining ones included.
func (st *store) ids() []string {
	ids := slices.Collect(maps.Values(st.targets))
	return slices.AppendSeq(ids, maps.Keys(st.external))
}

// drain is a cluster that stays only until its attempts have ended.
type drain struct {
	name, target string
	since        time.Time
}

func (st *store) draining() []drain {
	var out []drain
	for name, since := range st.removed {
		out = append(out, drain{name, st.targets[name], since})
	}
	return out
}

// withdraw makes the targets of draining clusters unreachable, as the step before
// deleteWithdrawn. One that an update has brought back in between is left alone.
func (st *store) withdraw(names []string) {
	for _, name := range names {
		if !st.removed[name].IsZero() {
			st.withdrawn[name] = true
		}
	}
}

func (st *store) deleteWithdrawn() {
	for name := range st.withdrawn {
		delete(st.resources[clusters], name)
		delete(st.targets, name)
		delete(st.removed, name)
		delete(st.needs, name)
	}
	clear(st.withdrawn)
	needed := map[string]bool{}
	for _, secret := range st.needs {
		needed[secret] = true
	}
	maps.DeleteFunc(st.resources[secrets], func(name string, _ *resource) bool { return !needed[name] })
}
