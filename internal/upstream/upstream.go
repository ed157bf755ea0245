package upstream

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/config"
)

// State is what is known of a provider.
type State struct {
	// Addresses are where it is, sorted; none while its name has never been resolved.
	Addresses []netip.AddrPort
	// Key is its key, "" if it has none.
	Key string
}

// Resolver gives the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options are what Sources need.
type Options struct {
	Log      *slog.Logger // events
	Resolver Resolver     // nil = the system's
}

// Sources are the names and keys of the providers of one configuration, and their last values.
type Sources struct {
	log      *slog.Logger
	resolver Resolver
	woken    chan struct{} // there is another configuration, or another value

	mu struct {
		sync.Mutex
		cfg      *config.Config
		names    map[string]*name // by host name
		files    map[string]*file // by path
		env      map[string]string
		told     map[string]State // by provider, what changed was called with last
		newNames bool             // another configuration has come into force: its names were just resolved
		newFiles bool             // and its files may have changed since they were read
	}
}

// New gives Sources of nothing. Load, then Configure, come before Run.
func New(opts Options) *Sources {
	s := &Sources{log: opts.Log, resolver: opts.Resolver, woken: make(chan struct{}, 1)}
	if s.resolver == nil {
		s.resolver = net.DefaultResolver
	}
	s.mu.names, s.mu.files, s.mu.env = map[string]*name{}, map[string]*file{}, map[string]string{}
	return s
}

// loadTime bounds the resolution of all names at the start and at a reload.
const loadTime = 5 * time.Second

// Loaded is what a configuration refers to, as it was found.
type Loaded struct {
	// States by provider.
	States map[string]State

	cfg   *config.Config
	names map[string]*name
	files map[string]*file
	env   map[string]string
}

// Load reads all that a configuration refers to. Names are resolved side by side, in 5 s at
// most and no longer than ctx lives; one that cannot be resolved keeps the addresses
// it has in the configuration in force, else it has none. A key that is not there is a
// fault; the error is a config.Faults then. Nothing is in force before Configure.
func (s *Sources) Load(ctx context.Context, cfg *config.Config) (*Loaded, error) {
	l := &Loaded{cfg: cfg, names: map[string]*name{}, files: map[string]*file{}, env: map[string]string{}}
	if faults := l.readFiles(); len(faults) > 0 {
		return nil, faults
	}
	for i := range cfg.Providers {
		if host := hostOf(&cfg.Providers[i]); host != "" && l.names[host] == nil {
			l.names[host] = &name{host: host}
		}
	}
	s.mu.Lock()
	for host, n := range l.names {
		if old := s.mu.names[host]; old != nil {
			*n = *old
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	s.resolve(ctx, slices.Collect(maps.Values(l.names)))
	l.States = states(cfg, l.names, l.files, l.env)
	return l, nil
}

// Check tells what of the keys and files that a configuration refers to is missing. It
// resolves no names.
func Check(cfg *config.Config) config.Faults {
	return (&Loaded{cfg: cfg, files: map[string]*file{}, env: map[string]string{}}).readFiles()
}

func (l *Loaded) readFiles() config.Faults {
	faults := append(l.readKeys(), checkTLSFiles(l.cfg)...)
	slices.SortStableFunc(faults, func(a, b config.Fault) int { return cmp.Compare(a.Line, b.Line) })
	return faults
}

// Configure puts what was loaded into force: from now on Run follows it.
func (s *Sources) Configure(l *Loaded) {
	s.mu.Lock()
	s.mu.cfg, s.mu.names, s.mu.files, s.mu.env = l.cfg, l.names, l.files, l.env
	s.mu.told = l.States
	s.mu.newNames, s.mu.newFiles = true, true
	s.mu.Unlock()
	s.wake()
}

// Now gives the last values, by provider.
func (s *Sources) Now() map[string]State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states()
}

// states gives the last values. The mutex is held.
func (s *Sources) states() map[string]State {
	if s.mu.cfg == nil {
		return nil
	}
	return states(s.mu.cfg, s.mu.names, s.mu.files, s.mu.env)
}

func states(cfg *config.Config, names map[string]*name, files map[string]*file, env map[string]string) map[string]State {
	all := make(map[string]State, len(cfg.Providers))
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		var st State
		if host := hostOf(p); host == "" {
			if addr, err := netip.ParseAddrPort(p.Addr); err == nil {
				st.Addresses = []netip.AddrPort{addr}
			}
		} else if n := names[host]; n != nil {
			for _, ip := range n.addresses {
				st.Addresses = append(st.Addresses, netip.AddrPortFrom(ip, p.Port))
			}
		}
		switch c := p.Credentials; {
		case c.Env != "":
			st.Key = env[c.Env]
		case c.File != "":
			if f := files[c.File]; f != nil {
				st.Key = f.key
			}
		}
		all[p.Name] = st
	}
	return all
}

// hostOf gives the name to be resolved for a provider, "" if it has an address. A cluster of
// the user's own needs none.
func hostOf(p *config.Provider) string {
	if p.Addr != "" {
		return ""
	}
	return p.Hostname
}

func same(a, b map[string]State) bool {
	return maps.EqualFunc(a, b, func(x, y State) bool { return x.Key == y.Key && slices.Equal(x.Addresses, y.Addresses) })
}

func (s *Sources) wake() {
	select {
	case s.woken <- struct{}{}:
	default: // it will see this change too
	}
}

// Run resolves names again and watches files until ctx ends. It calls changed with
// all states, one call at a time, when one of them is another than before.
func (s *Sources) Run(ctx context.Context, changed func(map[string]State)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &watches{sources: s, ctx: ctx, wg: &wg, stop: map[string]context.CancelFunc{}}
	wg.Go(func() { s.resolveForever(ctx) })
	again := time.NewTicker(warnEvery / 10)
	defer again.Stop()
	for {
		for _, path := range s.unread() {
			s.reread(path)
		}
		s.remind()
		s.mu.Lock()
		paths := slices.Collect(maps.Keys(s.mu.files))
		now := s.states()
		news := !same(now, s.mu.told)
		s.mu.told = now
		s.mu.Unlock()
		w.follow(paths)
		if news {
			changed(now)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.woken:
		case <-again.C:
		}
	}
}

// unread gives the files of a configuration that has just come into force: one may have changed
// after it was read, while the watch of it told the configuration before.
func (s *Sources) unread() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.newFiles {
		return nil
	}
	s.mu.newFiles = false
	return slices.Collect(maps.Keys(s.mu.files))
}

// warnEvery is how often a source that goes on failing is told of again.
const warnEvery = 5 * time.Minute

// trouble is when a failing source was told of last.
type trouble struct {
	told  time.Time
	cause string
}

// due tells whether to tell of a failure now.
func (t *trouble) due(now time.Time) bool {
	if !t.told.IsZero() && now.Sub(t.told) < warnEvery {
		return false
	}
	t.told = now
	return true
}
