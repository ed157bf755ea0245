package config

import "net/netip"

// Provider is one upstream service.
type Provider struct {
	Name string `yaml:"name" format:"name" required:"true" doc:"name of the service, unique"`
	// Slug is the address form of the name, derived when absent. May be ""
	// when nothing is left of the name.
	Slug string `yaml:"slug" format:"slug" doc:"address form of the name, unique: a-z, 0-9 and -, at most 63. Default: made from the name"`
	Kind string `yaml:"kind" enum:"openai|anthropic|vllm|sglang|trtllm|triton|tgi|llamacpp|other" default:"other" doc:"what kind of service it is"`
	// URL is the base address, parsed into the fields below.
	URL string `yaml:"url" required:"true" doc:"base address: http:// or https://, a name or an IP address, an optional port (80, 443) and an optional path, which is put before the path of every request"`
	// Cluster names the user's own cluster; required with envoy.clusters: external.
	Cluster string `yaml:"cluster" format:"name" doc:"name of your own Envoy cluster; required with envoy.clusters: external"`
	// Credentials is where the key comes from, if there is one.
	Credentials Credentials `yaml:"credentials" doc:"{env: NAME} or {file: path}: where the key comes from. passthrough: the client's own authorization and x-api-key are sent on. Default: none is sent"`
	// TLS is about https; nil = the system's authorities.
	TLS *ProviderTLS `yaml:"tls"`
	// MaxInFlight bounds the requests in flight; 0 = none.
	MaxInFlight int `yaml:"max_in_flight" min:"1" max:"1000000" doc:"most requests in flight at once. A full provider is not chosen, and when all that could serve are full the answer is 429. Default: no limit"`

	HTTPS    bool   `yaml:"-"`
	Host     string `yaml:"-"` // as it stands in the URL, for the Host header: with the port if the URL has one
	Hostname string `yaml:"-"` // name or IP address, without brackets
	Port     uint16 `yaml:"-"`
	Prefix   string `yaml:"-"` // path of the URL, escaped as there, without a trailing slash; "" = none
	Addr     string `yaml:"-"` // IP:port if the URL has an IP address, else ""
	Line     int    `yaml:"-"`
}

// Credentials is where a provider's key comes from. In the file: {env: NAME}, {file:
// path} or the word passthrough. The zero value is no key.
type Credentials struct {
	Env  string `yaml:"env" format:"env" doc:"name of the environment variable that holds the key"`
	File string `yaml:"file" format:"file" doc:"file that holds the key; watched"`

	// Passthrough sends the client's own authorization and x-api-key.
	Passthrough bool `yaml:"-"`
	// Line is where the reference stands in the file.
	Line int `yaml:"-"`
}

// passthroughWord stands for Credentials.Passthrough in the file.
const passthroughWord = "passthrough"

// Key tells whether there is a key to be read.
func (c Credentials) Key() bool { return c.Env != "" || c.File != "" }

// ProviderTLS is TLS towards a provider.
type ProviderTLS struct {
	CA         string `yaml:"ca" format:"file" doc:"file with the certificates of the authorities to trust, PEM. Default: the system's"`
	Cert       string `yaml:"cert" format:"file" doc:"file with a client certificate, PEM; needs key"`
	Key        string `yaml:"key" format:"file" doc:"file with the key of the client certificate, PEM"`
	ServerName string `yaml:"server_name" format:"host" doc:"name that the certificate must be for, also sent as SNI. Default: the host of the URL"`

	Line int `yaml:"-"`
}

// Callers says who may use which providers.
type Callers struct {
	Identity Identity       `yaml:"identity"`
	Trusted  []netip.Prefix `yaml:"trusted" default:"[]" doc:"addresses (CIDR) from which the header of identity is believed; from elsewhere the caller is anonymous"`
	Allow    []Allow        `yaml:"allow"`
}

// Identity is where a caller's name comes from. The zero value: everybody is anonymous.
type Identity struct {
	Header   string `yaml:"header" format:"caller-header" doc:"request header with the caller's name. Removed before the request goes to an upstream"`
	Metadata string `yaml:"metadata" format:"name" doc:"namespace of Envoy's dynamic metadata with the caller's name; needs key"`
	Key      string `yaml:"key" format:"name" doc:"key in that namespace"`
}

// Allow is the list of providers that one caller may use.
type Allow struct {
	Name      string   `yaml:"name" format:"name" required:"true" doc:"name of the caller, unique"`
	Providers []string `yaml:"providers" default:"[]" doc:"slugs of the providers that the caller may use. [] = all, as for a caller without an entry"`

	Line int `yaml:"-"`
}

// Passthrough sends requests that name no model to a route by their path.
type Passthrough struct {
	PathPrefix string `yaml:"path_prefix" format:"path" required:"true" doc:"beginning of the paths; the longest that fits counts"`
	Route      string `yaml:"route" required:"true" doc:"model of the route that serves them"`

	Line int `yaml:"-"`
}
