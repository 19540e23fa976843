//go:build !linux

package kafkatest

import "syscall"

// attributes: a group of its own. This system can't tie its life to ours.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
