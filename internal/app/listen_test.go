package app

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/pointsman/pointsman/internal/config"
)

func at(path string) config.Listen {
	return config.Listen{GRPC: config.Address{Network: "unix", Addr: path}, SocketMode: 0o660}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// A socket has its mode whatever the umask, and its file goes with the listener.
func TestSocketMode(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	for _, mode := range []uint32{0o660, 0o600, 0o666, 0o770} {
		for _, umask := range []int{0, 0o022, 0o077} {
			l := at(path)
			l.SocketMode = mode
			before := syscall.Umask(umask)
			lis, err := listenGRPC(l)
			syscall.Umask(before)
			if err != nil {
				t.Fatal(err)
			}
			if st, err := os.Stat(path); err != nil || st.Mode().Perm() != fs.FileMode(mode) {
				t.Errorf("mode %o, umask %o: %v, %v", mode, umask, st.Mode(), err)
			}
			_ = lis.Close()
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after closing: %v", err)
			}
		}
	}
}

// Already the file that the system makes is no more open than the mode.
func TestSocketModeFromTheStart(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not take the mode of a socket for that of its file")
	}
	path := filepath.Join(shortDir(t), "s")
	before := syscall.Umask(0)
	lis, err := modeBeforeFile(0o640).Listen(t.Context(), "unix", path)
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// A left-over socket is replaced; what is in use, or no socket, is not.
func TestSocketFileExists(t *testing.T) {
	dir := shortDir(t)
	leftOver := filepath.Join(dir, "left-over")
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: leftOver, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	lis.SetUnlinkOnClose(false) // as a process that is killed
	_ = lis.Close()
	if _, err := os.Lstat(leftOver); err != nil {
		t.Fatal(err)
	}
	again, err := listenGRPC(at(leftOver))
	if err != nil {
		t.Fatalf("left-over: %v", err)
	}
	defer again.Close()

	_, err = listenGRPC(at(leftOver))
	wantError(t, err, "listen.grpc: another process listens on "+leftOver)
	if c, err := net.Dial("unix", leftOver); err != nil {
		t.Errorf("the owner was disturbed: %v", err)
	} else {
		_ = c.Close()
	}

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = listenGRPC(at(file))
	wantError(t, err, "listen.grpc: "+file+" exists and is no socket")
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file was touched: %q, %v", data, err)
	}

	// A socket of another kind is not ours to judge.
	datagrams := filepath.Join(dir, "datagrams")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: datagrams, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = listenGRPC(at(datagrams))
	wantError(t, err, "exists, and whether it is in use cannot be told")
	if _, err := os.Lstat(datagrams); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}

func TestSocketFolder(t *testing.T) {
	dir := shortDir(t)
	_, err := listenGRPC(at(filepath.Join(dir, "absent", "s")))
	wantError(t, err, "listen.grpc: the folder "+filepath.Join(dir, "absent")+" does not exist")

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = listenGRPC(at(filepath.Join(file, "s")))
	wantError(t, err, "listen.grpc: "+file+" is no folder")

	_, err = listenGRPC(at(filepath.Join(dir, strings.Repeat("x", maxSocketPath))))
	wantError(t, err, "listen.grpc: the path of a socket has at most 107 bytes")

	// Root may write everywhere, so the system's answer is given here.
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS} {
		err := folderError(dir, &net.OpError{Op: "listen", Net: "unix", Err: os.NewSyscallError("bind", errno)})
		wantError(t, err, "the folder "+dir+" is not writable: ")
	}
	if os.Geteuid() != 0 {
		locked := filepath.Join(dir, "locked")
		if err := os.Mkdir(locked, 0o500); err != nil {
			t.Fatal(err)
		}
		_, err = listenGRPC(at(filepath.Join(locked, "s")))
		wantError(t, err, "listen.grpc: the folder "+locked+" is not writable: ")
	}
}

func TestListenTCP(t *testing.T) {
	lis, err := listenGRPC(config.Listen{GRPC: config.Address{Network: "tcp", Addr: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	_, err = listenGRPC(config.Listen{GRPC: config.Address{Network: "tcp", Addr: lis.Addr().String()}})
	wantError(t, err, "listen.grpc: ")
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error %v", err)
	}
}

// A start that fails holds nothing: neither the other listener nor a temporary folder.
func TestNewFails(t *testing.T) {
	w := newWorld(t)
	tmp := shortDir(t)
	t.Setenv("TMPDIR", tmp)
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := admin.Addr().String()
	config := "listen: {admin: \"" + addr + "\", grpc: \"unix:///absent/s\"}\n" + external + twoTargets
	w.replace(config)
	opts := w.options()
	opts.EnvoyPath = "envoy"
	_, err = New(opts)
	wantError(t, err, "listen.admin: listen tcp "+addr+": bind: address already in use")
	_ = admin.Close()
	_, err = New(opts)
	wantError(t, err, "listen.grpc: the folder /absent does not exist")
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the admin listener is still open: %v", err)
	}
	_ = again.Close()
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}
