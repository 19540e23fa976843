package e2e_test

import (
	"syscall"
	"testing"
	"unsafe"
)

// limitFiles lets a process grow no file over 1 byte.
func limitFiles(t *testing.T, pid int) bool {
	t.Helper()
	const fileSize = 1 // RLIMIT_FSIZE
	limit := syscall.Rlimit{Cur: 1, Max: 1}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), fileSize, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno != 0 {
		t.Fatalf("limit the size of files: %v", errno)
	}
	return true
}
