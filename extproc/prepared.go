package extproc

import (
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/config"
	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/wire"
	"github.com/pointsman/pointsman/picker"
)

// prepared are the parts of replies that are the same for every request under one
// snapshot. Immutable.
type prepared struct {
	snapshot *routing.Snapshot
	external bool
	chained  bool // every cluster is to give its target the model that it wants
	now      func() bool
	pools    map[*routing.Pool]*preparedPool
	targets  map[*routing.Target]*preparedTarget
	// passthrough are the ids of the targets that get the client's credentials.
	passthrough map[string]bool
}

// preparedPool is what replies say about a pool.
type preparedPool struct {
	retries []*corev3.HeaderValueOption // by number of retries
	kinds   [2]preparedKind             // by picker.Kind
}

// preparedTarget is what replies say about a target.
type preparedTarget struct {
	cluster     *corev3.HeaderValueOption // nil if the name cannot stand in a header
	group       []byte                    // its priority group: an element of a ListValue, in wire form
	anyModel    bool                      // it serves whatever is asked for
	passthrough bool
}

// preparedKind is what replies say about a kind of request.
type preparedKind struct {
	timeout *corev3.HeaderValueOption // nil = no time limit
	remove  []string                  // headers that go no further
}

// preparedFor gives the parts of this snapshot. They are made by the first request under
// it, for which those that come at the same moment wait: it takes milliseconds with
// thousands of pools.
func (s *Server) preparedFor(snapshot *routing.Snapshot) *prepared {
	if p := s.prepared.Load(); p != nil && p.snapshot == snapshot {
		return p
	}
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if p := s.prepared.Load(); p != nil && p.snapshot == snapshot {
		return p
	}
	p := prepare(snapshot, s.opts.External)
	p.now = s.opts.Chained
	s.prepared.Store(p)
	return p
}

func prepare(snapshot *routing.Snapshot, external bool) *prepared {
	cfg := snapshot.Config
	p := &prepared{
		snapshot: snapshot, external: external, chained: cfg.Chained() && !external,
		pools:       make(map[*routing.Pool]*preparedPool),
		targets:     make(map[*routing.Target]*preparedTarget),
		passthrough: make(map[string]bool),
	}
	for _, t := range cfg.Targets() {
		if cfg.Providers[t.ProviderIndex].Credentials.Passthrough {
			p.passthrough[t.ID] = true
		}
	}
	byID := make(map[string]*preparedTarget) // pools have targets in common
	for _, list := range [][]*routing.Pool{snapshot.Pools(), snapshot.Pins()} {
		for _, pool := range list {
			p.pools[pool] = p.preparePool(pool).strip(snapshot)
			targets := pool.Targets()
			for i := range targets {
				t := &targets[i]
				if byID[t.ID] == nil {
					byID[t.ID] = p.prepareTarget(t)
				}
				p.targets[t] = byID[t.ID]
			}
		}
	}
	return p
}

// chainedNow tells whether the proxies do already what chained says.
func (p *prepared) chainedNow() bool { return p.now == nil || p.now() }

// pool gives the parts of this pool, in use since this snapshot or, if a reload came
// between, a later one.
func (p *prepared) pool(pool *routing.Pool) *preparedPool {
	if had := p.pools[pool]; had != nil {
		return had
	}
	return p.preparePool(pool)
}

// target is to targets what pool is to pools.
func (p *prepared) target(t *routing.Target) *preparedTarget {
	if had := p.targets[t]; had != nil {
		return had
	}
	return p.prepareTarget(t)
}

func (p *prepared) preparePool(pool *routing.Pool) *preparedPool {
	out := &preparedPool{}
	for n := range pool.MaxRetries + 1 {
		out.retries = append(out.retries, setHeader(wire.HeaderMaxRetries, strconv.AppendInt(nil, int64(n), 10)))
	}
	for _, kind := range []picker.Kind{picker.Unary, picker.Stream} {
		out.kinds[kind] = prepareKind(pool, kind, p.snapshot.Config, p.external)
	}
	return out
}

// retry gives the header that says how many entries come after the first.
func (p *preparedPool) retry(n int) *corev3.HeaderValueOption {
	if n < len(p.retries) {
		return p.retries[n]
	}
	return setHeader(wire.HeaderMaxRetries, strconv.AppendInt(nil, int64(n), 10))
}

func (p *prepared) prepareTarget(t *routing.Target) *preparedTarget {
	out := &preparedTarget{
		group: element(structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"name": structpb.NewStringValue(t.Cluster),
			"clusters": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{
				structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
					"cluster_name": structpb.NewStringValue(t.Cluster),
					"weight":       structpb.NewNumberValue(1),
				}}),
			}}),
		}})),
		anyModel:    t.Model == "",
		passthrough: p.passthrough[t.ID],
	}
	if visible(t.Cluster) {
		out.cluster = setHeader(wire.HeaderCluster, []byte(t.Cluster))
	}
	return out
}

// prepareKind chooses the header that carries the time limit: of one attempt, after
// which the next entry follows, or of all attempts together. The former is left out
// where timeouts.idle_secs ends a silent attempt at least as soon: once it is over Envoy
// watches the attempt's silence no more.
func prepareKind(pool *routing.Pool, kind picker.Kind, cfg *config.Config, external bool) preparedKind {
	var k preparedKind
	if caller := cfg.Callers.Identity.Header; caller != "" {
		k.remove = append(k.remove, caller)
	}
	idle := cfg.Timeouts.Idle
	name := ""
	limit, perTry := pool.TimeLimit(kind)
	if idleFirst := perTry && idle > 0 && limit >= idle; limit > 0 && !idleFirst {
		name = wire.HeaderTimeoutMS
		if perTry {
			name = wire.HeaderPerTryTimeoutMS
		}
		ms := max(limit/time.Millisecond, 1) // 0 would be no limit
		k.timeout = setHeader(name, strconv.AppendInt(nil, int64(ms), 10))
	}
	if !external {
		// The rest of what a client may not say was stripped before any filter.
		// A chain of filters brings back the credentials for whom they are meant.
		k.remove = append(k.remove, wire.HeaderAuthorization, wire.HeaderXAPIKey)
		return k
	}
	for _, h := range wire.StrippedHeaders() {
		switch h {
		case name, wire.HeaderCluster, wire.HeaderDecision, wire.HeaderMaxRetries: // overwritten
		default:
			k.remove = append(k.remove, h)
		}
	}
	return k
}

// visible tells whether a name can be the value of a header.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}

// element is v as an element of a structpb.ListValue, in wire form.
func element(v *structpb.Value) []byte {
	const values = 1
	return protowire.AppendBytes(protowire.AppendTag(nil, values, protowire.BytesType), marshal(v))
}

// marshal encodes a value made of valid text and numbers, which cannot fail.
func marshal(v *structpb.Value) []byte {
	b, err := proto.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
