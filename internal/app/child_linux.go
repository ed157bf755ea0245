package app

import "syscall"

// childAttributes give Envoy its own process group, so that Ctrl-C reaches pointsman
// only, and let it die with a pointsman that is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
