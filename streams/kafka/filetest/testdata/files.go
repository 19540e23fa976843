package kfake

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
)

// osFS counts what changes files, and breaks off at the one that CAIRN_FILE_FAULT names as "kind at seed":
//
//	kill   the process ends before the operation
//	torn   it ends in the middle of the operation, where that is a write
//	power  it ends before the operation, and of what was not synced only a beginning is left, sometimes with zeros behind
//	full   that write and all later ones find no space, after half of their bytes
//
// CAIRN_FILE_TRACE names a file that gets a line for each operation.
type osFS struct{}

type injector struct {
	mu    sync.Mutex
	kind  string
	at    int
	seed  uint64
	n     int
	trace *os.File
	files map[string]*extent
}

// extent is how long a file is, and how much of it is on the disk.
type extent struct{ size, synced int64 }

var inject = newInjector()

func newInjector() *injector {
	i := &injector{files: map[string]*extent{}}
	fmt.Sscan(os.Getenv("CAIRN_FILE_FAULT"), &i.kind, &i.at, &i.seed)
	if path := os.Getenv("CAIRN_FILE_TRACE"); path != "" {
		i.trace, _ = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
	return i
}

// next counts an operation, and ends the process where it is the one; torn writes are left to the caller. The mutex is held.
func (i *injector) next(what, path string) {
	i.n++
	if i.trace != nil {
		fmt.Fprintln(i.trace, i.n, what, path)
	}
	if i.n != i.at || i.kind == "full" || i.kind == "torn" && what == "write" {
		return
	}
	if i.kind == "power" {
		i.lose()
	}
	i.die()
}

func (i *injector) die() {
	syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}

// lose takes from each file what was not synced, but for a beginning.
func (i *injector) lose() {
	r := rand.New(rand.NewPCG(i.seed, uint64(i.at)))
	for path, f := range i.files {
		if f.size <= f.synced {
			continue
		}
		left := f.synced + r.Int64N(f.size-f.synced+1)
		if r.IntN(2) == 0 {
			os.Truncate(path, left)
			continue
		}
		// The file is as long as it was, but from a sector on nothing was written.
		os.Truncate(path, max(f.synced, left/512*512))
		os.Truncate(path, f.size)
	}
}

func (i *injector) extent(path string) *extent {
	f, ok := i.files[path]
	if !ok {
		f = &extent{}
		if info, err := os.Stat(path); err == nil {
			f.size = info.Size()
			f.synced = f.size
		}
		i.files[path] = f
	}
	return f
}

func (osFS) OpenFile(name string, flag int, perm os.FileMode) (file, error) {
	if flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		return realFS{}.OpenFile(name, flag, perm)
	}
	inject.mu.Lock()
	defer inject.mu.Unlock()
	inject.next("open", name)
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	e := inject.extent(name)
	if flag&os.O_TRUNC != 0 {
		*e = extent{}
	}
	return &brokenFile{File: f, path: name}, nil
}

func (osFS) Rename(from, to string) error {
	inject.mu.Lock()
	defer inject.mu.Unlock()
	inject.next("rename", from)
	err := os.Rename(from, to)
	if f, ok := inject.files[from]; ok && err == nil {
		inject.files[to] = f
		delete(inject.files, from)
	}
	return err
}

func (osFS) Remove(name string) error {
	inject.mu.Lock()
	defer inject.mu.Unlock()
	inject.next("remove", name)
	delete(inject.files, name)
	return os.Remove(name)
}

func (osFS) RemoveAll(path string) error {
	inject.mu.Lock()
	defer inject.mu.Unlock()
	inject.next("remove all", path)
	for name := range inject.files {
		if strings.HasPrefix(name, path) {
			delete(inject.files, name)
		}
	}
	return os.RemoveAll(path)
}

func (osFS) MkdirAll(path string, perm os.FileMode) error {
	inject.mu.Lock()
	defer inject.mu.Unlock()
	inject.next("mkdir", path)
	return os.MkdirAll(path, perm)
}

func (osFS) ReadDir(name string) ([]os.DirEntry, error) { return os.ReadDir(name) }
func (osFS) ReadFile(name string) ([]byte, error)       { return os.ReadFile(name) }
func (osFS) Stat(name string) (os.FileInfo, error)      { return os.Stat(name) }

type brokenFile struct {
	*os.File
	path string
}

func (f *brokenFile) Write(b []byte) (int, error) {
	inject.mu.Lock()
	defer inject.mu.Unlock()
	inject.next("write", f.path)
	part := len(b)
	switch {
	case inject.kind == "torn" && inject.n == inject.at:
		part = int(rand.New(rand.NewPCG(inject.seed, uint64(inject.at))).Int64N(int64(len(b) + 1)))
	case inject.kind == "full" && inject.n >= inject.at:
		part = len(b) / 2
	}
	n, err := f.File.Write(b[:part])
	if info, statErr := f.File.Stat(); statErr == nil {
		inject.extent(f.path).size = info.Size()
	}
	switch {
	case inject.kind == "torn" && inject.n == inject.at:
		inject.die()
	case err == nil && inject.kind == "full" && inject.n >= inject.at:
		return n, &os.PathError{Op: "write", Path: f.path, Err: syscall.ENOSPC}
	}
	return n, err
}

func (f *brokenFile) Truncate(size int64) error {
	inject.mu.Lock()
	defer inject.mu.Unlock()
	inject.next("truncate", f.path)
	e := inject.extent(f.path)
	e.size, e.synced = size, min(e.synced, size)
	return f.File.Truncate(size)
}

func (f *brokenFile) Sync() error {
	inject.mu.Lock()
	defer inject.mu.Unlock()
	inject.next("sync", f.path)
	e := inject.extent(f.path)
	e.synced = e.size
	return f.File.Sync()
}
