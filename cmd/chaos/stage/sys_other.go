//go:build !linux

package stage

import "syscall"

// attributes keep a terminal's signals away from a process.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
