package xds

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pointsman/pointsman/envoy"
	"github.com/pointsman/pointsman/internal/wire"
)

// board is the Targets of a test: what it was told, with the whole history.
type board struct {
	mu        sync.Mutex
	reachable map[string]bool
	history   []string // "id true"
	listed    map[string]bool
	onSet     func() // called within SetReachable
}

func (b *board) SetReachable(id string, ok bool) {
	b.mu.Lock()
	b.reachable[id] = ok
	b.history = append(b.history, fmt.Sprint(id, " ", ok))
	onSet := b.onSet
	b.mu.Unlock()
	if onSet != nil {
		onSet()
	}
}

func (b *board) Listed(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listed[id]
}

func (b *board) list(id string, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listed[id] = on
}

// up are the reachable targets, in order.
func (b *board) up() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for id, ok := range b.reachable {
		if ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// since gives the history from a mark on, and the next mark.
func (b *board) since(mark int) ([]string, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.history[mark:]), len(b.history)
}

// lines is a log of a test.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, strings.TrimSpace(string(p)))
	return len(p), nil
}

func (l *lines) with(parts ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.text {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			n++
		}
	}
	return n
}

// world is a Server with all that is around it in a test.
type world struct {
	*Server
	t     *testing.T
	board *board
	log   *lines
	peers []*peer
	stop  context.CancelFunc
	done  chan struct{}
}

const testDrainMax = 10 * time.Minute

func newWorld(t *testing.T, res *envoy.Resources) *world {
	t.Helper()
	w := &world{
		t:     t,
		board: &board{reachable: map[string]bool{}, listed: map[string]bool{}},
		log:   &lines{},
		done:  make(chan struct{}),
	}
	w.Server = New(Options{
		Log:      slog.New(slog.NewTextHandler(w.log, nil)),
		Targets:  w.board,
		DrainMax: func() time.Duration { return testDrainMax },
	})
	w.update(res)
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	go func() {
		defer close(w.done)
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return w
}

// pass lets time go by: that of the test's bubble.
func (w *world) pass(d time.Duration) { <-time.After(d) }

func (w *world) update(res *envoy.Resources) {
	w.t.Helper()
	if err := w.Update(res); err != nil {
		w.t.Fatal(err)
	}
}

// end stops the server and sees every stream end by itself.
func (w *world) end() {
	w.stop()
	<-w.done
	for _, p := range w.peers {
		<-p.ended
	}
}

func (w *world) wantUp(ids string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.board.up(); got != ids {
		w.t.Errorf("reachable: %q, want %q", got, ids)
	}
}

func (w *world) wantReady(want bool) {
	w.t.Helper()
	synctest.Wait()
	if got := w.Ready(); got != want {
		w.t.Errorf("ready: %v", got)
	}
}

func (w *world) wantProxies(connected, counting int) {
	w.t.Helper()
	synctest.Wait()
	if c, n := w.Proxies(); c != connected || n != counting {
		w.t.Errorf("%d connected, %d counting, want %d, %d", c, n, connected, counting)
	}
}

func (w *world) reason(id string) string {
	w.t.Helper()
	_, targets := w.Status()
	for _, s := range targets {
		if s.ID == id {
			return s.Reason
		}
	}
	w.t.Errorf("no status of target %s", id)
	return ""
}

// resources are a listener, a route and one cluster for each target. A target
// is "id" or "id=n", where n stands for what may change about it.
func resources(targets ...string) *envoy.Resources {
	res := &envoy.Resources{
		Clusters: map[string]*clusterv3.Cluster{wire.ClusterNone: cluster(wire.ClusterNone, time.Second)},
		Listener: &listenerv3.Listener{Name: wire.ListenerName},
		Route:    &routev3.RouteConfiguration{Name: wire.RouteName},
		Targets:  map[string]string{},
	}
	for _, target := range targets {
		id, form, _ := strings.Cut(target, "=")
		name := wire.ClusterName(id)
		res.Clusters[name] = cluster(name, time.Second+time.Duration(len(form))*time.Millisecond)
		res.Targets[name] = id
	}
	return res
}

func cluster(name string, connect time.Duration) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(connect)}
}

