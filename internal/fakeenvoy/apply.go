package fakeenvoy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/pointsman/pointsman/internal/wire"
)

// Header is a list of headers in order, names in lower case.
type Header [][2]string

// Get gives the first value of a header, or "".
func (h Header) Get(name string) string {
	for _, v := range h {
		if v[0] == name {
			return v[1]
		}
	}
	return ""
}

// Values gives all values of a header.
func (h Header) Values(name string) []string {
	var all []string
	for _, v := range h {
		if v[0] == name {
			all = append(all, v[1])
		}
	}
	return all
}

// apply receives a reply and does what Envoy does with it. done says that the client
// has its answer.
func (x *Exchange) apply(body bool) (done bool, err error) {
	out, err := x.stream.Recv()
	if err != nil {
		return false, err
	}
	if im := out.GetImmediateResponse(); im != nil {
		a := &Answer{Status: int(im.GetStatus().GetCode()), Body: string(im.GetBody()), Details: im.GetDetails()}
		if a.Header, err = mutate(nil, im.GetHeaders()); err != nil {
			return false, err
		}
		x.Answer = a
		return true, nil
	}
	var common *extprocv3.CommonResponse
	switch r := out.Response.(type) {
	case *extprocv3.ProcessingResponse_RequestHeaders:
		common = r.RequestHeaders.GetResponse()
	case *extprocv3.ProcessingResponse_RequestBody:
		common = r.RequestBody.GetResponse()
	case *extprocv3.ProcessingResponse_RequestTrailers:
	default:
		return false, fmt.Errorf("a reply that fits no message: %v", out)
	}
	if _, fits := out.Response.(*extprocv3.ProcessingResponse_RequestBody); fits != body {
		return false, fmt.Errorf("a reply that does not fit the message: %v", out)
	}
	if common.GetHeaderMutation() != nil {
		if !common.GetClearRouteCache() {
			return false, errors.New("headers changed without clear_route_cache: the choice is ignored")
		}
		if x.Header, err = mutate(x.Header, common.HeaderMutation); err != nil {
			return false, err
		}
	}
	if m := common.GetBodyMutation(); m != nil {
		x.Body = m.GetBody()
		if n := x.Header.Get("content-length"); n != "" && n != strconv.Itoa(len(x.Body)) {
			return false, fmt.Errorf("content-length is %s for %d bytes: Envoy answers 500", n, len(x.Body))
		}
	}
	if d := out.GetDynamicMetadata().GetFields()[wire.DecisionNamespace].GetStructValue(); d != nil {
		x.Metadata = d.AsMap()
		delete(x.Metadata, wire.KeyPriorityGroups)
		for _, g := range d.GetFields()[wire.KeyPriorityGroups].GetListValue().GetValues() {
			cluster, err := lone(g.GetStructValue().GetFields()["clusters"].GetListValue().AsSlice())
			if err != nil {
				return false, err
			}
			if g.GetStructValue().GetFields()["name"].GetStringValue() == "" {
				return false, errors.New("a priority group without a name")
			}
			x.Clusters = append(x.Clusters, cluster)
		}
	}
	return false, nil
}

// lone gives the only cluster of a priority group.
func lone(clusters []any) (string, error) {
	if len(clusters) == 1 {
		if c, ok := clusters[0].(map[string]any); ok && c["weight"] == 1.0 {
			if name, ok := c["cluster_name"].(string); ok {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("not a group of one cluster of weight 1: %v", clusters)
}

// mutate applies a header mutation: removals first, as Envoy does.
func mutate(h Header, m *extprocv3.HeaderMutation) (Header, error) {
	h = slices.Clone(h)
	for _, name := range m.GetRemoveHeaders() {
		if err := checkName(name); err != nil {
			return nil, err
		}
		h = slices.DeleteFunc(h, func(v [2]string) bool { return v[0] == name })
	}
	for _, set := range m.GetSetHeaders() {
		name, value := set.GetHeader().GetKey(), string(set.GetHeader().GetRawValue())
		if err := checkName(name); err != nil {
			return nil, err
		}
		if value == "" || set.GetHeader().GetValue() != "" {
			return nil, fmt.Errorf("header %s: the value must be raw", name)
		}
		for i := range len(value) {
			if value[i] < ' ' || value[i] == 0x7f {
				return nil, fmt.Errorf("header %s: a value that cannot be sent", name)
			}
		}
		if set.GetAppendAction() == corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			h = slices.DeleteFunc(h, func(v [2]string) bool { return v[0] == name })
		}
		h = append(h, [2]string{name, value})
	}
	return h, nil
}

// checkName refuses what is no lower-case token, or one of the headers that Envoy does
// not let ext_proc change.
func checkName(name string) error {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("header name %q", name)
		}
	}
	if name == "" || name == "host" {
		return fmt.Errorf("header name %q", name)
	}
	return nil
}
