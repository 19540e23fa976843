package postgres

import "syscall"

// attributes: the server gets its own process group, so that a terminal's interrupt does not reach it
// before us, and is told to stop (a fast shutdown) when our process dies, however it dies.
func attributes(o owner) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT, Credential: o.credential()}
}
