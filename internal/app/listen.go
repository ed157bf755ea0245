package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pointsman/pointsman/internal/config"
)

const (
	// dialTimeout bounds the question whether a socket file has an owner.
	dialTimeout = time.Second
	// maxSocketPath is what fits into sockaddr_un on Linux, with its final zero byte.
	maxSocketPath = 107
)

// listenGRPC opens the listener of ext_proc, xDS and the access log.
func listenGRPC(l config.Listen) (net.Listener, error) {
	var lis net.Listener
	var err error
	if l.GRPC.Network == "unix" {
		lis, err = listenUnix(l.GRPC.Addr, fs.FileMode(l.SocketMode))
	} else {
		lis, err = net.Listen(l.GRPC.Network, l.GRPC.Addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen.grpc: %w", err)
	}
	return lis, nil
}

// listenUnix opens a socket of this mode. A socket file that nobody listens on is a
// left-over and is replaced. The file goes when the listener is closed.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path of a socket has at most %d bytes, not %d: %s", maxSocketPath, len(path), path)
	}
	if err := removeLeftOver(path); err != nil {
		return nil, err
	}
	lis, err := modeBeforeFile(mode).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, folderError(filepath.Dir(path), err)
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = lis.Close()
		return nil, err
	}
	return lis, nil
}

// modeBeforeFile gives a way to listen in which the socket has its mode before it has a
// file: on Linux that of the file is the same, without the umask. So nobody gets in before
// the file's mode is set. Where that has no effect it is set a moment later.
func modeBeforeFile(mode fs.FileMode) *net.ListenConfig {
	return &net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
	}}
}

// removeLeftOver removes the socket file of a process that has ended without doing so.
func removeLeftOver(path string) error {
	switch st, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return folderError(filepath.Dir(path), err)
	case st.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is no socket", path)
	}
	c, err := net.DialTimeout("unix", path, dialTimeout)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("another process listens on %s", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove the left-over socket: %w", err)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil // its owner removed it just now
	}
	// It may be in use: full, or not for us.
	return fmt.Errorf("%s exists, and whether it is in use cannot be told: %w", path, err)
}

// folderError says what is wrong with the folder of a socket, if that is why it could not
// be made.
func folderError(dir string, err error) error {
	st, statErr := os.Stat(dir)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return fmt.Errorf("the folder %s does not exist", dir)
	case statErr == nil && !st.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the folder %s is not writable: %w", dir, err)
	}
	return err
}
