package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/config"
)

// maxKey bounds a key, in bytes: Envoy takes 60 KiB of headers, and engines less.
const maxKey = 16 << 10

// file is a file with a key.
type file struct {
	path    string
	key     string // last good value
	trouble trouble
}

// readKeys reads all keys of the configuration.
func (l *Loaded) readKeys() (faults config.Faults) {
	for i := range l.cfg.Providers {
		p := &l.cfg.Providers[i]
		c := p.Credentials
		field := fmt.Sprintf("providers[%d].credentials", i)
		var key string
		var err error
		switch {
		case c.Env != "":
			key, err = envKey(c.Env)
			l.env[c.Env] = key
		case c.File != "":
			key, err = fileKey(c.File)
			l.files[c.File] = &file{path: c.File, key: key}
		}
		if err != nil {
			faults = append(faults, config.Fault{File: l.cfg.Path, Line: c.Line, Field: field, Msg: err.Error()})
		}
	}
	return faults
}

func envKey(name string) (string, error) {
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("the environment variable %s is not set", name)
	}
	key, err := trimmed(value)
	if err != nil {
		return "", fmt.Errorf("the environment variable %s %w", name, err)
	}
	return key, nil
}

func fileKey(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the key cannot be read: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return "", fmt.Errorf("the key cannot be read: %w", err)
	}
	key, err := trimmed(string(data))
	if err != nil {
		return "", fmt.Errorf("the file %s %w", path, err)
	}
	return key, nil
}

// trimmed gives the key in a value. The error holds nothing of it.
func trimmed(value string) (string, error) {
	key := strings.TrimSpace(value)
	switch {
	case key == "":
		return "", errors.New("is empty")
	case len(key) > maxKey:
		return "", fmt.Errorf("is longer than a key: more than %d bytes", maxKey)
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] >= 0x7f {
			return "", errors.New("holds more than a key: a line end, or a byte that cannot stand in a header")
		}
	}
	return key, nil
}

// watches are the files being watched. Only the goroutine of Run uses them.
type watches struct {
	sources *Sources
	ctx     context.Context
	wg      *sync.WaitGroup
	stop    map[string]context.CancelFunc
}

// follow watches these files and no others any more.
func (w *watches) follow(paths []string) {
	wanted := make(map[string]bool, len(paths))
	for _, path := range paths {
		wanted[path] = true
		if w.stop[path] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(w.ctx)
		w.stop[path] = cancel
		w.wg.Go(func() {
			_ = config.Watch(ctx, path, func() { w.sources.reread(path) }) // it ends with ctx only
		})
	}
	for path, cancel := range w.stop {
		if !wanted[path] {
			cancel()
			delete(w.stop, path)
		}
	}
}

// reread takes the new key of a file, or keeps the last one.
func (s *Sources) reread(path string) {
	key, err := fileKey(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.mu.files[path]
	if f == nil {
		return // no longer in force
	}
	if err != nil {
		f.trouble.cause = err.Error()
		s.warnFile(f, time.Now())
		return
	}
	if f.trouble.cause != "" {
		s.log.Info("key is there again", "file", path)
	} else if key != f.key {
		s.log.Info("key changed", "file", path)
	}
	f.trouble = trouble{}
	if key != f.key {
		f.key = key
		s.wake()
	}
}

func (s *Sources) warnFile(f *file, now time.Time) {
	if f.trouble.due(now) {
		s.log.Warn("key cannot be had: the last one stays in use", "file", f.path, "error", f.trouble.cause)
	}
}

// remind tells again of what goes on failing.
func (s *Sources) remind() {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.mu.files {
		if f.trouble.cause != "" {
			s.warnFile(f, now)
		}
	}
	for _, n := range s.mu.names {
		if n.trouble.cause != "" {
			s.warnName(n, now)
		}
	}
}
