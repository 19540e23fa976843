package vault

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
)

// Credential is who may log in, and by what.
type Credential struct {
	UserID       string
	EmailDigest  []byte
	PasswordHash string
	// Registered says that the account's event is known to be in the log.
	Registered bool
	Tier       account.Tier
}

// EmailDigest is the HMAC by which an e-mail is claimed and found. The caller has normalised it.
func (v *Vault) EmailDigest(ctx context.Context, email string) ([]byte, error) {
	if err := v.Check(ctx); err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, v.emails)
	h.Write([]byte(email))
	return h.Sum(nil), nil
}

// Claim stores c unless its e-mail is claimed already, and answers whose it is now and whether it was stored.
func (v *Vault) Claim(ctx context.Context, c Credential) (holder Credential, stored bool, err error) {
	n, err := v.exec(ctx, `
		INSERT INTO credentials (user_id, email_digest, password_hash, tier, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (email_digest) DO NOTHING`, c.UserID, c.EmailDigest, c.PasswordHash, string(c.Tier), v.now())
	if err != nil {
		return Credential{}, false, err
	}
	holder, err = v.ByEmail(ctx, c.EmailDigest)
	return holder, n == 1, err
}

// ByEmail finds a credential by the digest of its e-mail: ErrNotFound.
func (v *Vault) ByEmail(ctx context.Context, digest []byte) (Credential, error) {
	return v.credential(ctx, `email_digest = $1`, digest)
}

// ByUser finds a credential by its user: ErrNotFound.
func (v *Vault) ByUser(ctx context.Context, userID string) (Credential, error) {
	return v.credential(ctx, `user_id = $1`, userID)
}

func (v *Vault) credential(ctx context.Context, where string, arg any) (Credential, error) {
	var c Credential
	err := v.row(ctx, []any{&c.UserID, &c.EmailDigest, &c.PasswordHash, &c.Registered, &c.Tier},
		`SELECT user_id, email_digest, password_hash, registered_at IS NOT NULL, tier FROM credentials WHERE `+where, arg)
	return c, err
}

// Registered notes that the account's event is in the log.
func (v *Vault) Registered(ctx context.Context, userID string) error {
	_, err := v.exec(ctx, `UPDATE credentials SET registered_at = $2 WHERE user_id = $1 AND registered_at IS NULL`, userID, v.now())
	return err
}

// SetTier notes the tier that the log gave an account at a position of its scope, unless it knows of a later one.
func (v *Vault) SetTier(ctx context.Context, userID string, tier account.Tier, position uint64) error {
	_, err := v.exec(ctx, `UPDATE credentials SET tier = $2, tier_position = $3 WHERE user_id = $1 AND tier_position <= $3`,
		userID, string(tier), int64(position))
	return err
}

// Erase destroys a user's keys and deletes the credential, the claim, families and tickets, in one
// transaction. It may be repeated, and has to be after a restore.
func (v *Vault) Erase(ctx context.Context, userID string) error {
	scope := domain.User(userID)
	err := v.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := destroy(ctx, tx, scope, "erased", v.now()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM credentials WHERE user_id = $1`, userID)
		return err
	})
	v.opened.Remove(scope)
	return err
}

// PutTicket stores a ticket for one use by its digest.
func (v *Vault) PutTicket(ctx context.Context, digest []byte, userID string, validUntil, principalUntil time.Time) error {
	n, err := v.exec(ctx, `
		INSERT INTO tickets (digest, user_id, valid_until, principal_until)
		SELECT $1, user_id, $3, $4 FROM credentials WHERE user_id = $2`, digest, userID, validUntil, principalUntil)
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

// TakeTicket uses a ticket up: ErrNotFound if it is unknown, used or too old.
func (v *Vault) TakeTicket(ctx context.Context, digest []byte) (userID string, principalUntil time.Time, err error) {
	err = v.row(ctx, []any{&userID, &principalUntil},
		`DELETE FROM tickets WHERE digest = $1 AND valid_until > $2 RETURNING user_id, principal_until`, digest, v.now())
	return userID, principalUntil, err
}
