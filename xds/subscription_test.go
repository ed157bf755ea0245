package xds

import (
	"fmt"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func TestTypeURLs(t *testing.T) {
	for k, m := range [kinds]proto.Message{&tlsv3.Secret{}, &clusterv3.Cluster{}, &routev3.RouteConfiguration{}, &listenerv3.Listener{}} {
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, kind(k).String(), kind(k).typeURL(), a.GetTypeUrl())
	}
	if _, served := kindOf("type.googleapis.com/other"); served {
		t.Error("a type that is not served is")
	}
}

// script plays a subscription without a stream. A step is "+name", "-name"
// (subscribe, unsubscribe), "ack", "nack reason", "old" (an answer to another
// response) or "have a=1 b=2" (what the server has); it gives the response that follows.
type script struct {
	sub  *subscription
	have map[string]*resource
	sent int
}

func (s *script) step(line string) string {
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds}
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "have":
		s.have = map[string]*resource{}
		for _, f := range strings.Fields(rest) {
			name, version, _ := strings.Cut(f, "=")
			s.have[name] = &resource{version: version}
		}
	case "ack", "nack":
		req.ResponseNonce = fmt.Sprint(s.sent)
		if verb == "nack" {
			req.ErrorDetail = &status.Status{Message: rest}
		}
	case "old":
		req.ResponseNonce = "0"
	default:
		for _, f := range strings.Fields(line) {
			if name, ok := strings.CutPrefix(f, "+"); ok {
				req.ResourceNamesSubscribe = append(req.ResourceNamesSubscribe, name)
			} else if name, ok := strings.CutPrefix(f, "-"); ok {
				req.ResourceNamesUnsubscribe = append(req.ResourceNamesUnsubscribe, name)
			} else if name, version, ok := strings.Cut(f, "="); ok {
				if req.InitialResourceVersions == nil {
					req.InitialResourceVersions = map[string]string{}
				}
				req.InitialResourceVersions[name] = version
			}
		}
	}
	if verb != "have" {
		first := s.sub == nil
		if first {
			s.sub = newSubscription(req, true)
		}
		s.sub.change(req, first)
		s.sub.answered(req)
	}
	if s.sub == nil {
		return ""
	}
	resp := s.sub.next(s.have, fmt.Sprint(s.sent+1))
	if resp == nil {
		return ""
	}
	s.sent++
	out := []string{"!"}
	for _, r := range resp.GetResources() {
		out = append(out, r.GetName()+"="+r.GetVersion())
	}
	for _, name := range resp.GetRemovedResources() {
		out = append(out, "-"+name)
	}
	return strings.Join(out, " ")
}

func TestSubscription(t *testing.T) {
	for name, steps := range map[string][][2]string{
		"everything": {
			{"have a=1 b=1", ""}, {"first", "! a=1 b=1"}, {"have a=2 b=1", ""}, {"ack", "! a=2"}, {"ack", ""},
			{"have b=1", "! -a"}, {"ack", ""},
		},
		"everything, and there is nothing": {
			{"have", ""}, {"first", "!"}, {"ack", ""}, {"have a=1", "! a=1"},
		},
		"everything, said with a star": {
			{"have a=1", ""}, {"+*", "! a=1"}, {"ack", ""}, {"-*", ""}, {"have a=2", ""}, {"+*", "! a=2"},
		},
		"what is held is not sent": {
			{"have a=1 b=2", ""}, {"a=1 b=1 c=1", "! b=2 -c"}, {"ack", ""},
		},
		"by name": {
			{"have a=1 b=1", ""}, {"+a", "! a=1"}, {"ack", ""}, {"have a=1 b=2", ""}, {"+b", "! b=2"}, {"ack", ""},
			{"-a", ""}, {"have a=3 b=2", ""}, {"+a", "! a=3"},
		},
		"by name, held": {
			{"have a=1 b=1", ""}, {"+a +b a=1", "! b=1"}, {"ack", ""},
		},
		"by name, and there is no such": {
			{"have a=1", ""}, {"+x", "! -x"}, {"ack", ""}, {"have a=1 x=1", "! x=1"}, {"ack", ""}, {"have", "! -x"},
		},
		"again": { // who subscribes gets an answer
			{"have a=1", ""}, {"+a", "! a=1"}, {"ack", ""}, {"+a", "! a=1"}, {"ack", ""},
		},
		"one name less of everything": { // Envoy asks whether it stays
			{"have a=1 b=1", ""}, {"+* +a +x", "! a=1 b=1 -x"}, {"ack", ""}, {"-a", "! a=1"}, {"ack", ""}, {"-x", "! -x"}, {"ack", ""},
		},
		"one on its way at a time": {
			{"have a=1", ""}, {"first", "! a=1"}, {"have a=2 b=1", ""}, {"have a=3 b=1", ""}, {"ack", "! a=3 b=1"},
		},
		"an answer to something else": {
			{"have a=1", ""}, {"first", "! a=1"}, {"old", ""}, {"ack", ""}, {"have a=2", "! a=2"}, {"old", ""}, {"ack", ""},
		},
		"refused by name": {
			{"have a=1 b=1 c=1", ""}, {"first", "! a=1 b=1 c=1"}, {"nack error: b: no", "! a=1 c=1"}, {"ack", ""},
			{"have a=1 b=1 c=2", "! c=2"}, {"ack", ""}, {"have a=1 b=2 c=2", "! b=2"}, {"nack b: no", ""},
			{"have a=1 c=2", ""}, {"have a=1 b=2 c=2", ""}, {"have a=1 b=3 c=2", "! b=3"}, {"ack", ""},
		},
		"a change refused": {
			{"have a=1", ""}, {"first", "! a=1"}, {"ack", ""}, {"have a=2", "! a=2"}, {"nack a: no", ""},
			{"have a=1", ""}, {"have", "! -a"}, {"ack", ""},
		},
		"refused without a name": {
			{"have a=1 b=1 c=1 d=1", ""}, {"first", "! a=1 b=1 c=1 d=1"}, {"nack no", "! a=1 b=1"}, {"ack", "! c=1"},
			{"nack no", "! d=1"}, {"ack", ""},
		},
		"two refused without a name": {
			{"have a=1 b=1 c=1 d=1", ""}, {"first", "! a=1 b=1 c=1 d=1"}, {"nack no", "! a=1 b=1"}, {"nack no", "! a=1"},
			{"nack no", "! b=1 c=1 d=1"}, {"nack no", "! b=1"}, {"ack", "! c=1"}, {"ack", "! d=1"}, {"nack no", ""},
		},
		"removal with a bad one": {
			{"have a=1", ""}, {"first", "! a=1"}, {"ack", ""}, {"have b=1", "! b=1 -a"}, {"nack b: no", "! -a"}, {"ack", ""},
		},
		"removal refused": {
			{"have a=1", ""}, {"first", "! a=1"}, {"ack", ""}, {"have", "! -a"}, {"nack no", ""}, {"have a=1", "! a=1"},
		},
		"removed and back before the answer": {
			{"have a=1", ""}, {"first", "! a=1"}, {"ack", ""}, {"have", "! -a"}, {"have a=1", ""}, {"ack", "! a=1"},
		},
	} {
		s := &script{}
		for i, step := range steps {
			if got := s.step(step[0]); got != step[1] {
				t.Errorf("%s: step %d, %q: got %q, want %q", name, i, step[0], got, step[1])
				break
			}
		}
	}
}

