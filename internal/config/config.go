// Package config reads pointsman's configuration: strict YAML in, typed values
// out, every fault with file, line and field. It also watches the file.
//
// It does no more than read and check: it resolves no names, opens no sockets,
// logs nothing, and keeps no configuration in force; that is the affair of app.
// cmd (for check) and app (for serving) call Load or Parse; everything else
// takes the types. A *Config is immutable once loaded and may be shared.
//
// The types are the single description of the file. The tags of a field are its
// key and all that is to be said of it: yaml (the key), default (as it would
// stand in the file), min, max, enum, unit, format, required, inherit and doc.
// One small decoder over YAML nodes obeys them, and the reference in
// docs/configuration.md is made from them.
package config

// Config is a whole configuration, with every default filled in. The yaml tag
// of a field is its key in the file.
type Config struct {
	Listen    Listen     `yaml:"listen"`
	Envoy     Envoy      `yaml:"envoy"`
	Providers []Provider `yaml:"providers" required:"true"`
	Routes    []Route    `yaml:"routes"`
	Groups    []Group    `yaml:"groups"`

	Callers     Callers       `yaml:"callers"`
	Passthrough []Passthrough `yaml:"passthrough"`

	Timeouts  Timeouts  `yaml:"timeouts"`
	Retry     Retry     `yaml:"retry"`
	Cooldown  Cooldown  `yaml:"cooldown"`
	Limits    Limits    `yaml:"limits"`
	Session   Session   `yaml:"session"`
	Affinity  Affinity  `yaml:"affinity"`
	Prefix    Prefix    `yaml:"prefix"`
	LoadGuard LoadGuard `yaml:"load_guard"`
	Latency   Latency   `yaml:"latency"`
	Log       Log       `yaml:"log"`
	Drain     Drain     `yaml:"drain"`
	Tracker   Tracker   `yaml:"tracker"`
	DNS       DNS       `yaml:"dns"`

	// ResponseHeaders tells the client which target answered (x-pointsman-*).
	ResponseHeaders bool `yaml:"response_headers" default:"true" doc:"answers tell which target made them, in the headers x-pointsman-provider, -target, -model and -attempts"`

	// Path is the file this was read from; Warnings are faults that do not
	// refuse it, in the form of Fault.
	Path     string   `yaml:"-"`
	Warnings []string `yaml:"-"`
}

// Listen holds the addresses of pointsman's own listeners.
type Listen struct {
	// GRPC serves ext_proc, xDS and the access log: "unix:///path" or
	// "tcp://host:port" on a loopback address.
	GRPC Address `yaml:"grpc" default:"unix:///run/pointsman/grpc.sock" doc:"where Envoy finds pointsman: unix:///absolute/path, or tcp://host:port on a loopback address. Without this setting pointsman run uses a socket in a temporary folder"`
	// GRPCSet tells that the file sets grpc. pointsman run uses a socket in a
	// temporary folder when it does not.
	GRPCSet bool `yaml:"-"`
	// SocketMode is the mode of the Unix socket.
	SocketMode uint32 `yaml:"socket_mode" unit:"mode" default:"0660" doc:"mode of the Unix socket, octal"`
	// Admin serves /metrics, /healthz and /readyz: "host:port". Port 0 lets the
	// system choose.
	Admin string `yaml:"admin" format:"hostport" default:"127.0.0.1:9090" doc:"host:port of /metrics, /healthz and /readyz. Port 0: the system chooses"`
}

// Address is a parsed listen.grpc.
type Address struct {
	Network string // "unix" or "tcp"
	Addr    string // path, or host:port
}

// The values of envoy.clusters, and the one that switches envoy.admin off.
const (
	ClustersManaged  = "managed"
	ClustersExternal = "external"
	Off              = "off"
)

