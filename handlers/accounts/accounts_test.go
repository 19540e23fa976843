package accounts_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/memory"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const (
	email    = "ann@example.com"
	password = "correct horse"
)

// world is a vault in Postgres, and a log in memory that can break off before or after it decided.
type world struct {
	*accounts.Accounts
	pool   *pgxpool.Pool
	vault  *vault.Vault
	log    *memory.Asker
	master []byte
	shift  atomic.Int64
	before atomic.Bool // the next command is not decided, and nobody knows
	after  atomic.Bool // the next command is decided, and nobody knows
}

func newWorld(t *testing.T) *world {
	t.Helper()
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{pool: pgtest.Vault(t), master: bytes.Repeat([]byte{5}, vault.MasterKeySize)}
	w.vault = vault.Open(w.pool, w.master, w.now)
	w.log = memory.NewAsker(schema, w.vault, w.now)
	w.Accounts = w.service(w.master)
	return w
}

func (w *world) service(master []byte) *accounts.Accounts {
	return accounts.New(accounts.Config{
		Vault: w.vault, Asker: w, Master: master, Now: w.now, Cost: accounts.Cost{MemoryKiB: 64, Passes: 1, Lanes: 1}, Hashes: 4,
	})
}

func (w *world) now() time.Time {
	return time.Date(2026, 11, 30, 12, 0, 0, 500, time.UTC).Add(time.Duration(w.shift.Load()))
}

func (w *world) later(d time.Duration) { w.shift.Add(int64(d)) }

// Ask implements streams.Asker.
func (w *world) Ask(ctx context.Context, c streams.Command) (streams.Answer, error) {
	if w.before.CompareAndSwap(true, false) {
		return streams.Answer{}, streams.ErrOutcomeUnknown
	}
	answer, err := w.log.Ask(ctx, c)
	if w.after.CompareAndSwap(true, false) {
		return streams.Answer{}, streams.ErrOutcomeUnknown
	}
	return answer, err
}

func (w *world) register(t *testing.T, email string) (accounts.Account, accounts.Tokens) {
	t.Helper()
	a, tokens, err := w.Register(t.Context(), email, password)
	if err != nil {
		t.Fatal(err)
	}
	return a, tokens
}

func (w *world) count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (w *world) events(kind string) (n int) {
	for _, r := range w.log.Recorded() {
		if r.Type == kind {
			n++
		}
	}
	return n
}

func TestRegisteredPeopleGetIn(t *testing.T) {
	w := newWorld(t)
	a, tokens := w.register(t, "  Ann@Example.COM ")
	if a.Scope != domain.User(a.UserID) || !a.Scope.Valid() || a.Tier != account.Free {
		t.Fatalf("account %+v", a)
	}
	p, err := w.Verify(tokens.Access)
	if err != nil || p.UserID != a.UserID || p.Scope != a.Scope || !p.ExpiresAt.Equal(tokens.AccessExpires) {
		t.Fatalf("principal %+v, %v", p, err)
	}
	if got, err := w.Me(t.Context(), p); err != nil || got != a {
		t.Fatalf("me is %+v, %v", got, err)
	}
	if again, _, err := w.Login(t.Context(), email, password, "192.0.2.1"); err != nil || again != a {
		t.Fatalf("logged in as %+v, %v", again, err)
	}
	var taken *accounts.Taken
	for _, pass := range []string{password, "another password"} {
		if _, _, err := w.Register(t.Context(), email, pass); !errors.As(err, &taken) {
			t.Fatalf("registered again: %v", err)
		}
	}
	if w.events("account.registered") != 1 {
		t.Fatal("not one account in the log")
	}
}

