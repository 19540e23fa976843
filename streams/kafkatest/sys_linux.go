package kafkatest

import "syscall"

// attributes: a group of its own, so that a terminal's interrupt does not reach it before us, and the kernel ends it
// when our process dies, however it dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
