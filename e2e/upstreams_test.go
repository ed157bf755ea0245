package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Request headers by which a test tells the engines of this file what to do.
const (
	headerCase = "x-test-case" // names the request in the records
	headerPlan = "x-test-plan" // what each attempt gets: a status, early, reset or silent
)

// attempt is what an engine saw of one attempt.
type attempt struct {
	engine, number         string
	path, host             string
	authorization, xAPIKey string
	length                 int64 // -1 = chunked
	encoding, rank, caller string
	body                   string
	unread                 bool // the engine answered without reading the body
}

// records are the attempts that all engines of a test saw, by case.
type records struct {
	mu sync.Mutex
	by map[string][]attempt
}

func newRecords() *records { return &records{by: map[string][]attempt{}} }

// take gives the attempts of a case, in order, and forgets them.
func (r *records) take(name string) []attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.by[name]
	delete(r.by, name)
	return list
}

// upstream is an engine that keeps every byte it got.
type upstream struct {
	name     string
	port     string
	raw      lockedBuffer
	requests int64 // guarded by records.mu
	errors   lockedBuffer
}

// newUpstream starts one on these addresses, all with one port, with TLS if given.
func newUpstream(t testing.TB, r *records, name string, secure *tls.Config, hosts ...string) *upstream {
	t.Helper()
	u := &upstream{name: name, port: "0"}
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	server := &http.Server{Handler: u.handler(r), ErrorLog: log.New(&u.errors, "", 0)}
	for _, host := range hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(host, u.port))
		if err != nil {
			t.Fatal(err)
		}
		_, u.port, _ = net.SplitHostPort(l.Addr().String())
		if secure != nil {
			l = tls.NewListener(l, secure)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(&keepingListener{l, &u.raw})
		}()
		t.Cleanup(func() { _ = server.Close(); <-done })
	}
	return u
}

func (u *upstream) addr() string { return "127.0.0.1:" + u.port }

func (u *upstream) handler(r *records) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		a := attempt{
			engine: u.name, number: req.Header.Get("x-envoy-attempt-count"),
			path: req.RequestURI, host: req.Host,
			authorization: strings.Join(req.Header.Values("authorization"), ","),
			xAPIKey:       strings.Join(req.Header.Values("x-api-key"), ","),
			length:        req.ContentLength, encoding: req.Header.Get("content-encoding"),
			rank: req.Header.Get("x-data-parallel-rank"), caller: req.Header.Get("x-caller"),
		}
		n, _ := strconv.Atoi(a.number)
		plan := "200"
		if steps := strings.Split(req.Header.Get(headerPlan), ","); n >= 1 && n <= len(steps) && steps[n-1] != "" {
			plan = steps[n-1]
		}
		if a.unread = plan == "early"; !a.unread {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				a.body = "unreadable: " + err.Error()
			} else {
				a.body = string(body)
			}
		}
		name := req.Header.Get(headerCase)
		r.mu.Lock()
		r.by[name] = append(r.by[name], a)
		u.requests++
		r.mu.Unlock()
		switch plan {
		case "reset":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		case "silent":
			<-req.Context().Done()
		case "early":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "stream":
			for range 20 {
				_, _ = io.WriteString(w, "data: x\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(100 * time.Millisecond):
				case <-req.Context().Done():
					return
				}
			}
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
		default:
			status, _ := strconv.Atoi(plan)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, u.name)
		}
	})
}

// keepingListener keeps what its connections read.
type keepingListener struct {
	net.Listener
	kept *lockedBuffer
}

func (l *keepingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &keepingConn{c, l.kept}, nil
}

type keepingConn struct {
	net.Conn
	kept *lockedBuffer
}

func (c *keepingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	_, _ = c.kept.Write(p[:n])
	return n, err
}

// authority is a private certificate authority with its files.
type authority struct {
	dir  string
	file string // its certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	a.pool.AddCert(a.cert)
	a.file = a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) write(t testing.TB, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// issue gives a certificate for a name or address, and its files.
func (a *authority) issue(t testing.TB, name string) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test " + name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		a.write(t, name+".pem", "CERTIFICATE", der), a.write(t, name+"-key.pem", "PRIVATE KEY", raw)
}

// server is the TLS of an engine of this name, which wants a client certificate if told.
func (a *authority) server(t testing.TB, name string, clients bool) *tls.Config {
	t.Helper()
	pair, _, _ := a.issue(t, name)
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if clients {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, a.pool
	}
	return cfg
}

// keyFile writes a key into a file of its own, as an editor or Kubernetes does.
func keyFile(t testing.TB, path, key string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// send makes one request, with a body of unknown length if chunked.
func (m *mesh) send(method, path string, body []byte, chunked bool, headers ...string) (answer, error) {
	var in io.Reader = bytes.NewReader(body)
	if chunked {
		in = struct{ io.Reader }{in}
	}
	if body == nil {
		in = nil
	}
	req, err := http.NewRequestWithContext(m.t.Context(), method, m.base+path, in)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(text), err: err}, nil
}
