package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
)

// Me is the principal's account. Errors: ErrToken when the account is gone.
func (s *Accounts) Me(ctx context.Context, p Principal) (Account, error) {
	c, err := s.vault.ByUser(ctx, p.UserID)
	if errors.Is(err, vault.ErrNotFound) {
		return Account{}, ErrToken
	}
	if err != nil {
		return Account{}, err
	}
	return view(c), nil
}

// ChangeTier moves an account to a tier; it is an operator's doing. Errors: *domain.Rejection (not_found, invalid).
func (s *Accounts) ChangeTier(ctx context.Context, userID string, tier account.Tier) error {
	if _, err := s.vault.ByUser(ctx, userID); err != nil {
		if errors.Is(err, vault.ErrNotFound) {
			return domain.Reject(domain.CodeNotFound, "there is no such account")
		}
		return err
	}
	scope := domain.User(userID)
	answer, err := s.asker.Ask(ctx, streams.Command{
		Scope: scope, ID: uuid.NewString(), Actor: domain.Actor{Kind: domain.ActorSystem},
		Body: account.ChangeTier{On: account.On{Account: userID}, To: tier},
	})
	if err != nil {
		return fmt.Errorf("accounts: changing a tier: %w", err)
	}
	return s.vault.SetTier(ctx, userID, tier, answer.Position.Position)
}

// Erase ends an account for ever: first the event, which a restore applies again, then the keys and all
// that lets in. One that broke off is finished by repeating it, or by ApplyErasures.
func (s *Accounts) Erase(ctx context.Context, p Principal) error {
	_, err := s.asker.Ask(ctx, streams.Command{
		Scope: p.Scope, ID: streams.OwnID(p.Scope, "erase"), Actor: user(p.UserID),
		Body: account.Erase{On: account.On{Account: p.UserID}},
	})
	if err != nil && !erased(err) {
		return fmt.Errorf("accounts: erasing: %w", err)
	}
	return s.vault.Erase(ctx, p.UserID)
}

// ApplyErasures does again what the log says was erased. It is run after a restore, before anything is
// served, and changes nothing where nothing came back.
func (s *Accounts) ApplyErasures(ctx context.Context, scopes []domain.Scope) error {
	for _, scope := range scopes {
		id, ok := strings.CutPrefix(string(scope), "user-")
		if !ok {
			if err := s.vault.Destroy(ctx, scope); err != nil {
				return err
			}
			continue
		}
		if err := s.vault.Erase(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func erased(err error) bool {
	var no *domain.Rejection
	return errors.Is(err, streams.ErrScopeErased) || errors.As(err, &no) && no.Code == domain.CodeScopeErased
}
