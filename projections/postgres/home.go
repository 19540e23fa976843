package postgres

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// owner is whom the server runs as: nobody of note, where we are root (Postgres refuses root).
type owner struct {
	uid, gid int
	drop     bool
}

func chooseOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid > 0 {
			return owner{uid: uid, gid: gid, drop: true}, nil
		}
	}
	return owner{}, errors.New("postgres: running as root, and there is no user postgres or nobody to run the server as")
}

// credential is nil where nothing is dropped.
func (o owner) credential() *syscall.Credential {
	if !o.drop {
		return nil
	}
	return &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid), NoSetGroups: false}
}

// give makes path the owner's, private.
func (o owner) give(path string, mode os.FileMode) error {
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	if !o.drop {
		return nil
	}
	return os.Chown(path, o.uid, o.gid)
}

// reaches reports whether the owner may walk into dir. Only the common cases count: a refusal here means
// another place, not a failure.
func (o owner) reaches(dir string) bool {
	if !o.drop {
		return true
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return false
		}
		bit := os.FileMode(0o001)
		switch {
		case int(stat.Uid) == o.uid:
			bit = 0o100
		case int(stat.Gid) == o.gid:
			bit = 0o010
		}
		if info.Mode()&bit == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// elsewhere is where a root process puts a cluster whose own directory the unprivileged user can't enter.
const elsewhere = "/var/lib/cairn"

// home is the directory of the server's files. That is dir/server, unless the owner can't enter dir: then
// it lies under /var/lib/cairn, named by an id that dir remembers, so that another dir means another cluster.
func (o owner) home(dir string) (path string, moved bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", false, fmt.Errorf("postgres: %w", err)
	}
	note := filepath.Join(dir, "location")
	if text, err := os.ReadFile(note); err == nil {
		return strings.TrimSpace(string(text)), true, nil
	}
	here := filepath.Join(dir, "server")
	if o.reaches(dir) {
		return here, false, nil
	}
	if _, err := os.Stat(here); err == nil {
		return "", false, fmt.Errorf("postgres: the user with id %d can no longer enter %s: let it (chmod o+x on the folders above)", o.uid, here)
	}
	path = filepath.Join(elsewhere, "postgres-"+strings.ToLower(rand.Text()))
	if err := os.MkdirAll(elsewhere, 0o755); err != nil {
		return "", false, fmt.Errorf("postgres: %w", err)
	}
	if err := os.WriteFile(note, []byte(path+"\n"), 0o644); err != nil {
		return "", false, fmt.Errorf("postgres: %w", err)
	}
	return path, true, nil
}

// ErrInUse says that another process runs the cluster of this directory.
var ErrInUse = errors.New("postgres: another process runs the cluster of this directory")

func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "launcher.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrInUse, dir), f.Close())
	}
	return f, nil
}
