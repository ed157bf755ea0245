package extproc

import (
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pointsman/pointsman/internal/routing"
	"github.com/pointsman/pointsman/internal/wire"
	"github.com/pointsman/pointsman/picker"
)

// prepared are the parts of replies that are the same for every request under one
// snapshot. Immutable.
type prepared struct {
	snapshot *routing.Snapshot
	pools    map[*routing.Pool]*preparedPool
	models   []byte // JSON of GET /v1/models
}

// preparedPool is what replies say about a pool.
type preparedPool struct {
	targets map[*routing.Target]*preparedTarget
	retries []*corev3.HeaderValueOption // by number of retries
	kinds   [2]preparedKind             // by picker.Kind
}

// preparedTarget is what replies say about a target.
type preparedTarget struct {
	cluster *corev3.HeaderValueOption // nil if the name cannot stand in a header
	group   []byte                    // its priority group: an element of a ListValue, in wire form
	model   []byte                    // its upstream model: a field of a Struct, in wire form
}

// preparedKind is what replies say about a kind of request.
type preparedKind struct {
	timeout *corev3.HeaderValueOption // nil = no time limit
	remove  []string                  // headers that go no further
}

// preparedFor gives the parts of this snapshot. Around a reload they may be made
// more than once, which costs time and nothing else.
func (s *Server) preparedFor(snapshot *routing.Snapshot) *prepared {
	if p := s.prepared.Load(); p != nil && p.snapshot == snapshot {
		return p
	}
	p := s.prepare(snapshot)
	s.prepared.Store(p)
	return p
}

// preparedPoolFor gives the parts of this pool, in use since this snapshot or, if a reload
// came between, a later one.
func (s *Server) preparedPoolFor(snapshot *routing.Snapshot, pool *routing.Pool) *preparedPool {
	if p := s.preparedFor(snapshot).pools[pool]; p != nil {
		return p
	}
	return s.preparePool(pool, snapshot.Config.Timeouts.Idle).strip(snapshot)
}

func (s *Server) prepare(snapshot *routing.Snapshot) *prepared {
	p := &prepared{snapshot: snapshot, pools: make(map[*routing.Pool]*preparedPool)}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list", Data: []model{}}
	for _, pool := range snapshot.Pools() {
		p.pools[pool] = s.preparePool(pool, snapshot.Config.Timeouts.Idle).strip(snapshot)
		list.Data = append(list.Data, newModel(pool.Name, s.opts.Start.Unix()))
	}
	p.models = mustJSON(list)
	return p
}

func (s *Server) preparePool(pool *routing.Pool, idle time.Duration) *preparedPool {
	targets := pool.Targets()
	p := &preparedPool{targets: make(map[*routing.Target]*preparedTarget, len(targets))}
	for i := range targets {
		p.targets[&targets[i]] = prepareTarget(&targets[i])
	}
	for n := range min(pool.MaxRetries+1, len(targets)) {
		p.retries = append(p.retries, setHeader(wire.HeaderMaxRetries, strconv.AppendInt(nil, int64(n), 10)))
	}
	for _, kind := range []picker.Kind{picker.Unary, picker.Stream} {
		p.kinds[kind] = prepareKind(pool, kind, idle, s.opts.External)
	}
	return p
}

func prepareTarget(t *routing.Target) *preparedTarget {
	p := &preparedTarget{
		group: element(structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"name": structpb.NewStringValue(t.Cluster),
			"clusters": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{
				structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
					"cluster_name": structpb.NewStringValue(t.Cluster),
					"weight":       structpb.NewNumberValue(1),
				}}),
			}}),
		}})),
		model: appendField(nil, wire.KeyModel, marshal(structpb.NewStringValue(t.Model))),
	}
	if visible(t.Cluster) {
		p.cluster = setHeader(wire.HeaderCluster, []byte(t.Cluster))
	}
	return p
}

// prepareKind chooses the header that carries the time limit: of one attempt, after
// which the next entry follows, or of all attempts together. The former is left out
// where timeouts.idle_secs ends a silent attempt at least as soon: once it is over Envoy
// watches the attempt's silence no more.
func prepareKind(pool *routing.Pool, kind picker.Kind, idle time.Duration, external bool) preparedKind {
	var k preparedKind
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
		k.remove = []string{"authorization", "x-api-key"}
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