// peer plays an Envoy: it subscribes in Envoy's order, keeps what it accepts,
// answers every response, and on a new stream says what it holds.
type peer struct {
	w    *world
	node string

	// refuse gives the reason for which a resource is refused, "" to take it.
	refuse func(typeURL, name string) string
	// whole says that a response with a refused resource is dropped whole, and
	// nobody is named.
	whole bool
	// delay is how long an answer takes.
	delay time.Duration
	// secretOf gives the secret that a cluster names.
	secretOf map[string]string

	stop  context.CancelFunc
	ended chan struct{}

	mu       sync.Mutex
	have     map[string]map[string]string // type -> name -> version
	held     map[string]bool              // types whose responses are not answered
	waiting  []*discoveryv3.DeltaDiscoveryResponse
	got      []*discoveryv3.DeltaDiscoveryResponse // on this stream
	asked    map[string]bool                       // types, on this stream
	requests chan *discoveryv3.DeltaDiscoveryRequest
	err      error // how the stream ended
}

var (
	cds = clusters.typeURL()
	lds = listeners.typeURL()
	rds = routes.typeURL()
	sds = secrets.typeURL()
)

// connect is a new Envoy.
func (w *world) connect(node string, change ...func(*peer)) *peer {
	p := &peer{w: w, node: node, have: map[string]map[string]string{}, held: map[string]bool{}}
	for _, f := range change {
		f(p)
	}
	p.open()
	return p
}

func holding(types ...string) func(*peer) {
	return func(p *peer) {
		for _, typeURL := range types {
			p.held[typeURL] = true
		}
	}
}

func refusing(reason string, names ...string) func(*peer) {
	return func(p *peer) {
		p.refuse = func(_, name string) string {
			if slices.Contains(names, name) {
				return reason
			}
			return ""
		}
	}
}

// fakeStream is the server's end of a peer's stream.
type fakeStream struct {
	grpc.ServerStream
	ctx       context.Context
	requests  chan *discoveryv3.DeltaDiscoveryRequest
	responses chan *discoveryv3.DeltaDiscoveryResponse
}

func (f *fakeStream) Context() context.Context { return f.ctx }

func (f *fakeStream) Recv() (*discoveryv3.DeltaDiscoveryRequest, error) {
	select {
	case r, ok := <-f.requests:
		if !ok {
			return nil, io.EOF
		}
		return r, nil
	case <-f.ctx.Done():
		return nil, f.ctx.Err()
	}
}