// Envoy is about the proxy that pointsman configures.
type Envoy struct {
	// Listener is where clients come in: "host:port". Port 0 lets the system choose.
	Listener string `yaml:"listener" format:"hostport" default:"127.0.0.1:8080" doc:"host:port where clients come in. Port 0: the system chooses"`
	// Admin is Envoy's own admin listener, "host:port" or "off".
	Admin string `yaml:"admin" format:"hostport|off" default:"127.0.0.1:9901" doc:"host:port of Envoy's own admin listener, or off"`
	// Clusters is "managed" (by xDS) or "external" (the user's own; no proxy
	// is asked whether it can reach a target).
	Clusters string `yaml:"clusters" enum:"managed|external" default:"managed" doc:"managed: pointsman gives Envoy its clusters. external: the clusters are your own, named by providers[].cluster, and no proxy is asked whether it can reach a target"`
}

// Route is a public model name, a strategy, and an ordered list of targets, or several
// such lists as variants.
type Route struct {
	Model    string    `yaml:"model" format:"name" required:"true" doc:"public model name, unique: what clients ask for"`
	Strategy string    `yaml:"strategy" enum:"$strategies" default:"round_robin" doc:"how a target is chosen"`
	Targets  []Target  `yaml:"targets"`
	Variants []Variant `yaml:"variants"`

	// Timeouts, Retry, Prefix and LoadGuard are the deployment's settings with what the route
	// itself says laid over them.
	Timeouts  RouteTimeouts `yaml:"timeouts" inherit:"timeouts"`
	Retry     RouteRetry    `yaml:"retry" inherit:"retry"`
	Prefix    RoutePrefix   `yaml:"prefix" inherit:"prefix"`
	LoadGuard LoadGuard     `yaml:"load_guard" inherit:"load_guard"`

	Line int `yaml:"-"`
}

// Variant is one of several weighted target lists of a route. Its pool is named
// model::name.
type Variant struct {
	Name string `yaml:"name" format:"name" required:"true" doc:"name of the variant, unique in its route"`
	// Weight is 0..1,000,000; 0 = never the primary.
	Weight  int      `yaml:"weight" default:"1" min:"0" max:"1000000" doc:"how often the variant is the one that is asked first, in proportion. 0 = only when others have nothing left"`
	Targets []Target `yaml:"targets" required:"true"`

	Line int `yaml:"-"`
}

// Group is a named set of members, addressed as slug/model.
type Group struct {
	Name     string   `yaml:"name" format:"name" required:"true" doc:"name of the group, unique"`
	Slug     string   `yaml:"slug" format:"slug" doc:"address form of the name: clients ask for slug/model. Unique, also among the providers. Default: made from the name"`
	Strategy string   `yaml:"strategy" enum:"$strategies" default:"round_robin" doc:"how a member is chosen"`
	Members  []Target `yaml:"members"`

	Timeouts  RouteTimeouts `yaml:"timeouts" inherit:"timeouts"`
	Retry     RouteRetry    `yaml:"retry" inherit:"retry"`
	Prefix    RoutePrefix   `yaml:"prefix" inherit:"prefix"`
	LoadGuard LoadGuard     `yaml:"load_guard" inherit:"load_guard"`

	Line int `yaml:"-"`
}

// Target is a (provider, upstream model) pair inside a pool.
type Target struct {
	// Provider is the name of a provider.
	Provider string `yaml:"provider" required:"true" doc:"name of a provider"`
	// Model is the upstream model: the route's own name when absent in the file. A member of a
	// group without a model serves whatever model is asked for, and keeps "".
	Model string `yaml:"model" format:"name" doc:"upstream model. Default: the route's model; in a group, what stands right of the slug in the request"`
	// Weight is 0..1,000,000; 0 drains.
	Weight int `yaml:"weight" default:"1" min:"0" max:"1000000" doc:"share of the target, for strategies that read weights. 0 drains it: it is never chosen"`
	// ID is <provider slug>/<upstream model> when absent in the file, with * for no model.
	ID string `yaml:"id" format:"id" doc:"names the target: what is learned hangs on it. 1 to 128 of letters, digits and . _ : / * -. Default: <provider slug>/<upstream model>, with * for a member that serves any model; required without a slug"`

	ProviderIndex int `yaml:"-"` // into Config.Providers
	Line          int `yaml:"-"`
}
