package app

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pointsman/pointsman/internal/fakeenvoy"
	"github.com/pointsman/pointsman/internal/wire"
)

// From the start to SIGINT: pages, a request from its headers to its outcome, and what is
// left afterwards.
func TestLife(t *testing.T) {
	w := newWorld(t)
	w.write(external + twoTargets)
	w.start()
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := w.get(path); status != 200 || body != "ok\n" {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	w.becomes(`pointsman_build_info{goversion="go1",revision="r",version="v1"}`, 1)

	e := w.envoy()
	x := w.ask(e, "m")
	if x.Answer != nil || len(x.Clusters) != 2 || x.Clusters[0] != "one" || !strings.HasPrefix(x.Decision(), "-ode-1-") {
		t.Fatalf("answer %+v, clusters %q, decision %q", x.Answer, x.Clusters, x.Decision())
	}
	if n := w.metric(`pointsman_in_flight{endpoint="a"}`); n != 1 {
		t.Errorf("%g in flight", n)
	}
	l, err := e.Log(t.Context(), wire.LogAttempt)
	if err != nil {
		t.Fatal(err)
	}
	attempt := fakeenvoy.Attempt{Decision: x.Decision(), Cluster: "one", Number: 1, Status: 200,
		FirstHeader: time.Millisecond, FirstBody: 2 * time.Millisecond, Total: 30 * time.Millisecond}
	if err := l.Send(attempt.Entry()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := x.End(); err != nil {
		t.Fatal(err)
	}
	w.becomes(`pointsman_requests_total{code="200",model="m"}`, 1)
	w.becomes(`pointsman_outcomes_total{outcome="complete",target="a/m"}`, 1)
	w.becomes(`pointsman_in_flight{endpoint="a"}`, 0)
	if y := w.ask(e, "nobody"); y.Answer == nil || y.Answer.Status != 404 {
		t.Errorf("a miss: %+v", y.Answer)
	}
	w.becomes(`pointsman_requests_total{code="404",model=""}`, 1)

	w.ask(e, "m") // is still open
	w.signals <- syscall.SIGINT
	if err := w.wait(); err != nil {
		t.Errorf("SIGINT: %v", err)
	}
	if _, err := os.Lstat(w.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket file is left: %v", err)
	}
	said := strings.Split(strings.TrimSpace(w.out.String()), "\n")
	if len(w.out.lines("started")) != 1 || len(w.out.lines("ending at once")) != 1 || !strings.Contains(said[len(said)-1], `"msg":"ended"`) {
		t.Errorf("log:\n%s", w.out.String())
	}
}

// In the default shape nobody is ready before an Envoy has accepted the listener. A caller
// may end the App without a signal.
func TestNotReady(t *testing.T) {
	w := newWorld(t)
	w.write(twoTargets)
	w.start()
	if status, body := w.get("/readyz"); status != 503 || body != "proxy: none has accepted the listener\n" {
		t.Errorf("%d %q", status, body)
	}
	if status, body := w.get("/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("%d %q", status, body)
	}
	w.becomes(`pointsman_target_reachable{target="a/m"}`, 0)
}

// SIGTERM with a request open: not ready at once, deciding all the same, and the end 5 s
// after the last request.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(external + twoTargets)
	w.start()
	conn, err := grpc.NewClient("unix:"+w.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	serving := func() healthpb.HealthCheckResponse_ServingStatus {
		t.Helper()
		resp, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetStatus()
	}
	if got := serving(); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health before: %s", got)
	}
	e := w.envoy()
	x := w.ask(e, "m")
	w.signals <- syscall.SIGTERM
	w.eventually("draining", func() error {
		if status, body := w.get("/readyz"); status != 503 || body != "draining\n" {
			return fmt.Errorf("%d %q", status, body)
		}
		return nil
	})
	if status, _ := w.get("/healthz"); status != 200 {
		t.Errorf("healthz while draining: %d", status)
	}
	if got := serving(); got != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health while draining: %s", got)
	}
	if y := w.ask(e, "m"); y.Answer != nil {
		t.Errorf("a request while draining: %+v", y.Answer)
	} else if err := y.End(); err != nil {
		t.Error(err)
	}
	if err := x.End(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := w.wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if took := time.Since(begin); took < idleBeforeEnd-time.Second {
		t.Errorf("ended %s after the last request", took)
	}
	if l := w.out.lines("draining"); len(l) != 1 || l[0]["open"] != 1.0 || l[0]["timeout"] != "30s" {
		t.Errorf("draining: %v", l)
	}
}

// A request that does not end holds nothing up beyond drain.timeout.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("drain: {timeout: 200ms}\n" + external + twoTargets)
	w.start()
	w.ask(w.envoy(), "m")
	begin := time.Now()
	w.signals <- syscall.SIGTERM
	if err := w.wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if took := time.Since(begin); took < 200*time.Millisecond || took > idleBeforeEnd {
		t.Errorf("it took %s", took)
	}
	if l := w.out.lines("the time for draining is over: the outcomes of open requests will not be heard"); len(l) != 1 || l[0]["open"] != 1.0 {
		t.Errorf("log: %v", l)
	}
}