func (f *fakeStream) Send(r *discoveryv3.DeltaDiscoveryResponse) error {
	select {
	case f.responses <- r:
		return nil
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
}

// open begins a stream.
func (p *peer) open() {
	ctx, cancel := context.WithCancel(p.w.t.Context())
	s := &fakeStream{
		ctx: ctx,
		// Room for what flow control would let through.
		requests:  make(chan *discoveryv3.DeltaDiscoveryRequest, 64),
		responses: make(chan *discoveryv3.DeltaDiscoveryResponse, 64),
	}
	p.mu.Lock()
	p.stop, p.requests, p.got, p.waiting, p.asked = cancel, s.requests, nil, nil, map[string]bool{}
	p.ended = make(chan struct{})
	types := []string{cds}
	if len(p.have[lds]) > 0 { // a reconnection
		types = append(types, lds, rds)
	}
	if len(p.have[sds]) > 0 {
		types = append(types, sds)
	}
	for _, typeURL := range types {
		p.asked[typeURL] = true
	}
	p.mu.Unlock()
	p.w.peers = append(p.w.peers, p)
	go func() {
		err := p.w.DeltaAggregatedResources(s)
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		cancel()
		close(p.ended)
	}()
	go func() {
		for {
			select {
			case resp := <-s.responses:
				p.receive(ctx, resp)
			case <-ctx.Done():
				return
			}
		}
	}()
	for i, typeURL := range types {
		req := p.first(typeURL)
		if i == 0 {
			req.Node = &corev3.Node{Id: p.node, UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1.2.3"}}
		}
		p.send(ctx, req)
	}
}

// first is the first request of a type on a stream.
func (p *peer) first(typeURL string) *discoveryv3.DeltaDiscoveryRequest {
	p.mu.Lock()
	p.asked[typeURL] = true
	p.mu.Unlock()
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, InitialResourceVersions: p.holds(typeURL)}
	if typeURL == rds {
		req.ResourceNamesSubscribe = []string{wire.RouteName}
	}
	if typeURL == sds {
		for name := range req.InitialResourceVersions {
			req.ResourceNamesSubscribe = append(req.ResourceNamesSubscribe, name)
		}
	}
	return req
}

func (p *peer) send(ctx context.Context, req *discoveryv3.DeltaDiscoveryRequest) {
	select {
	case p.requests <- req:
	case <-ctx.Done():
	}
}

// receive does what Envoy does with a response.
func (p *peer) receive(ctx context.Context, resp *discoveryv3.DeltaDiscoveryResponse) {
	p.mu.Lock()
	p.got = append(p.got, resp)
	if p.held[resp.GetTypeUrl()] {
		p.waiting = append(p.waiting, resp)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.answer(ctx, resp)
}

func (p *peer) answer(ctx context.Context, resp *discoveryv3.DeltaDiscoveryResponse) {
	if p.delay > 0 {
		select {
		case <-time.After(p.delay):
		case <-ctx.Done():
			return
		}
	}
	typeURL := resp.GetTypeUrl()
	var bad []string
	p.mu.Lock()
	for _, r := range resp.GetResources() {
		if p.refuse != nil {
			if reason := p.refuse(typeURL, r.GetName()); reason != "" {
				bad = append(bad, r.GetName()+": "+reason)
			}
		}
	}
	if len(bad) == 0 {
		if p.have[typeURL] == nil {
			p.have[typeURL] = map[string]string{}
		}
		for _, r := range resp.GetResources() {
			p.have[typeURL][r.GetName()] = r.GetVersion()
		}
		for _, name := range resp.GetRemovedResources() {
			delete(p.have[typeURL], name)
		}
	}
	var more string
	switch { // Envoy asks for the listener once its first clusters have been dealt with
	case typeURL == cds && !p.asked[lds]:
		more = lds
	case typeURL == lds && !p.asked[rds] && len(p.have[lds]) > 0:
		more = rds
	}
	p.mu.Unlock()
	ack := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: resp.GetNonce()}
	if len(bad) > 0 {
		message := "Error adding/updating cluster(s) " + strings.Join(bad, ", ")
		if p.whole {
			message = "Invalid duration"
		}
		ack.ErrorDetail = &status.Status{Code: int32(codes.Internal), Message: message}
	}
	p.send(ctx, ack)
	if typeURL == cds && len(bad) == 0 {
		p.askSecrets(ctx, resp)
	}
	if more != "" {
		p.send(ctx, p.first(more))
	}
}

// askSecrets subscribes to what new clusters need.
func (p *peer) askSecrets(ctx context.Context, resp *discoveryv3.DeltaDiscoveryResponse) {
	for _, r := range resp.GetResources() {
		need := p.secretOf[r.GetName()]
		p.mu.Lock()
		known := need == "" || p.asked[sds+need]
		p.asked[sds+need] = true
		p.mu.Unlock()
		if !known {
			req := p.first(sds)
			req.ResourceNamesSubscribe = []string{need}
			p.send(ctx, req)
		}
	}
}

// release answers what was held back.
func (p *peer) release(typeURL string) {
	p.mu.Lock()
	delete(p.held, typeURL)
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, resp := range waiting {
		if resp.GetTypeUrl() == typeURL {
			p.answer(p.w.t.Context(), resp)
		}
	}
}

// vanish ends the stream without a word and waits until the server knows.
func (p *peer) vanish() {
	p.stop()
	<-p.ended
}

// holds are the versions of a type that the peer has.
func (p *peer) holds(typeURL string) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.have[typeURL])
}

// sent are the resources and removals of a type on this stream, a response a line.
func (p *peer) sent(typeURL string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, resp := range p.got {
		if resp.GetTypeUrl() != typeURL {
			continue
		}
		var names []string
		for _, r := range resp.GetResources() {
			names = append(names, strings.TrimPrefix(r.GetName(), wire.ClusterPrefix))
		}
		for _, name := range resp.GetRemovedResources() {
			names = append(names, "-"+strings.TrimPrefix(name, wire.ClusterPrefix))
		}
		out = append(out, strings.Join(names, " "))
	}
	return out
}

// order are the types of the responses on this stream.
func (p *peer) order() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, resp := range p.got {
		k, _ := kindOf(resp.GetTypeUrl())
		out = append(out, k.String())
	}
	return strings.Join(out, " ")
}

// wantHolds checks that the peer has exactly the clusters of these targets, as
// the server has them now.
func (p *peer) wantHolds(ids ...string) {
	p.w.t.Helper()
	synctest.Wait()
	p.w.mu.Lock()
	want := map[string]string{}
	for _, name := range append([]string{wire.ClusterNone}, ids...) {
		if name != wire.ClusterNone {
			name = wire.ClusterName(name)
		}
		r := p.w.mu.store.resources[clusters][name]
		if r == nil {
			p.w.t.Errorf("the server has no %s", name)
			continue
		}
		want[name] = r.version
	}
	p.w.mu.Unlock()
	if got := p.holds(cds); !maps.Equal(got, want) {
		p.w.t.Errorf("%s holds %v, want %v", p.node, got, want)
	}
}
