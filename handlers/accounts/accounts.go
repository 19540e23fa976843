// Package accounts lets people in: registration, log-in, tokens, socket tickets, tiers, erasure. What it
// must remember stands in the vault; the log knows only that an account exists, its tier and its end.
package accounts

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
)

// How long things last.
const (
	AccessLasts  = 15 * time.Minute
	RefreshLasts = 30 * 24 * time.Hour // since its last use
	TicketLasts  = 30 * time.Second
)

// What does not let in. Neither says whether the account exists.
var (
	ErrCredentials = errors.New("e-mail or password is wrong")
	ErrToken       = errors.New("the token is not valid")
)

// Taken is the answer to a registration with an e-mail that has an account.
type Taken struct{}

// Error says so.
func (*Taken) Error() string { return "this e-mail has an account" }

// Account is an account as its owner sees it.
type Account struct {
	UserID string
	Scope  domain.Scope
	Tier   account.Tier
}

// Principal is who somebody proved to be.
type Principal struct {
	UserID    string
	Scope     domain.Scope
	ExpiresAt time.Time
	// Session is the log-in that it came of; empty: not known.
	Session string
}

// Tokens let in: Access at once and for a short time, Refresh once, for the next pair.
type Tokens struct {
	Access         string
	AccessExpires  time.Time
	Refresh        string
	RefreshExpires time.Time
}

// Ticket opens one socket.
type Ticket struct {
	Ticket    string
	ExpiresAt time.Time
}

// Cost is that of argon2id. The zero is 64 MiB, 3 passes, 2 lanes.
type Cost struct {
	MemoryKiB uint32
	Passes    uint32
	Lanes     uint8
}

// Rate is a burst, and one more each Every.
type Rate struct {
	Burst int
	Every time.Duration
}

// Config is what Accounts works with. Vault, Asker and Now are needed; the rest has defaults.
type Config struct {
	Vault *vault.Vault
	Asker streams.Asker
	// Master is the vault's master key; the keys of tokens are derived from it. Without one, tokens are good
	// only within this process, and the vault refuses everything anyway.
	Master []byte
	Now    func() time.Time

	Cost Cost
	// Hashes is how many passwords are hashed at once (2), Waiting how many more may wait for it (100).
	Hashes  int
	Waiting int
	// EmailRate and RemoteRate limit log-ins per e-mail (10, one more each 6 s) and per remote address (60, one a second).
	EmailRate  Rate
	RemoteRate Rate
}

// Accounts registers people and lets them in. It is safe for concurrent use.
type Accounts struct {
	vault   *vault.Vault
	asker   streams.Asker
	now     func() time.Time
	hasher  *hasher
	emails  *limiter
	remotes *limiter
	signing ed25519.PrivateKey
	keyID   string
	refresh []byte
}

// New makes Accounts.
func New(c Config) *Accounts {
	signing := ed25519.NewKeyFromSeed(derive(c.Master, "access tokens"))
	return &Accounts{
		vault: c.Vault, asker: c.Asker, now: c.Now,
		hasher: newHasher(Cost{
			MemoryKiB: cmp.Or(c.Cost.MemoryKiB, 64<<10), Passes: cmp.Or(c.Cost.Passes, 3), Lanes: cmp.Or(c.Cost.Lanes, 2),
		}, cmp.Or(c.Hashes, 2), cmp.Or(c.Waiting, 100)),
		emails:  newLimiter(cmp.Or(c.EmailRate, Rate{Burst: 10, Every: 6 * time.Second}), c.Now),
		remotes: newLimiter(cmp.Or(c.RemoteRate, Rate{Burst: 60, Every: time.Second}), c.Now),
		signing: signing, keyID: keyID(signing), refresh: derive(c.Master, "refresh tokens"),
	}
}

// derive makes a key of 32 bytes out of the master key. Without a proper one it draws a key, so that
// nobody can forge a token by knowing that there is none.
func derive(master []byte, purpose string) []byte {
	if len(master) == vault.MasterKeySize {
		if key, err := vault.Derive(master, purpose); err == nil {
			return key
		}
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the program instead
	return key
}