// A second SIGTERM ends at once, and so does SIGINT while draining.
func TestSecondSignal(t *testing.T) {
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(second.String(), func(t *testing.T) {
			w := newWorld(t)
			w.write("drain: {timeout: 1h}\n" + external + twoTargets)
			w.start()
			w.ask(w.envoy(), "m")
			w.signals <- syscall.SIGTERM
			w.signals <- second
			if err := w.wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
			if l := w.out.lines("ending at once"); len(l) != 1 || l[0]["signal"] != second.String() {
				t.Errorf("log: %v", l)
			}
		})
	}
}

// A listener that breaks ends the process with an error, which the log tells.
func TestListenerBreaks(t *testing.T) {
	for name, broken := range map[string]func(*App) net.Listener{
		"admin": func(a *App) net.Listener { return a.adminLis },
		"gRPC":  func(a *App) net.Listener { return a.grpcLis },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(external + twoTargets)
			w.start()
			w.eventually("started", func() error {
				if len(w.out.lines("started")) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			_ = broken(w.app).Close()
			err := w.wait()
			if err == nil || !strings.HasPrefix(err.Error(), name+" listener: ") {
				t.Errorf("ended with %v", err)
			}
			if l := w.out.lines("ended"); len(l) != 1 || l[0]["error"] != err.Error() || l[0]["level"] != "ERROR" {
				t.Errorf("log: %v", l)
			}
		})
	}
}

// Bodies of every size arrive, also those that come in many pieces.
func TestLargeBodies(t *testing.T) {
	w := newWorld(t)
	w.write(external + twoTargets)
	w.start()
	e := w.envoy()
	for _, size := range []int{1 << 10, 33 << 10, 1 << 20, 5 << 20, 33 << 20} {
		body := fmt.Appendf(nil, `{"model":"m","prompt":%q}`, strings.Repeat("x", size))
		x, err := e.Ask(t.Context(), fakeenvoy.Request{Path: "/v1/completions", Body: body})
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		switch {
		case size > 32<<20: // limits.body
			if x.Answer == nil || x.Answer.Status != 413 {
				t.Errorf("%d bytes: %+v", size, x.Answer)
			}
		case x.Answer != nil:
			t.Errorf("%d bytes: %+v", size, x.Answer)
		default:
			if err := x.End(); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	}
}

// An output that takes nothing does not keep the process.
func TestOutputStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(external + twoTargets)
	opts := w.options()
	release := make(chan struct{})
	opts.Stderr = stuck(release)
	w.startWith(opts)
	if status, _ := w.get("/healthz"); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	w.signals <- syscall.SIGINT
	if err := w.wait(); err != nil {
		t.Error(err)
	}
	close(release)
}

// stuck takes nothing before it is closed.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

func TestNodeID(t *testing.T) {
	long := strings.Repeat("ü", 128)
	for _, test := range []struct {
		names []string
		want  string
	}{
		{[]string{"ps-0", "host"}, "ps-0"},
		{[]string{"\t ps-0 \n", "host"}, "ps-0"},
		{[]string{"", "host"}, "host"},
		{[]string{"  ", "host"}, "host"},
		{[]string{"a\x00b", "host"}, "host"},
		{[]string{long, "host"}, long},
		{[]string{long + "x", "host"}, "host"},
		{[]string{"", ""}, ""},
	} {
		if got := NodeID(test.names...); got != test.want {
			t.Errorf("%q: %q, want %q", test.names, got, test.want)
		}
	}
	if got := nodePart("Host_1.example-ü"); got != "-ost-1-example--" {
		t.Errorf("in the header: %q", got)
	}
}
