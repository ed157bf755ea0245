package xds

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxOthers bounds the types beside ours that one stream may subscribe to;
	// Envoy knows about a dozen.
	maxOthers = 32
	// maxNames bounds the names that one stream may subscribe to for a type.
	maxNames = 10_000
)

// DeltaAggregatedResources serves one Envoy. It implements the discovery service.
func (s *Server) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	p, err := s.connect()
	if err != nil {
		return err
	}
	defer s.disconnect(p)

	requests := make(chan *discoveryv3.DeltaDiscoveryRequest)
	failed := make(chan error, 1)
	go receive(stream, requests, failed)
	for {
		select {
		case <-s.ended:
			return status.Error(codes.Unavailable, errEnded.Error())
		case err := <-failed:
			return err
		case req := <-requests:
			if err := s.take(p, req); err != nil {
				return err
			}
			s.tell()
		case <-p.wake:
		}
		for {
			resp := s.next(p)
			if resp == nil {
				break
			}
			if err := stream.Send(resp); err != nil {
				return err
			}
		}
	}
}

// receive ends when the stream does.
func receive(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, requests chan<- *discoveryv3.DeltaDiscoveryRequest, failed chan<- error) {
	for {
		req, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
				err = nil // it went away, as they do
			}
			failed <- err
			return
		}
		select {
		case requests <- req:
		case <-stream.Context().Done():
			failed <- nil
			return
		}
	}
}

// take applies one request of an Envoy.
func (s *Server) take(p *proxy, req *discoveryv3.DeltaDiscoveryRequest) error {
	typeURL := req.GetTypeUrl()
	if typeURL == "" {
		return status.Error(codes.InvalidArgument, "a request without a type")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.named {
		// Only the first message needs to name the node. An empty name is one like any other.
		p.named, p.node, p.version = true, req.GetNode().GetId(), nodeVersion(req.GetNode())
		s.event("proxy connected", p)
	}
	sub, first := p.subscription(typeURL), false
	if sub == nil {
		first = true
		var err error
		if sub, err = s.subscribe(p, req); err != nil {
			return err
		}
	}
	sub.change(req, first)
	if len(sub.names) > maxNames {
		return status.Error(codes.ResourceExhausted, "too many names of one type on one stream")
	}
	for _, f := range sub.answered(req) {
		if k, served := kindOf(typeURL); served {
			s.reject(k, f, p.node)
		}
	}
	if !p.counts && s.complete(p) {
		p.counts = true
		s.event("proxy has accepted everything and counts", p)
	}
	return nil
}

// subscribe is the first request of a type on a stream. The mutex is held.
func (s *Server) subscribe(p *proxy, req *discoveryv3.DeltaDiscoveryRequest) (*subscription, error) {
	k, served := kindOf(req.GetTypeUrl())
	if !served {
		if len(p.others) >= maxOthers {
			return nil, status.Error(codes.ResourceExhausted, "too many types on one stream")
		}
		sub := newSubscription(req, false)
		p.others[req.GetTypeUrl()] = sub
		return sub, nil
	}
	sub := newSubscription(req, k == clusters || k == listeners)
	p.subs[k] = sub
	if k == clusters {
		s.succeed(p, sub)
	}
	return sub, nil
}

// next makes the next response to an Envoy, nil if there is none to send now.
func (s *Server) next(p *proxy) *discoveryv3.DeltaDiscoveryResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	nonce := strconv.FormatUint(p.nonce+1, 10)
	for k := range kinds {
		sub := p.subs[k]
		if sub == nil {
			continue
		}
		if k == listeners && !p.counts && !s.settled(p, clusters) {
			// A newcomer must not open its port before its clusters work. Envoy asks for
			// listeners as soon as it has answered the first clusters, even if
			// it has refused them.
			continue
		}
		if resp := sub.next(s.mu.store.resources[k], nonce); resp != nil {
			p.nonce++
			return resp
		}
	}
	for _, sub := range p.others {
		// There is nothing of other types; but the Envoy must hear so.
		if resp := sub.next(nil, nonce); resp != nil {
			p.nonce++
			return resp
		}
	}
	return nil
}

func (s *Server) connect() (*proxy, error) {
	select {
	case <-s.ended:
		return nil, status.Error(codes.Unavailable, errEnded.Error())
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.proxies) >= maxProxies && !s.evictLost() {
		return nil, status.Error(codes.ResourceExhausted, "too many proxies")
	}
	p := newProxy()
	s.mu.proxies[p] = struct{}{}
	return p, nil
}

func (s *Server) disconnect(p *proxy) {
	s.mu.Lock()
	p.connected = false
	p.lostAt = time.Now()
	if !p.counts {
		delete(s.mu.proxies, p)
	}
	if p.named {
		s.event("proxy disconnected", p)
	}
	s.mu.Unlock()
	s.tell()
	s.wakeRun()
}
