// Package api is Cairn's HTTP interface for Go programs: a session that renews itself around the operations
// that are generated from the contract (clients/api/contract), and problems as errors. It is not part of the
// backend and imports nothing of it.
package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cairnhq/cairn/clients/api/contract"
)

// Problem is an answer that says what went wrong (RFC 9457).
type Problem struct {
	Type    string           `json:"type"`
	Title   string           `json:"title"`
	Status  int              `json:"status"`
	Detail  string           `json:"detail"`
	Code    string           `json:"code"`
	TraceID string           `json:"traceId"`
	Errors  []Fault          `json:"errors"` // each wrong value
	Numbers map[string]int64 `json:"numbers"`
}

// Error says what went wrong.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return fmt.Sprintf("%s (%s)", p.Title, p.Code)
	}
	return fmt.Sprintf("%s (%s)", p.Detail, p.Code)
}

// Fault is one value that is not allowed.
type Fault = contract.Fault

// problemOf is an answer of status 400 or more.
func problemOf(response *http.Response, raw []byte) *Problem {
	p := &Problem{}
	_ = json.Unmarshal(raw, p) // what is no problem is named by its status
	p.Status = response.StatusCode
	p.Title = cmp.Or(p.Title, response.Status)
	return p
}

// Refused is what an operation's answer says went wrong, nil where nothing did: a *Problem.
func Refused(response *http.Response, body []byte) error {
	if response.StatusCode < http.StatusBadRequest {
		return nil
	}
	return problemOf(response, body)
}

// Tokens let in.
type Tokens struct {
	Access         string    `json:"access_token"`
	AccessExpires  time.Time `json:"access_expires_at"`
	Refresh        string    `json:"refresh_token"`
	RefreshExpires time.Time `json:"refresh_expires_at"`
}

// Account is the caller's.
type Account = contract.Account

// Client talks to one backend as one account. It is safe for concurrent use.
type Client struct {
	url  string
	http *http.Client
	// keep is told every new pair of tokens.
	keep func(Tokens) error

	mu     sync.Mutex
	tokens Tokens
}

// Option changes a Client under construction.
type Option func(*Client)

// WithTokens begins with tokens of an earlier session.
func WithTokens(t Tokens) Option { return func(c *Client) { c.tokens = t } }

// KeepingTokens hands every new pair of tokens to keep, so that a later session can begin with them.
func KeepingTokens(keep func(Tokens) error) Option { return func(c *Client) { c.keep = keep } }

// New is a client of the backend at url, such as http://127.0.0.1:8080.
func New(url string, options ...Option) *Client {
	c := &Client{url: strings.TrimSuffix(url, "/"), http: &http.Client{}}
	for _, option := range options {
		option(c)
	}
	return c
}

// ErrNoSession is the answer where nobody has logged in.
var ErrNoSession = errors.New("api: log in first")

// Operations are all operations of the contract, asked with the session's token. Answers of status 400 and
// more are no errors there: Refused tells them.
func (c *Client) Operations() *contract.ClientWithResponses {
	return c.operations(func(ctx context.Context, request *http.Request) error {
		token, err := c.Token(ctx)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", bearer+token)
		return nil
	})
}

const bearer = "Bearer "

func (c *Client) operations(editors ...contract.RequestEditorFn) *contract.ClientWithResponses {
	return &contract.ClientWithResponses{ClientInterface: &contract.Client{Server: c.url + "/", Client: c.http, RequestEditors: editors}}
}

// Register makes an account and begins its session.
func (c *Client) Register(ctx context.Context, email, password string) (Account, error) {
	answer, err := c.operations().RegisterWithResponse(ctx, contract.Registration{Email: email, Password: password})
	if err != nil {
		return Account{}, fmt.Errorf("api: register: %w", err)
	}
	return c.enter(answer.HTTPResponse, answer.Body, answer.JSON201)
}

// Login begins a session.
func (c *Client) Login(ctx context.Context, email, password string) (Account, error) {
	answer, err := c.operations().LogInWithResponse(ctx, contract.Credentials{Email: email, Password: password})
	if err != nil {
		return Account{}, fmt.Errorf("api: log in: %w", err)
	}
	return c.enter(answer.HTTPResponse, answer.Body, answer.JSON200)
}

func (c *Client) enter(response *http.Response, raw []byte, session *contract.Session) (Account, error) {
	if err := Refused(response, raw); err != nil {
		return Account{}, err
	}
	if session == nil {
		return Account{}, notJSON(response)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return session.Account, c.set(Tokens{Access: session.AccessToken, AccessExpires: session.AccessExpiresAt, Refresh: session.RefreshToken,
		RefreshExpires: session.RefreshExpiresAt})
}

func notJSON(response *http.Response) error {
	return fmt.Errorf("api: %s answered %s as %q: is it a Cairn?", response.Request.URL.Path, response.Status, response.Header.Get("Content-Type"))
}

func (c *Client) set(t Tokens) error {
	c.tokens = t
	if c.keep != nil {
		return c.keep(t)
	}
	return nil
}

// Token is an access token that is good for a while; it renews the session where needed.
func (c *Client) Token(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens.Refresh == "" {
		return "", ErrNoSession
	}
	if time.Until(c.tokens.AccessExpires) > 30*time.Second {
		return c.tokens.Access, nil
	}
	// Under the lock: two renewals at once would look like a stolen token.
	answer, err := c.operations().RefreshWithResponse(ctx, contract.RefreshToken{RefreshToken: c.tokens.Refresh})
	if err != nil {
		return "", fmt.Errorf("api: renew the session: %w", err)
	}
	if err := Refused(answer.HTTPResponse, answer.Body); err != nil {
		return "", err
	}
	t := answer.JSON200
	if t == nil {
		return "", notJSON(answer.HTTPResponse)
	}
	return t.AccessToken, c.set(Tokens{Access: t.AccessToken, AccessExpires: t.AccessExpiresAt, Refresh: t.RefreshToken, RefreshExpires: t.RefreshExpiresAt})
}

// Do sends a request with the session's token, body as JSON where it is not nil, and decodes the answer
// into v where it is not nil. It answers the response's headers. Errors: *Problem.
func (c *Client) Do(ctx context.Context, method, path string, body, v any) (http.Header, error) {
	token, err := c.Token(ctx)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, method, path, token, body, v)
}

// Get is Do without a body.
func (c *Client) Get(ctx context.Context, path string, v any) error {
	_, err := c.Do(ctx, http.MethodGet, path, nil, v)
	return err
}

func (c *Client) send(ctx context.Context, method, path, token string, body, v any) (http.Header, error) {
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("api: %w", err)
		}
		reader = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, reader)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", bearer+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("api: %s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return response.Header, problemOf(response, raw)
	}
	if v != nil && len(raw) > 0 {
		if err := json.Unmarshal(raw, v); err != nil {
			return response.Header, fmt.Errorf("api: %s %s: %w", method, path, err)
		}
	}
	return response.Header, nil
}
