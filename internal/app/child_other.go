//go:build !linux

package app

import "syscall"

// childAttributes give Envoy its own process group, so that Ctrl-C reaches pointsman
// only. It outlives a pointsman that is killed: only Linux can do better.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