func TestBlamed(t *testing.T) {
	names := []string{"pm|a", "pm|a/b", "pm|a/b:c", "pointsman_none"}
	for message, want := range map[string]map[string]string{
		"Error adding/updating cluster(s) pm|a: no such thing":         {"pm|a": "no such thing"},
		"Error adding/updating cluster(s) pm|a/b: x, pm|a/b:c: y: z":   {"pm|a/b": "x", "pm|a/b:c": "y: z"},
		"Error adding/updating cluster(s) pm|a/b:c: about pm|a/b:c: y": {"pm|a/b:c": "about pm|a/b:c: y"},
		"goo.gle/debugstr \nname: \"pm|a/b\"\ntype: STATIC\n: bad port": {
			"pm|a/b": `goo.gle/debugstr name: "pm|a/b" type: STATIC : bad port`,
		},
		"duplicate cluster pm|a found":     {"pm|a": "duplicate cluster pm|a found"},
		"the cluster is pm|a.":             {"pm|a": "the cluster is pm|a."},
		"pm|a":                             {"pm|a": "pm|a"},
		"pm|a/bc and xpm|a":                {},
		"Invalid duration: nanos: -5":      {},
		"":                                 {},
		"bad \xff bytes in pm|a: \xff":     {"pm|a": "?"},
		"cluster 'pointsman_none': broken": {"pointsman_none": "cluster 'pointsman_none': broken"},
	} {
		wantEqual(t, message, blamed(message, names), want)
	}
}

func TestTidy(t *testing.T) {
	long := strings.Repeat("é", maxReason) + " the end"
	got := tidy(long)
	if len(got) > maxReason || !strings.HasPrefix(got, "éé") || !strings.HasSuffix(got, "é the end") || !strings.Contains(got, " ... ") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	wantEqual(t, "valid", strings.ToValidUTF8(got, ""), got)
	wantEqual(t, "short", tidy("a\n  b\t\n"), "a b")
}

// A stream that asks for too much, or for nothing, is ended.
func TestBadRequests(t *testing.T) {
	names := make([]string, maxNames+1)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	var types []*discoveryv3.DeltaDiscoveryRequest
	for i := range maxOthers + 1 {
		types = append(types, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: fmt.Sprint("t", i), ResourceNamesSubscribe: []string{"x"}})
	}
	for name, c := range map[string]struct {
		requests []*discoveryv3.DeltaDiscoveryRequest
		want     codes.Code
	}{
		"no type":        {[]*discoveryv3.DeltaDiscoveryRequest{{}}, codes.InvalidArgument},
		"too many names": {[]*discoveryv3.DeltaDiscoveryRequest{{TypeUrl: cds, ResourceNamesSubscribe: names}}, codes.ResourceExhausted},
		"too many types": {types, codes.ResourceExhausted},
	} {
		run(t, resources("a"), func(t *testing.T, w *world) {
			p := w.connect("e")
			w.wantUp("a")
			for _, req := range c.requests {
				p.send(t.Context(), req)
			}
			<-p.ended
			if got := grpcstatus.Code(p.err); got != c.want {
				t.Errorf("%s: %v, want %v", name, p.err, c.want)
			}
		})
	}
}

// Of a type that is not ours there is nothing, and whoever asks is told so.
func TestOtherTypes(t *testing.T) {
	run(t, resources("a"), func(t *testing.T, w *world) {
		p := w.connect("e")
		w.wantUp("a")
		p.send(t.Context(), &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/secret", ResourceNamesSubscribe: []string{"key"}})
		w.wantUp("a")
		wantEqual(t, "secret", p.sent("type.googleapis.com/secret"), []string{"-key"})
	})
}
