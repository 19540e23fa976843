package app

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/postgres"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Advised adds to an error what a person can do about it, where that is known.
func Advised(err error) error {
	var database *pgconn.ConnectError
	if errors.As(err, &database) {
		return fmt.Errorf("%w (start Postgres, or correct CAIRN_DATABASE_URL and CAIRN_VAULT_URL)", err)
	}
	for _, known := range []struct {
		is   error
		mend string
	}{
		{kafka.ErrLocked, "end that process, or choose another directory with CAIRN_DATA"},
		{postgres.ErrInUse, "end that process, or choose another directory with CAIRN_DATA"},
		{kafka.ErrNewerData, "start the release that wrote it, or a newer one; nothing was changed"},
		{migrations.ErrNewer, "start the release that wrote it, or a newer one; nothing was changed"},
		{vault.ErrNewer, "start the release that wrote it, or a newer one; nothing was changed"},
		{vault.ErrMasterWrong, "bring the right key back from its backup: see CAIRN_MASTER_KEY and CAIRN_MASTER_KEY_FILE"},
		{postgres.ErrNoPostgres, "run deploy/setup.sh"},
		{kafka.ErrMigrated, "set the brokers, era, partitions and prefix that `cairn log migrate` printed; this process must not run any more"},
		{kafka.ErrNotMigrated, "run `cairn log migrate` again, into empty topics, or set the brokers, era and prefix back to those of the old log"},
		{ErrNewerLevel, "start the newest release; `cairn upgrade status` says which runs"},
		{errBroker, "see that its disk has room and is sound, and start again: what was acknowledged is kept"},
		{syscall.ECONNREFUSED, "nothing listens there: start it, or correct the address"},
		{syscall.ENOSPC, "make room on that disk, and start again: what was acknowledged is kept"},
		{syscall.ENOTDIR, "choose another directory with CAIRN_DATA"},
		{syscall.EROFS, "choose another directory with CAIRN_DATA"},
		{fs.ErrPermission, "give this account the right to write there, or choose another directory with CAIRN_DATA"},
	} {
		if errors.Is(err, known.is) {
			return fmt.Errorf("%w (%s)", err, known.mend)
		}
	}
	return err
}
