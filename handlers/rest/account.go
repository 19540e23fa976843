package rest

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/rest/contract"
)

// maxPassword keeps hashing cheap enough to refuse nobody; in characters.
const maxPassword = 256

const bearer = "Bearer"

func viewAccount(a accounts.Account) contract.Account {
	return contract.Account{UserID: a.UserID, Scope: string(a.Scope), Tier: string(a.Tier)}
}

func viewSession(a accounts.Account, t accounts.Tokens) contract.Session {
	return contract.Session{Account: viewAccount(a), AccessToken: t.Access, AccessExpiresAt: t.AccessExpires.UTC(), RefreshToken: t.Refresh,
		RefreshExpiresAt: t.RefreshExpires.UTC(), TokenType: bearer}
}

// Register makes an account and begins its session.
func (s *server) Register(ctx context.Context, r contract.RegisterRequestObject) (contract.RegisterResponseObject, error) {
	account, tokens, err := s.Accounts.Register(ctx, strings.TrimSpace(r.Body.Email), r.Body.Password)
	if err != nil {
		return nil, err
	}
	callOf(ctx).header().Set(echo.HeaderLocation, "/api/v1/me")
	return contract.Register201JSONResponse{Body: viewSession(account, tokens)}, nil
}

// LogIn begins a session.
func (s *server) LogIn(ctx context.Context, r contract.LogInRequestObject) (contract.LogInResponseObject, error) {
	if r.Body.Email == "" || r.Body.Password == "" || len(r.Body.Email) > maxEmail || utf8.RuneCountInString(r.Body.Password) > maxPassword {
		return nil, accounts.ErrCredentials // nobody has such; the same answer as for a wrong password
	}
	account, tokens, err := s.Accounts.Login(ctx, strings.TrimSpace(r.Body.Email), r.Body.Password, callOf(ctx).remote())
	if err != nil {
		return nil, err
	}
	return contract.LogIn200JSONResponse{Body: viewSession(account, tokens)}, nil
}

// Refresh takes a refresh token for a new pair.
func (s *server) Refresh(ctx context.Context, r contract.RefreshRequestObject) (contract.RefreshResponseObject, error) {
	t, err := s.Accounts.Refresh(ctx, r.Body.RefreshToken)
	if err != nil {
		return nil, err
	}
	return contract.Refresh200JSONResponse{Body: contract.Tokens{AccessToken: t.Access, AccessExpiresAt: t.AccessExpires.UTC(), RefreshToken: t.Refresh,
		RefreshExpiresAt: t.RefreshExpires.UTC(), TokenType: bearer}}, nil
}

// LogOut revokes the family of a refresh token. Whether there was one is not said.
func (s *server) LogOut(ctx context.Context, r contract.LogOutRequestObject) (contract.LogOutResponseObject, error) {
	if err := s.Accounts.Logout(ctx, r.Body.RefreshToken); err != nil && s.problemOf(err) == nil {
		return nil, err
	}
	return contract.LogOut204Response{}, nil
}

// GetMe answers the caller's account.
func (s *server) GetMe(ctx context.Context, r contract.GetMeRequestObject) (contract.GetMeResponseObject, error) {
	if err := s.await(ctx, r.Params.MinPosition, modelEvents); err != nil {
		return nil, err
	}
	account, err := s.Accounts.Me(ctx, callOf(ctx).who())
	if err != nil {
		return nil, err
	}
	return contract.GetMe200JSONResponse{Body: viewAccount(account)}, nil
}

// EraseMe ends the account: its keys are destroyed, and with them all content.
func (s *server) EraseMe(ctx context.Context, _ contract.EraseMeRequestObject) (contract.EraseMeResponseObject, error) {
	if err := s.Accounts.Erase(ctx, callOf(ctx).who()); err != nil {
		return nil, err
	}
	return contract.EraseMe204Response{}, nil
}

// CreateTicket makes a ticket for the socket.
func (s *server) CreateTicket(ctx context.Context, _ contract.CreateTicketRequestObject) (contract.CreateTicketResponseObject, error) {
	ticket, err := s.Accounts.Ticket(ctx, callOf(ctx).who())
	if err != nil {
		return nil, err
	}
	return contract.CreateTicket201JSONResponse{Body: contract.Ticket{Ticket: ticket.Ticket, ExpiresAt: ticket.ExpiresAt.UTC()}}, nil
}
