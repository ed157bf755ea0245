package config

import "time"

// PerKind is one value per kind of answer. In the file: one number for both,
// or {stream: a, unary: b}.
type PerKind struct {
	Stream time.Duration `yaml:"stream" unit:"s" min:"0" max:"604800" doc:"for streamed answers"`
	Unary  time.Duration `yaml:"unary" unit:"s" min:"0" max:"604800" doc:"for answers in one piece"`
}

// Timeouts are the time limits. In the file they are numbers of seconds.
type Timeouts struct {
	Connect time.Duration `yaml:"connect_secs" unit:"s" default:"10" min:"0.001" max:"3600" doc:"one connection attempt"`
	Request PerKind       `yaml:"request_secs" unit:"s" default:"{stream: 60, unary: 600}" doc:"time to the response headers; 0 = none. One number for both kinds, or {stream: a, unary: b}"`
	Idle    time.Duration `yaml:"idle_secs" unit:"s" default:"600" min:"0" max:"604800" doc:"nothing from the upstream for so long ends the attempt; 0 = none"`
	Client  time.Duration `yaml:"client_secs" unit:"s" default:"300" min:"0" max:"604800" doc:"a request not complete by then is answered 408; 0 = none"`
}

// RouteTimeouts may be repeated inside a route.
type RouteTimeouts struct {
	Request PerKind `yaml:"request_secs" unit:"s" doc:"as timeouts.request_secs"`
}

// Retry says when the next entry of the list is tried.
type Retry struct {
	MaxRetries       int           `yaml:"max_retries" default:"2" min:"0" max:"100" doc:"attempts after the first, each on another target"`
	OnStatus         []int         `yaml:"on_status" unit:"status" default:"[408, 429, 5xx]" doc:"statuses that send the request to the next target: numbers from 400 to 599, or 5xx for all from 500 on. [] = none"`
	OnTimeout        []string      `yaml:"on_timeout" enum:"stream|unary" default:"[stream]" doc:"kinds for which request_secs is the time of one attempt, and the next target follows. For the others it is the time of the whole request, and final"`
	BaseBackoff      time.Duration `yaml:"base_backoff_ms" unit:"ms" default:"100" min:"1" max:"600000" doc:"before retry k a random time up to min((2^k - 1) * base, max) is waited"`
	MaxBackoff       time.Duration `yaml:"max_backoff_ms" unit:"ms" default:"2000" min:"1" max:"600000" doc:"the longest of these waits; not below base_backoff_ms"`
	HonourRetryAfter bool          `yaml:"honour_retry_after" default:"false" doc:"a retry waits for the failed target's Retry-After when that is 1 to 30 seconds"`
}

// RouteRetry may be repeated inside a route.
type RouteRetry struct {
	MaxRetries int      `yaml:"max_retries" min:"0" max:"100" doc:"as retry.max_retries"`
	OnTimeout  []string `yaml:"on_timeout" enum:"stream|unary" doc:"as retry.on_timeout"`
}

// Cooldown parks a target after a failure.
type Cooldown struct {
	Base time.Duration `yaml:"base_secs" unit:"s" default:"5" min:"0" max:"604800" doc:"how long a target is left out after a failure; 0 = never, whatever Retry-After says"`
	Max  time.Duration `yaml:"max_secs" unit:"s" default:"300" min:"0" max:"604800" doc:"the longest time that a Retry-After can ask for; not below base_secs"`
}

// Limits bound what a client may send.
type Limits struct {
	Body int64 `yaml:"body" unit:"bytes" default:"32MiB" min:"64KiB" max:"1GiB" doc:"largest request body; one byte more is answered 413"`
}

// Prefix is about the prefix history.
type Prefix struct {
	Threshold     float64 `yaml:"threshold" default:"0.5" min:"0" max:"1" doc:"share of the prompt that must be known on a target for cache_aware to prefer it"`
	MaxBytes      int64   `yaml:"max_bytes" unit:"bytes" default:"16MiB" min:"0" max:"1024GiB" doc:"memory of prompts per target; 0 = no bound of its own"`
	MaxTotalBytes int64   `yaml:"max_total_bytes" unit:"bytes" default:"1GiB" min:"1MiB" max:"1024GiB" doc:"memory of prompts of all targets together: the bound of each is lowered to fit, to no less than 1 MiB"`
}

// RoutePrefix may be repeated inside a route.
type RoutePrefix struct {
	Threshold float64 `yaml:"threshold" min:"0" max:"1" doc:"as prefix.threshold"`
	MaxBytes  int64   `yaml:"max_bytes" unit:"bytes" min:"0" max:"1024GiB" doc:"as prefix.max_bytes"`
}

// LoadGuard says when a target is overloaded.
type LoadGuard struct {
	Margin int64   `yaml:"margin" default:"2" min:"0" max:"1000000" doc:"a target is overloaded when its load is above the smallest load plus this and also above ratio times the smallest load"`
	Ratio  float64 `yaml:"ratio" default:"1.5" min:"0" max:"1000000" doc:"see margin"`
}

// Latency is about the mean latency of a target.
type Latency struct {
	Alpha float64       `yaml:"alpha" default:"0.3" min:"0.001" max:"1" doc:"weight of the newest sample in the mean"`
	Label string        `yaml:"label" enum:"duration|ttft" default:"duration" doc:"what is measured: to the end of the answer, or to its first byte"`
	Idle  time.Duration `yaml:"idle" default:"5m" min:"0s" max:"720h" doc:"without a sample for so long the latency is unknown again; 0 = never"`
}

// Log is about pointsman's own log.
type Log struct {
	Format   string `yaml:"format" enum:"json|text" default:"json" doc:"form of the lines, on standard error"`
	Level    string `yaml:"level" enum:"debug|info|warn|error" default:"info" doc:"least level that is written"`
	Requests bool   `yaml:"requests" default:"false" doc:"one line per decision, per attempt, and per answer that no upstream made"`
}

// Drain is about ending and about removed targets.
type Drain struct {
	Timeout time.Duration `yaml:"timeout" default:"30s" min:"0s" max:"24h" doc:"after SIGTERM the process ends at the latest after this"`
	Max     time.Duration `yaml:"max" default:"10m" min:"0s" max:"24h" doc:"how long the cluster of a removed target stays for attempts that still run"`
}

// Tracker is about what was learned.
type Tracker struct {
	ForgetAfter time.Duration `yaml:"forget_after" default:"10m" min:"100ms" max:"720h" doc:"what was learned of a target that no longer exists is dropped after this"`
}

// DNS is about the names of providers, which pointsman resolves.
type DNS struct {
	Refresh time.Duration `yaml:"refresh" default:"30s" min:"100ms" max:"24h" doc:"how often names in the URLs of providers are resolved"`
}
