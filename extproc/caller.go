package extproc

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/pointsman/pointsman/internal/config"
)

const (
	// attributesOf is the filter under whose name Envoy sends the attributes that
	// its configuration asks for, and sourceAddress is the one.
	attributesOf  = "envoy.filters.http.ext_proc"
	sourceAddress = "source.address"
)

// callerOf gives the name that the proxy vouches for, "" = anonymous. A header is
// believed only from a trusted address; a proxy that is not configured by pointsman
// answers for it itself.
func (s *Server) callerOf(callers *config.Callers, in *extprocv3.ProcessingRequest, h *headers) string {
	id := &callers.Identity
	switch {
	case id.Metadata != "":
		return metadataString(in.GetMetadataContext(), id.Metadata, id.Key)
	case id.Header == "":
		return ""
	case s.opts.External || trusted(callers.Trusted, in):
		return h.Get(id.Header)
	}
	return ""
}

func metadataString(m *corev3.Metadata, namespace, key string) string {
	return m.GetFilterMetadata()[namespace].GetFields()[key].GetStringValue()
}

// trusted tells whether the connection comes from one of these networks.
func trusted(networks []netip.Prefix, in *extprocv3.ProcessingRequest) bool {
	if len(networks) == 0 {
		return false
	}
	text := in.GetAttributes()[attributesOf].GetFields()[sourceAddress].GetStringValue()
	from, err := netip.ParseAddrPort(text)
	if err != nil {
		return false
	}
	addr := from.Addr().Unmap().WithZone("")
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}
