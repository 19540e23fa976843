package vault

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Grace is how long the token before the newest is still honoured: the answer that carried its successor
// may have been lost.
const Grace = 60 * time.Second

// ErrReused is a refresh token that was used before and is past its grace. Its family is revoked now.
var ErrReused = errors.New("the refresh token was used before")

// Family is a log-in: the refresh tokens that descend from it are numbered 1, 2, 3 …
type Family struct {
	ID      uuid.UUID
	UserID  string
	Number  int64 // of the newest token
	Expires time.Time
}

// OpenFamily begins a family for a log-in, at number 1.
func (v *Vault) OpenFamily(ctx context.Context, userID string, lasts time.Duration) (Family, error) {
	f := Family{ID: uuid.New(), UserID: userID, Number: 1, Expires: v.now().Add(lasts)}
	n, err := v.exec(ctx, `
		INSERT INTO refresh_families (family, user_id, number, rotated_at, expires_at)
		SELECT $1, user_id, 1, $3, $4 FROM credentials WHERE user_id = $2`, f.ID, userID, v.now(), f.Expires)
	if err == nil && n == 0 {
		return Family{}, ErrNotFound
	}
	return f, err
}

// UseToken uses token number n of a family and answers the family with the number of its successor. The
// newest token moves the family on; the one before it, within Grace, gets the same successor again; any
// other was used before, by its owner or by a thief: the family is revoked (ErrReused). ErrNotFound: no
// such family, revoked, or run out.
func (v *Vault) UseToken(ctx context.Context, family uuid.UUID, n int64, lasts time.Duration) (Family, error) {
	f := Family{ID: family}
	err := v.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var rotated time.Time
		err := tx.QueryRow(ctx, `
			SELECT user_id, number, rotated_at, expires_at FROM refresh_families
			WHERE family = $1 AND revoked_at IS NULL AND expires_at > $2 FOR UPDATE`, family, v.now()).Scan(&f.UserID, &f.Number, &rotated, &f.Expires)
		if err != nil {
			return err
		}
		switch {
		case n == f.Number:
			f.Number, f.Expires = n+1, v.now().Add(lasts)
			_, err = tx.Exec(ctx, `UPDATE refresh_families SET number = $2, rotated_at = $3, expires_at = $4 WHERE family = $1`, family, f.Number, v.now(), f.Expires)
		case n == f.Number-1 && v.now().Sub(rotated) <= Grace:
		default:
			f.Number = 0
			_, err = tx.Exec(ctx, `UPDATE refresh_families SET revoked_at = $2, revoked_why = 'reuse' WHERE family = $1`, family, v.now())
		}
		return err
	})
	if err != nil {
		return Family{}, err
	}
	if f.Number == 0 {
		return Family{}, ErrReused
	}
	return f, nil
}

// Ended answers which of the families there are no more, or were revoked or have run out.
func (v *Vault) Ended(ctx context.Context, families []uuid.UUID) (ended []uuid.UUID, err error) {
	err = v.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT f FROM unnest($1::uuid[]) AS u (f) WHERE NOT EXISTS (
			SELECT 1 FROM refresh_families r WHERE r.family = f AND r.revoked_at IS NULL AND r.expires_at > $2)`, families, v.now())
		if err != nil {
			return err
		}
		ended, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	return ended, err
}

// Revoke ends a family; one that has ended stays as it is.
func (v *Vault) Revoke(ctx context.Context, family uuid.UUID) error {
	_, err := v.exec(ctx, `UPDATE refresh_families SET revoked_at = $2, revoked_why = 'logout' WHERE family = $1 AND revoked_at IS NULL`, family, v.now())
	return err
}
