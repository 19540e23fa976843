//go:build !linux

package postgres

import "syscall"

// attributes: the server gets its own process group, so that a terminal's interrupt does not reach it before us.
func attributes(o owner) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: o.credential()}
}
