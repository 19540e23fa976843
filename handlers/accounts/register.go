package accounts

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
)

const (
	minPassword = 8
	maxPassword = 1024 // bytes
	maxEmail    = 254  // RFC 5321
)

// Register makes an account and logs it in. First the e-mail is claimed in the vault, then the command goes
// to the log; a registration that broke off between the two is finished by repeating it with the same
// password. Errors: *domain.Rejection (invalid), *Taken, *streams.Busy, streams.ErrOutcomeUnknown (repeat it).
func (s *Accounts) Register(ctx context.Context, email, password string) (Account, Tokens, error) {
	email, err := normalise(email)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	if err := checkPassword(password); err != nil {
		return Account{}, Tokens{}, err
	}
	digest, err := s.vault.EmailDigest(ctx, email)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	holder, stored, err := s.vault.Claim(ctx, vault.Credential{
		UserID: uuid.NewString(), EmailDigest: digest, PasswordHash: hash, Tier: account.Free,
	})
	if err != nil {
		return Account{}, Tokens{}, err
	}
	if !stored {
		// Somebody else's, or the rest of a registration that broke off: whoever knows its password goes on
		// with it. Nobody takes it over with another password, not even before it was finished.
		same, err := s.hasher.matches(ctx, password, holder.PasswordHash)
		if err != nil {
			return Account{}, Tokens{}, err
		}
		if holder.Registered || !same {
			return Account{}, Tokens{}, &Taken{}
		}
	}
	return s.enter(ctx, holder)
}

// Login lets in who knows the password. It takes the same time whether the account exists or not.
// Errors: ErrCredentials, *streams.Busy when the e-mail or the remote address tries too often.
func (s *Accounts) Login(ctx context.Context, email, password, remote string) (Account, Tokens, error) {
	if err := s.remotes.allow(remote, "too many log-ins from this address"); err != nil {
		return Account{}, Tokens{}, err
	}
	email, invalid := normalise(email)
	digest, err := s.vault.EmailDigest(ctx, email)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	if err := s.emails.allow(string(digest), "too many log-ins with this e-mail"); err != nil {
		return Account{}, Tokens{}, err
	}
	found, err := s.vault.ByEmail(ctx, digest)
	unknown := errors.Is(err, vault.ErrNotFound)
	if err != nil && !unknown {
		return Account{}, Tokens{}, err
	}
	if unknown {
		found.PasswordHash = s.hasher.nobodys
	}
	if len(password) > maxPassword {
		password, unknown = "", true
	}
	same, err := s.hasher.matches(ctx, password, found.PasswordHash)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	if !same || unknown || invalid != nil {
		return Account{}, Tokens{}, ErrCredentials
	}
	return s.enter(ctx, found)
}

// enter finishes the registration if that is still to be done, and begins a log-in.
func (s *Accounts) enter(ctx context.Context, c vault.Credential) (Account, Tokens, error) {
	if !c.Registered {
		scope := domain.User(c.UserID)
		if _, err := s.asker.Ask(ctx, streams.Command{
			Scope: scope, ID: streams.OwnID(scope, "register"), Actor: user(c.UserID),
			Body: account.Register{On: account.On{Account: c.UserID}, Tier: c.Tier},
		}); err != nil {
			return Account{}, Tokens{}, fmt.Errorf("accounts: registering: %w", err)
		}
		if err := s.vault.Registered(ctx, c.UserID); err != nil {
			return Account{}, Tokens{}, err
		}
	}
	family, err := s.vault.OpenFamily(ctx, c.UserID, RefreshLasts)
	if errors.Is(err, vault.ErrNotFound) {
		return Account{}, Tokens{}, ErrCredentials // erased this very moment
	}
	if err != nil {
		return Account{}, Tokens{}, err
	}
	tokens, err := s.tokens(family)
	return view(c), tokens, err
}

func view(c vault.Credential) Account {
	return Account{UserID: c.UserID, Scope: domain.User(c.UserID), Tier: c.Tier}
}

func user(id string) domain.Actor { return domain.Actor{Kind: domain.ActorUser, ID: id} }

// normalise makes one text of all ways to write an e-mail address.
func normalise(email string) (string, error) {
	readable := utf8.ValidString(email) // lowering would mend it
	email = strings.ToLower(strings.TrimSpace(email))
	parsed, err := mail.ParseAddress(email)
	if err != nil || parsed.Address != email || len(email) > maxEmail || !readable {
		return email, domain.Reject(domain.CodeInvalid, "this is no e-mail address")
	}
	return email, nil
}

func checkPassword(password string) error {
	switch {
	case !utf8.ValidString(password):
		return domain.Reject(domain.CodeInvalid, "the password is not valid UTF-8")
	case utf8.RuneCountInString(password) < minPassword:
		return domain.Reject(domain.CodeInvalid, "a password has at least %d characters", minPassword)
	case len(password) > maxPassword:
		return domain.Reject(domain.CodeInvalid, "a password has at most %d bytes", maxPassword)
	}
	return nil
}
