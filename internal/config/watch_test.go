package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// inForce is the specification's time from the last write to the change, and what the
// machine may add to it.
const inForce = 2*time.Second + 8*time.Second

// watching runs a watcher of path until the test ends and gives what it tells:
// the content of the file, or "gone", at every change.
func watching(t *testing.T, path string, tune func(*watcher)) <-chan string {
	t.Helper()
	told := make(chan string, 100)
	w := &watcher{path: path, poll: pollInterval, notify: true, changed: func() {
		data, err := Read(path)
		if err != nil {
			data = []byte("gone")
		}
		told <- string(data)
	}}
	if tune != nil {
		tune(w)
	}
	ended := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- w.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run ended with %v", err)
		}
	})
	return told
}

// next waits for the change to that content. Others before it are intermediate states.
func next(t *testing.T, told <-chan string, want string) {
	t.Helper()
	deadline := time.After(inForce)
	for {
		select {
		case got := <-told:
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("no change to %q", want)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// byEvents leaves the poll out, byPolling the notifications: each must do alone.
// byEvents still looks once a minute, long after the test has failed.
func byEvents(w *watcher)  { w.poll = time.Minute }
func byPolling(w *watcher) { w.notify = false }

var ways = map[string]func(*watcher){"events": byEvents, "polling": byPolling, "both": nil}

func TestWatchRewriteAndRename(t *testing.T) {
	for name, tune := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "pointsman.yaml")
			write(t, path, "one")
			told := watching(t, path, tune)

			write(t, path, "two")
			next(t, told, "two")

			write(t, path+".new", "three") // atomic replacement
			must(t, os.Rename(path+".new", path))
			next(t, told, "three")

			must(t, os.Rename(path, path+".old")) // as some editors: away, then anew
			write(t, path, "four")
			next(t, told, "four")

			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteString(" and more")
			must(t, err)
			must(t, f.Close())
			next(t, told, "four and more")
		})
	}
}

// TestWatchSymlinkSwap replaces a mounted ConfigMap as the kubelet does: a new
// folder, and ..data renamed over. The link of the file itself never changes.
// It is the watcher's part of case 408.
func TestWatchSymlinkSwap(t *testing.T) {
	for name, tune := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			version := func(folder, content string) {
				must(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
				write(t, filepath.Join(dir, folder, "pointsman.yaml"), content)
				must(t, os.Symlink(folder, filepath.Join(dir, "..data_tmp")))
				must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
			}
			path := filepath.Join(dir, "pointsman.yaml")
			version("..2026_01", "one")
			must(t, os.Symlink(filepath.Join("..data", "pointsman.yaml"), path))
			told := watching(t, path, tune)

			version("..2026_02", "two")
			must(t, os.RemoveAll(filepath.Join(dir, "..2026_01")))
			next(t, told, "two")
			version("..2026_03", "three")
			must(t, os.RemoveAll(filepath.Join(dir, "..2026_02")))
			next(t, told, "three")
		})
	}
}

// TestWatchLinkedElsewhere: the file is a link into another tree, where a folder
// on the way is a link that is swapped.
func TestWatchLinkedElsewhere(t *testing.T) {
	for name, tune := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etc, releases := t.TempDir(), t.TempDir()
			for _, v := range []string{"v1", "v2"} {
				must(t, os.Mkdir(filepath.Join(releases, v), 0o700))
				write(t, filepath.Join(releases, v, "p.yaml"), v)
			}
			must(t, os.Symlink("v1", filepath.Join(releases, "current")))
			path := filepath.Join(etc, "pointsman.yaml")
			must(t, os.Symlink(filepath.Join(releases, "current", "p.yaml"), path))
			told := watching(t, path, tune)

			must(t, os.Symlink("v2", filepath.Join(releases, "next")))
			must(t, os.Rename(filepath.Join(releases, "next"), filepath.Join(releases, "current")))
			next(t, told, "v2")
			write(t, filepath.Join(releases, "v2", "p.yaml"), "v2 edited")
			next(t, told, "v2 edited")
		})
	}
}

// TestWatchAbsent: the file is gone for a while, told once; what comes back is
// told when it is something else.
func TestWatchAbsent(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "conf")
	path := filepath.Join(folder, "pointsman.yaml")
	must(t, os.Mkdir(folder, 0o700))
	write(t, path, "one")
	told := watching(t, path, nil)

	must(t, os.RemoveAll(folder))
	next(t, told, "gone")
	must(t, os.Mkdir(folder, 0o700))
	write(t, path, "two")
	next(t, told, "two")
}

// TestWatchFileComesLater: a file that was not there at first.
func TestWatchFileComesLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "pointsman.yaml")
	told := watching(t, path, nil)
	next(t, told, "gone")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	write(t, path, "one")
	next(t, told, "one")
}

// TestWatchSameContent: touching, replacing with the same content, and a file that
// comes back as it was, are no changes.
func TestWatchSameContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pointsman.yaml")
	replace := func(content string) { // at once: no half-written state to be seen
		write(t, path+".new", content)
		must(t, os.Rename(path+".new", path))
	}
	replace("one")
	told := watching(t, path, nil)
	next(t, told, "one")
	replace("one")
	must(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
	must(t, os.Remove(path))
	next(t, told, "gone")
	replace("one")
	replace("one")
	replace("two")
	select {
	case got := <-told:
		if got != "two" {
			t.Errorf("told of %q", got)
		}
	case <-time.After(inForce):
		t.Error("no change to two")
	}
}

// TestWatch: the first call comes at once, so that what happened since the file was loaded is
// not missed, and the next at a change.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pointsman.yaml")
	write(t, path, "one")
	called := make(chan struct{}, 100)
	ended := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- Watch(ctx, path, func() { called <- struct{}{} }) }()
	for _, content := range []string{"one", "two", "three"} {
		write(t, path, content)
		select {
		case <-called:
		case <-time.After(inForce):
			t.Fatalf("no call for %q", content)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// TestWatchManyWrites: a burst of writes is few changes, and the last one is told.
func TestWatchManyWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pointsman.yaml")
	write(t, path, "start")
	told := watching(t, path, nil)
	content := "x"
	for range 500 {
		content += "x"
		write(t, path, content)
	}
	deadline := time.After(inForce)
	for calls := 1; ; calls++ {
		select {
		case got := <-told:
			if calls > 50 {
				t.Fatalf("%d changes told of one burst", calls)
			}
			if got == content {
				return
			}
		case <-deadline:
			t.Fatal("the last write was not told")
		}
	}
}
