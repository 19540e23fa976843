package vault

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
)

// Facts are what a log says of things that the vault keeps, too.
type Facts struct {
	Erased   []domain.Scope
	Accounts map[string]AccountFact // by user id: those that were registered
	// Era is the one that the log is written in, and Ends are the offsets after the last record of each partition. A void or
	// the begin of a policy behind them is of a record that the log does not have, and would be taken for one to come.
	Era  int
	Ends map[int32]int64
}

// AccountFact is the tier that the log gave an account, and the position of the event that last changed it, if one did.
type AccountFact struct {
	Tier     account.Tier
	Position uint64
}

// Agreed counts what had to be changed.
type Agreed struct {
	// Erased scopes could still be opened.
	Erased int64 `json:"erasures_applied"`
	// Unfinished registrations are accounts whose event the log does not have: the next log-in with the right password finishes them.
	Unfinished int64 `json:"registrations_unfinished"`
	// Tiers are those that the log does not know of any more.
	Tiers int64 `json:"tiers_set_back"`
	// Voids are of records that the log does not have.
	Voids int64 `json:"voids_dropped"`
}

// Agree makes the vault agree with a log that was put back from a copy, or lost its end. Keys are never touched but by an
// erasure: what the log lost may be in it again.
func (v *Vault) Agree(ctx context.Context, facts Facts) (Agreed, error) {
	var agreed Agreed
	if err := v.Check(ctx); err != nil {
		return agreed, err
	}
	err := pgx.BeginFunc(ctx, v.pool, func(tx pgx.Tx) (err error) {
		agreed, err = agree(ctx, tx, facts, v.now())
		return err
	})
	if err != nil {
		return Agreed{}, unreachable(err)
	}
	v.opened.Purge()
	return agreed, nil
}

func agree(ctx context.Context, tx pgx.Tx, facts Facts, now time.Time) (Agreed, error) {
	var agreed Agreed
	for _, scope := range facts.Erased {
		done, err := eraseAgain(ctx, tx, scope, now)
		if err != nil {
			return agreed, err
		}
		if done {
			agreed.Erased++
		}
	}
	users, tiers, positions := []string{}, []string{}, []int64{} // a nil slice would be NULL, which nothing is unlike
	for user, fact := range facts.Accounts {
		users, tiers, positions = append(users, user), append(tiers, string(fact.Tier)), append(positions, int64(fact.Position))
	}
	tag, err := tx.Exec(ctx, `UPDATE credentials SET registered_at = NULL, tier_position = 0
		WHERE registered_at IS NOT NULL AND NOT user_id = ANY($1::text[])`, users)
	if err != nil {
		return agreed, err
	}
	agreed.Unfinished = tag.RowsAffected()
	tag, err = tx.Exec(ctx, `UPDATE credentials c SET tier = l.tier, tier_position = l.position
		FROM unnest($1::text[], $2::text[], $3::bigint[]) AS l (user_id, tier, position)
		WHERE c.user_id = l.user_id AND c.tier_position > l.position`, users, tiers, positions)
	if err != nil {
		return agreed, err
	}
	agreed.Tiers = tag.RowsAffected()
	for partition, end := range facts.Ends {
		if tag, err = tx.Exec(ctx, `DELETE FROM voids WHERE era = $1 AND partition = $2 AND log_offset >= $3`, facts.Era, partition, end); err != nil {
			return agreed, err
		}
		agreed.Voids += tag.RowsAffected()
		if _, err := tx.Exec(ctx, `UPDATE policy_begins SET next_offset = $3 WHERE era = $1 AND partition = $2 AND next_offset > $3`,
			facts.Era, partition, end); err != nil {
			return agreed, err
		}
	}
	return agreed, nil
}

// eraseAgain does what Erase and Destroy did, and reports whether there was anything left to do.
func eraseAgain(ctx context.Context, tx pgx.Tx, scope domain.Scope, now time.Time) (bool, error) {
	user, isUser := strings.CutPrefix(string(scope), "user-")
	var left bool
	err := tx.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM scope_keys WHERE scope = $1 AND destroyed_at IS NOT NULL)
			OR EXISTS (SELECT FROM credentials WHERE $3 AND user_id = $2)`, string(scope), user, isUser).Scan(&left)
	if err != nil || !left {
		return false, err
	}
	if err := destroy(ctx, tx, scope, "erased", now); err != nil {
		return false, err
	}
	if !isUser {
		return true, nil
	}
	_, err = tx.Exec(ctx, `DELETE FROM credentials WHERE user_id = $1`, user)
	return true, err
}
