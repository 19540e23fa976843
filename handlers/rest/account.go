package rest

import (
	"fmt"
	"net/http"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/handlers/accounts"
)

// What a password may be. The upper bound keeps hashing cheap enough to refuse nobody.
const (
	minPassword = 8
	maxPassword = 256
	maxEmail    = 254
)

type credentials struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

type accountView struct {
	UserID string `json:"user_id"`
	Scope  string `json:"scope"`
	Tier   string `json:"tier"`
}

type tokensView struct {
	Access         string    `json:"access_token"`
	AccessExpires  time.Time `json:"access_expires_at"`
	Refresh        string    `json:"refresh_token"`
	RefreshExpires time.Time `json:"refresh_expires_at"`
	TokenType      string    `json:"token_type"`
}

type sessionView struct {
	Account accountView `json:"account"`
	tokensView
}

func viewAccount(a accounts.Account) accountView {
	return accountView{UserID: a.UserID, Scope: string(a.Scope), Tier: string(a.Tier)}
}

func viewTokens(t accounts.Tokens) tokensView {
	return tokensView{Access: t.Access, AccessExpires: t.AccessExpires.UTC(), Refresh: t.Refresh, RefreshExpires: t.RefreshExpires.UTC(), TokenType: "Bearer"}
}

func (s *server) register(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	var body credentials
	if _, err := read(c, smallBody, &body); err != nil {
		return err
	}
	email := strings.TrimSpace(body.Email)
	var errs []wrong
	if address, err := mail.ParseAddress(email); err != nil || address.Address != email || len(email) > maxEmail {
		errs = append(errs, wrong{Pointer: "/email", Detail: "is no e-mail address"})
	}
	if n := utf8.RuneCountInString(body.Password); n < minPassword || n > maxPassword {
		errs = append(errs, wrong{Pointer: "/password", Detail: fmt.Sprintf("must have between %d and %d characters", minPassword, maxPassword)})
	}
	if len(errs) > 0 {
		return invalid(errs...)
	}
	account, tokens, err := s.Accounts.Register(c.Request().Context(), email, body.Password)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/api/v1/me")
	return s.json(c, http.StatusCreated, sessionView{viewAccount(account), viewTokens(tokens)})
}

func (s *server) login(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	var body credentials
	if _, err := read(c, smallBody, &body); err != nil {
		return err
	}
	if body.Email == "" || body.Password == "" || len(body.Email) > maxEmail || utf8.RuneCountInString(body.Password) > maxPassword {
		return accounts.ErrCredentials // nobody has such; the same answer as for a wrong password
	}
	account, tokens, err := s.Accounts.Login(c.Request().Context(), strings.TrimSpace(body.Email), body.Password, c.RealIP())
	if err != nil {
		return err
	}
	return s.json(c, http.StatusOK, sessionView{viewAccount(account), viewTokens(tokens)})
}

type refreshBody struct {
	RefreshToken string `json:"refresh_token"`
}

func readRefresh(c echo.Context) (string, error) {
	if err := bare(c); err != nil {
		return "", err
	}
	var body refreshBody
	if _, err := read(c, smallBody, &body); err != nil {
		return "", err
	}
	if body.RefreshToken == "" {
		return "", invalid(wrong{Pointer: "/refresh_token", Detail: "is missing"})
	}
	return body.RefreshToken, nil
}

func (s *server) refresh(c echo.Context) error {
	token, err := readRefresh(c)
	if err != nil {
		return err
	}
	tokens, err := s.Accounts.Refresh(c.Request().Context(), token)
	if err != nil {
		return err
	}
	return s.json(c, http.StatusOK, viewTokens(tokens))
}

// logout revokes the family of a refresh token. Whether there was one is not said.
func (s *server) logout(c echo.Context) error {
	token, err := readRefresh(c)
	if err != nil {
		return err
	}
	if err := s.Accounts.Logout(c.Request().Context(), token); err != nil && s.problemOf(err) == nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *server) me(c echo.Context) error {
	q, err := parameters(c)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	if err := s.await(c, q, modelEvents); err != nil {
		return err
	}
	account, err := s.Accounts.Me(c.Request().Context(), principal(c))
	if err != nil {
		return err
	}
	return s.json(c, http.StatusOK, viewAccount(account))
}

// erase ends the account: its keys are destroyed, and with them all content.
func (s *server) erase(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	if err := s.Accounts.Erase(c.Request().Context(), principal(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *server) ticket(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	ticket, err := s.Accounts.Ticket(c.Request().Context(), principal(c))
	if err != nil {
		return err
	}
	return s.json(c, http.StatusCreated, struct {
		Ticket    string    `json:"ticket"`
		ExpiresAt time.Time `json:"expires_at"`
	}{ticket.Ticket, ticket.ExpiresAt.UTC()})
}

// bare refuses a query where none has a meaning.
func bare(c echo.Context) error {
	if c.Request().URL.RawQuery != "" {
		return invalid(wrong{Pointer: "", Detail: "this request takes no parameters in its address"})
	}
	return nil
}
