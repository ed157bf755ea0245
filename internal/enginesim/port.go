package enginesim

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reservation keeps a port bound without listening on it. While an engine is
// dead its port refuses connections, and no other socket of the machine can be given it:
// an outgoing connection to a dead loopback port may otherwise end up connected to itself.
type reservation struct {
	fd   int
	addr netip.AddrPort
}

// reserve binds an IP address and port; port 0 lets the system choose.
func reserve(listen string) (reservation, error) {
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return reservation{}, err
	}
	ip, ok := netip.AddrFromSlice(addr.IP)
	if !ok {
		ip = netip.IPv4Unspecified()
	}
	ip = ip.Unmap()
	domain, sockaddr := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: addr.Port, Addr: as4(ip)})
	if ip.Is6() {
		domain, sockaddr = unix.AF_INET6, &unix.SockaddrInet6{Port: addr.Port, Addr: ip.As16()}
	}
	// The lock keeps a child started at this moment from inheriting the socket.
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(domain, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return reservation{}, os.NewSyscallError("socket", err)
	}
	r := reservation{fd: fd}
	if err := r.bind(ip, sockaddr); err != nil {
		r.release()
		return reservation{}, fmt.Errorf("bind %s: %w", listen, err)
	}
	return r, nil
}

func as4(ip netip.Addr) (a [4]byte) {
	if ip.Is4() {
		a = ip.As4()
	}
	return a
}

func (r *reservation) bind(ip netip.Addr, sockaddr unix.Sockaddr) error {
	if err := shareable(r.fd); err != nil {
		return err
	}
	if err := unix.Bind(r.fd, sockaddr); err != nil {
		return err
	}
	bound, err := unix.Getsockname(r.fd)
	if err != nil {
		return err
	}
	switch b := bound.(type) {
	case *unix.SockaddrInet4:
		r.addr = netip.AddrPortFrom(ip, uint16(b.Port))
	case *unix.SockaddrInet6:
		r.addr = netip.AddrPortFrom(ip, uint16(b.Port))
	}
	return nil
}

// listen opens a listener on the reserved port.
func (r *reservation) listen() (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if ctl := c.Control(func(fd uintptr) { err = shareable(int(fd)) }); ctl != nil {
			return ctl
		}
		return err
	}}
	return lc.Listen(context.Background(), "tcp", r.addr.String())
}

// release gives the port back.
func (r *reservation) release() { _ = unix.Close(r.fd) }

// shareable lets the reservation and the listener be bound to one port.
func shareable(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}
