package config

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// pollInterval is how often the file is read without a hint from the
	// system, which may miss changes (network file systems, directories that
	// were replaced, no watches left). A change must be in force within 2 s.
	pollInterval = time.Second
	// settleTime is how long the file must have been left alone before it is
	// read: programs write in several steps.
	settleTime = 100 * time.Millisecond
	// settleMost bounds the wait when the folder never comes to rest.
	settleMost = 500 * time.Millisecond
	// absentTime is how long the file may be gone before that is a change: some
	// programs remove a file and write it anew.
	absentTime = 500 * time.Millisecond
	// maxLinks bounds the symlinks followed to find the folders to watch, as the kernel does.
	maxLinks = 40
)

// Watch calls changed when the content of the file at path has changed: rewritten,
// renamed over, or behind a symlink that was swapped, as Kubernetes does. It
// returns when ctx ends.
//
// The first call comes at once, as the file may have changed since it was loaded. The
// others come at the latest 2 s after the last write, one at a time. There is also
// one call when the file has been unreadable for half a second, and none when
// it then comes back as it was. What the function reads may be newer than what was
// noticed, and then another call follows although nothing is new: compare contents.
//
// It needs no help from the system: without notifications it reads the file
// every second.
func Watch(ctx context.Context, path string, changed func()) error {
	return (&watcher{path: path, changed: changed, poll: pollInterval, notify: true}).run(ctx)
}

type watcher struct {
	path    string
	changed func()
	told    digest // what the last call of changed was about
	poll    time.Duration
	notify  bool
}

// digest stands for the content of the file; the zero value for none.
type digest [sha256.Size]byte

func (w *watcher) run(ctx context.Context) error {
	var events chan fsnotify.Event
	var errs chan error
	var system *fsnotify.Watcher
	if w.notify {
		if s, err := fsnotify.NewWatcher(); err == nil {
			defer s.Close()
			system, events, errs = s, s.Events, s.Errors
		}
	}
	follow(system, w.path)

	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	settled := time.NewTimer(0) // the first call
	defer settled.Stop()
	var restlessSince, goneSince time.Time
	goneTold := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, open := <-events:
			if !open {
				events = nil
				continue
			}
			now := time.Now()
			if restlessSince.IsZero() {
				restlessSince = now
			}
			settled.Reset(min(settleTime, max(settleMost-now.Sub(restlessSince), 0)))
			continue
		case _, open := <-errs: // an overflow of events: the poll sees what was missed
			if !open {
				errs = nil
			}
			continue
		case <-poll.C:
			if !restlessSince.IsZero() {
				continue // settled comes soon
			}
		case <-settled.C:
			restlessSince = time.Time{}
		}
		follow(system, w.path)
		seen, ok := w.look()
		switch {
		case !ok && goneSince.IsZero():
			goneSince = time.Now()
		case !ok && !goneTold && time.Since(goneSince) >= absentTime:
			goneTold = true
			w.changed()
		case ok:
			goneSince, goneTold = time.Time{}, false
			if seen != w.told {
				w.told = seen
				w.changed()
			}
		}
	}
}

// look gives the digest of the file's content. The file is small and read whole
// every time: sizes and times of modification can stay the same over a change.
func (w *watcher) look() (digest, bool) {
	data, err := Read(w.path)
	if err != nil {
		return digest{}, false
	}
	return sha256.Sum256(data), true
}

// follow watches the folders of path, and no others any more. A folder that
// cannot be watched is tried again at the next look.
func follow(system *fsnotify.Watcher, path string) {
	if system == nil {
		return
	}
	dirs := folders(path)
	for _, old := range system.WatchList() {
		if !slices.Contains(dirs, old) {
			_ = system.Remove(old)
		}
	}
	for _, dir := range dirs {
		_ = system.Add(dir)
	}
}

// folders gives every folder in which a change can put another file at path: its
// own, and those of the symlinks on the way. Watching folders, not files, sees
// renames and files that do not exist yet.
func folders(path string) []string {
	var dirs []string
	for range maxLinks {
		dir := filepath.Dir(path)
		dirs = append(dirs, dir)
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
			dirs = append(dirs, real)
			// The folder may itself be reached by a link (..data): watch where that stands.
			if info, err := os.Lstat(dir); err == nil && info.Mode()&os.ModeSymlink != 0 {
				dirs = append(dirs, filepath.Dir(dir))
			}
		}
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return dirs
}