// Neither e-mail nor password stands anywhere in clear, in the vault or in the log.
func TestNothingPersonalIsStored(t *testing.T) {
	w := newWorld(t)
	w.register(t, email)
	var rows string
	if err := w.pool.QueryRow(t.Context(), `SELECT string_agg(c::text, ' ') FROM credentials c`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.log.Recorded() {
		rows += string(r.Data) + string(r.Actor) + string(r.Stream)
	}
	for _, secret := range []string{"ann@", "example.com", password} {
		if strings.Contains(strings.ToLower(rows), secret) {
			t.Errorf("%q stands in %s", secret, rows)
		}
	}
}

func TestBadRegistrationsAreRefusedInWords(t *testing.T) {
	w := newWorld(t)
	for _, c := range [][2]string{
		{"", password}, {"ann", password}, {"Ann <ann@example.com>", password}, {"a@b@c.d", password}, {"ann@example.com\n", "short"},
		{strings.Repeat("a", 300) + "@example.com", password}, {email, "1234567"}, {email, strings.Repeat("x", 2000)}, {email, "\xff\xfe\xff\xfe\xff\xfe\xff\xfe"}, {"\xff@x.y", password},
	} {
		var no *domain.Rejection
		if _, _, err := w.Register(t.Context(), c[0], c[1]); !errors.As(err, &no) || no.Code != domain.CodeInvalid {
			t.Errorf("%.20q with %.20q: %v", c[0], c[1], err)
		}
	}
	if n := w.count(t, "credentials"); n != 0 {
		t.Fatalf("%d credentials were stored", n)
	}
}

// Whatever races, an e-mail has one account, and everybody who got in got into that one.
func TestOneAccountPerEmail(t *testing.T) {
	w := newWorld(t)
	for _, same := range []bool{true, false} {
		who := email
		if !same {
			who = "bob@example.com"
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		var users []string
		for i := range 8 {
			all.Go(func() {
				pass := password
				if !same {
					pass = password + string(rune('a'+i))
				}
				a, _, err := w.Register(t.Context(), who, pass)
				var taken *accounts.Taken
				if err != nil && !errors.As(err, &taken) {
					t.Errorf("register: %v", err)
				}
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					users = append(users, a.UserID)
				}
			})
		}
		all.Wait()
		if len(users) == 0 || len(slices.Compact(users)) != 1 {
			t.Fatalf("got in as %v", users)
		}
		if !same && len(users) != 1 {
			t.Fatalf("%d passwords open one account", len(users))
		}
	}
	if n, m := w.count(t, "credentials"), w.events("account.registered"); n != 2 || m != 2 {
		t.Fatalf("%d credentials, %d accounts in the log", n, m)
	}
}

func TestABrokenOffRegistrationIsFinishedByRepeating(t *testing.T) {
	w := newWorld(t)
	for name, breaks := range map[string]*atomic.Bool{"before@example.com": &w.before, "after@example.com": &w.after} {
		breaks.Store(true)
		if _, _, err := w.Register(t.Context(), name, password); !errors.Is(err, streams.ErrOutcomeUnknown) {
			t.Fatalf("%s: %v", name, err)
		}
		// Nobody takes it over in between.
		var taken *accounts.Taken
		if _, _, err := w.Register(t.Context(), name, "another password"); !errors.As(err, &taken) {
			t.Fatalf("%s with another password: %v", name, err)
		}
		a, tokens := w.register(t, name)
		if p, err := w.Verify(tokens.Access); err != nil || p.UserID != a.UserID {
			t.Fatalf("%s: %+v, %v", name, p, err)
		}
		if _, _, err := w.Register(t.Context(), name, password); !errors.As(err, &taken) {
			t.Fatalf("%s after all: %v", name, err)
		}
	}
	// Logging in finishes it, too: that is what somebody tries who was told nothing.
	w.before.Store(true)
	if _, _, err := w.Register(t.Context(), "login@example.com", password); !errors.Is(err, streams.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	if _, _, err := w.Login(t.Context(), "login@example.com", password, "r"); err != nil {
		t.Fatal(err)
	}
	if n := w.events("account.registered"); n != 3 {
		t.Fatalf("%d accounts in the log", n)
	}
}

// An unknown e-mail costs as much as a wrong password, and both say the same.
func TestLoginDoesNotTellWhoExists(t *testing.T) {
	w := newWorld(t)
	// A cost that stands out, and several tries each in turns, so that the machine's moods cancel out.
	slow := accounts.New(accounts.Config{
		Vault: w.vault, Asker: w, Master: w.master, Now: w.now, Cost: accounts.Cost{MemoryKiB: 8 << 10, Passes: 3, Lanes: 1},
		EmailRate: accounts.Rate{Burst: 100, Every: time.Second}, RemoteRate: accounts.Rate{Burst: 1000, Every: time.Second},
	})
	if _, _, err := slow.Register(t.Context(), email, password); err != nil {
		t.Fatal(err)
	}
	took := map[string][]time.Duration{}
	for range 9 {
		for _, who := range []string{email, "nobody@example.com"} {
			start := time.Now()
			_, _, err := slow.Login(t.Context(), who, "wrong password", "r")
			took[who] = append(took[who], time.Since(start))
			if !errors.Is(err, accounts.ErrCredentials) || err.Error() != accounts.ErrCredentials.Error() {
				t.Fatalf("%s: %v", who, err)
			}
		}
	}
	// The least of several is what the work costs; without the hash it would be a tenth or less.
	known, unknown := slices.Min(took[email]), slices.Min(took["nobody@example.com"])
	if ratio := float64(unknown) / float64(known); ratio < 0.5 || ratio > 2 {
		t.Errorf("an unknown e-mail takes %v, a wrong password %v", unknown, known)
	}
	for _, c := range [][2]string{{"no e-mail", password}, {email, ""}, {email, strings.Repeat("x", 1<<20)}, {"nobody@example.com", password}} {
		if _, _, err := slow.Login(t.Context(), c[0], c[1], "r"); !errors.Is(err, accounts.ErrCredentials) {
			t.Errorf("%.20q: %v", c, err)
		}
	}
}

func TestLoginIsRateLimited(t *testing.T) {
	w := newWorld(t)
	w.register(t, email)
	try := func(who, remote string) error {
		_, _, err := w.Login(t.Context(), who, password, remote)
		return err
	}
	var busy *streams.Busy
	for range 10 {
		if err := try(email, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := try(email, "b"); !errors.As(err, &busy) || busy.RetryAfter <= 0 || busy.RetryAfter > 6*time.Second {
		t.Fatalf("the eleventh: %v", err)
	}
	if err := try("bob@example.com", "b"); !errors.Is(err, accounts.ErrCredentials) {
		t.Fatalf("another e-mail: %v", err)
	}
	w.later(busy.RetryAfter)
	if err := try(email, "b"); err != nil {
		t.Fatalf("after the time it was told: %v", err)
	}
	for i := range 100 {
		if err := try(strings.Repeat("x", i+1)+"@example.com", "one address"); errors.As(err, &busy) {
			if i < 50 {
				t.Fatalf("the address was stopped after %d", i)
			}
			return
		}
	}
	t.Fatal("one address may try for ever")
}

// More than may wait are told to come again, instead of piling up memory.
func TestConcurrentHashesAreBounded(t *testing.T) {
	w := newWorld(t)
	s := accounts.New(accounts.Config{
		Vault: w.vault, Asker: w, Master: w.master, Now: w.now, Cost: accounts.Cost{MemoryKiB: 16 << 10, Passes: 4, Lanes: 1}, Hashes: 1, Waiting: 1,
	})
	var all sync.WaitGroup
	var refused, decided atomic.Int32
	for range 12 {
		all.Go(func() {
			_, _, err := s.Login(t.Context(), "nobody@example.com", password, "r")
			var busy *streams.Busy
			switch {
			case errors.As(err, &busy):
				refused.Add(1)
			case errors.Is(err, accounts.ErrCredentials):
				decided.Add(1)
			default:
				t.Errorf("login: %v", err)
			}
		})
	}
	all.Wait()
	if refused.Load() == 0 || decided.Load() == 0 {
		t.Fatalf("%d refused, %d decided", refused.Load(), decided.Load())
	}
}

func TestTiersChange(t *testing.T) {
	w := newWorld(t)
	a, tokens := w.register(t, email)
	p, err := w.Verify(tokens.Access)
	if err != nil {
		t.Fatal(err)
	}
	for _, tier := range []account.Tier{account.Pro, account.Pro, account.Team, account.Free} {
		if err := w.ChangeTier(t.Context(), a.UserID, tier); err != nil {
			t.Fatal(err)
		}
		if me, err := w.Me(t.Context(), p); err != nil || me.Tier != tier {
			t.Fatalf("me is %+v, %v", me, err)
		}
	}
	if n := w.events("account.tier_changed"); n != 3 {
		t.Fatalf("%d changes in the log", n)
	}
	var no *domain.Rejection
	if err := w.ChangeTier(t.Context(), a.UserID, "gold"); !errors.As(err, &no) || no.Code != domain.CodeInvalid {
		t.Fatalf("an unknown tier: %v", err)
	}
	if err := w.ChangeTier(t.Context(), "nobody", account.Pro); !errors.As(err, &no) || no.Code != domain.CodeNotFound {
		t.Fatalf("an unknown user: %v", err)
	}
}
