package accounts

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections/vault"
)

const (
	issuer        = "cairn"
	refreshPrefix = "cr_"
	ticketPrefix  = "ct_"
	ticketSession = "." // between a ticket and the session that it came of
)

// Refresh uses a refresh token up for the next pair. The one before the newest gets the same successor for
// 60 s, since the answer that carried it may have been lost; any older one revokes all that came of its
// log-in. Errors: ErrToken.
func (s *Accounts) Refresh(ctx context.Context, refreshToken string) (Tokens, error) {
	family, number, ok := s.parseRefresh(refreshToken)
	if !ok {
		return Tokens{}, ErrToken
	}
	f, err := s.vault.UseToken(ctx, family, number, RefreshLasts)
	if errors.Is(err, vault.ErrNotFound) || errors.Is(err, vault.ErrReused) {
		return Tokens{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	if err != nil {
		return Tokens{}, err
	}
	return s.tokens(f)
}

// Logout ends the log-in that a refresh token, used or not, came of. Ending it again is no error.
func (s *Accounts) Logout(ctx context.Context, refreshToken string) error {
	family, _, ok := s.parseRefresh(refreshToken)
	if !ok {
		return ErrToken
	}
	return s.vault.Revoke(ctx, family)
}

// Verify reads an access token. It asks nobody: one that was given out is good until it runs out. Errors: ErrToken.
func (s *Accounts) Verify(accessToken string) (Principal, error) {
	var claims claims
	_, err := jwt.ParseWithClaims(accessToken, &claims, func(*jwt.Token) (any, error) { return s.signing.Public(), nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(issuer), jwt.WithAudience(issuer),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithTimeFunc(s.now), jwt.WithLeeway(0))
	if err != nil || !domain.User(claims.Subject).Valid() {
		return Principal{}, ErrToken // jwt's error may hold parts of the token
	}
	return Principal{UserID: claims.Subject, Scope: domain.User(claims.Subject), ExpiresAt: claims.ExpiresAt.UTC(), Session: claims.Session}, nil
}

// claims are those of an access token.
type claims struct {
	jwt.RegisteredClaims

	Session string `json:"sid,omitempty"`
}

// Ended answers which of the sessions have ended: logged out, revoked, run out, or erased with their account.
func (s *Accounts) Ended(ctx context.Context, sessions []string) ([]string, error) {
	var families []uuid.UUID
	for _, session := range sessions {
		if family, err := uuid.Parse(session); err == nil {
			families = append(families, family)
		}
	}
	gone, err := s.vault.Ended(ctx, families)
	if err != nil {
		return nil, err
	}
	ended := make([]string, len(gone))
	for i, family := range gone {
		ended[i] = family.String()
	}
	return ended, nil
}

// Ticket makes a ticket for one use within 30 s, for whoever can't send a header.
func (s *Accounts) Ticket(ctx context.Context, p Principal) (Ticket, error) {
	text := ticketPrefix + rand.Text() + rand.Text()
	if session, err := uuid.Parse(p.Session); err == nil {
		text += ticketSession + hex.EncodeToString(session[:]) // what is stored is the digest of all of it
	}
	t := Ticket{Ticket: text, ExpiresAt: s.now().Add(TicketLasts)}
	err := s.vault.PutTicket(ctx, digest(t.Ticket), p.UserID, t.ExpiresAt, p.ExpiresAt)
	if errors.Is(err, vault.ErrNotFound) {
		return Ticket{}, ErrToken // the account is gone
	}
	return t, err
}

// Redeem uses a ticket up. Errors: ErrToken.
func (s *Accounts) Redeem(ctx context.Context, ticket string) (Principal, error) {
	if !strings.HasPrefix(ticket, ticketPrefix) || len(ticket) > 100 {
		return Principal{}, ErrToken
	}
	userID, until, err := s.vault.TakeTicket(ctx, digest(ticket))
	if errors.Is(err, vault.ErrNotFound) {
		return Principal{}, ErrToken
	}
	if err != nil {
		return Principal{}, err
	}
	p := Principal{UserID: userID, Scope: domain.User(userID), ExpiresAt: until.UTC()}
	if _, text, ok := strings.Cut(ticket, ticketSession); ok {
		if session, err := uuid.Parse(text); err == nil {
			p.Session = session.String()
		}
	}
	return p, nil
}

// tokens are the newest pair of a family. The refresh token is a function of the family and its number,
// which is how the same successor can be given twice although no token is stored.
func (s *Accounts) tokens(f vault.Family) (Tokens, error) {
	// Times in a JWT are whole seconds.
	issued := s.now().UTC().Truncate(time.Second)
	expires := issued.Add(AccessLasts)
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{Session: f.ID.String(), RegisteredClaims: jwt.RegisteredClaims{
		Issuer: issuer, Audience: jwt.ClaimStrings{issuer}, Subject: f.UserID,
		IssuedAt: jwt.NewNumericDate(issued), ExpiresAt: jwt.NewNumericDate(expires),
	}})
	token.Header["kid"] = s.keyID
	access, err := token.SignedString(s.signing)
	if err != nil {
		return Tokens{}, fmt.Errorf("accounts: signing a token: %w", err)
	}
	return Tokens{
		Access: access, AccessExpires: expires,
		Refresh: s.formatRefresh(f.ID, f.Number), RefreshExpires: f.Expires.UTC(),
	}, nil
}

func (s *Accounts) formatRefresh(family uuid.UUID, number int64) string {
	body := binary.BigEndian.AppendUint64(family[:], uint64(number))
	return refreshPrefix + base64.RawURLEncoding.EncodeToString(append(body, s.mac(body)...))
}

func (s *Accounts) parseRefresh(text string) (family uuid.UUID, number int64, ok bool) {
	encoded, ok := strings.CutPrefix(text, refreshPrefix)
	if !ok || len(encoded) > 100 {
		return uuid.UUID{}, 0, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(raw) != 24+sha256.Size || !hmac.Equal(raw[24:], s.mac(raw[:24])) {
		return uuid.UUID{}, 0, false
	}
	return uuid.UUID(raw[:16]), int64(binary.BigEndian.Uint64(raw[16:24])), true
}

func (s *Accounts) mac(body []byte) []byte {
	h := hmac.New(sha256.New, s.refresh)
	h.Write(body)
	return h.Sum(nil)
}

func digest(ticket string) []byte {
	d := sha256.Sum256([]byte(ticket))
	return d[:]
}

func keyID(key ed25519.PrivateKey) string {
	d := sha256.Sum256(key.Public().(ed25519.PublicKey))
	return hex.EncodeToString(d[:8])
}
