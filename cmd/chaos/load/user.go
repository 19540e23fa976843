package load

import (
	"context"
	"sync"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/domain"
)

// user is a person with an account, and perhaps several clients at once.
type user struct {
	load  *Load
	email string
	scope domain.Scope

	mu      sync.Mutex
	session *api.Client
	threads []string  // that were told to exist
	past    []command // that were answered, to be repeated
}

const password = "a long enough password"

// register makes the account.
func (l *Load) register(ctx context.Context, email string) (*user, error) {
	u := &user{load: l, email: email, session: api.New(l.urls.API)}
	account, err := u.session.Register(ctx, email, password)
	if err != nil {
		return nil, err
	}
	u.scope = domain.Scope(account.Scope)
	return u, nil
}

func (u *user) token(ctx context.Context) (string, error) {
	u.mu.Lock()
	s := u.session
	u.mu.Unlock()
	return s.Token(ctx)
}

// enter logs in anew: the servers take the session for an old one, or one of the future.
func (u *user) enter(ctx context.Context) {
	fresh := api.New(u.load.urls.API)
	if _, err := fresh.Login(ctx, u.email, password); err != nil {
		return // the next answer brings it here again
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.session = fresh
}

// remember keeps what was answered, the newest of it.
func (u *user) remember(c command, t told) {
	const kept = 200
	u.mu.Lock()
	defer u.mu.Unlock()
	if t.ending == accepted && c.of == "" && t.thread != "" {
		u.threads = append(u.threads, t.thread)
	}
	u.past = append(u.past, c)
	if len(u.past) > kept {
		u.past = u.past[1:]
	}
}

// pick chooses one of what there is by a number from 0 to 1; ok is false where there is nothing.
func pick[T any](from []T, at float64) (one T, ok bool) {
	if len(from) == 0 {
		return one, false
	}
	return from[min(len(from)-1, int(at*float64(len(from))))], true
}

func (u *user) thread(at float64) (string, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return pick(u.threads, at)
}

func (u *user) earlier(at float64) (command, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return pick(u.past, at)
}
