package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// crowd is people with accounts and a past, who read and write over HTTP.
type crowd struct {
	client *http.Client
	url    string
	people []*person
	fixed  sync.Map // path -> the answer it had at first: what is past never changes
}

// person is an account.
type person struct {
	email, password string
	scope           domain.Scope
	token           atomic.Pointer[string]

	mu       sync.Mutex
	threads  []*spoken
	runs     []string         // of the past
	position streams.Position // of the newest acknowledged write
}

// spoken is a thread, and what is known of its title, a number that its person counts up.
type spoken struct {
	id   string
	past uint64 // its newest version when everything began

	writing sync.Mutex // one write at a time
	mu      sync.Mutex
	sent    int // newest title that was sent; -1: it has none
	acked   int // newest that was acknowledged
	seen    int // newest that an answer showed
	there   bool
}

// accountsInCrowd is how many accounts there are. Registering is limited to 30 at once from one address.
const accountsInCrowd = 24

func newCrowd() *crowd {
	return &crowd{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: inFlight}}}
}

// register makes the accounts, on the Cairn that serves url.
func (c *crowd) register(ctx context.Context, url string) error {
	c.url = url
	for range accountsInCrowd {
		p := &person{email: uuid.NewString() + "@example.com", password: uuid.NewString()}
		if err := c.enter(ctx, p, "/api/v1/accounts"); err != nil {
			return err
		}
		c.people = append(c.people, p)
	}
	return nil
}

// login lets everybody in again, on the Cairn that serves url.
func (c *crowd) login(ctx context.Context, url string) error {
	c.url = url
	for _, p := range c.people {
		if err := c.enter(ctx, p, "/api/v1/sessions"); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) enter(ctx context.Context, p *person, path string) error {
	var answer struct {
		Account struct{ Scope string }
		Token   string `json:"access_token"`
	}
	raw, _, err := c.do(ctx, p, http.MethodPost, path, map[string]string{"email": p.email, "password": p.password})
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil {
		return fmt.Errorf("bench: let a person in: %w", err)
	}
	p.scope = domain.Scope(answer.Account.Scope)
	p.token.Store(&answer.Token)
	return nil
}

// do sends a request and answers its body and position. Everything but a 2xx is an error.
func (c *crowd) do(ctx context.Context, p *person, method, path string, body any) (raw []byte, position string, err error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, "", err
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, reader)
	if err != nil {
		return nil, "", err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token := p.token.Load(); token != nil {
		request.Header.Set("Authorization", "Bearer "+*token)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	if raw, err = io.ReadAll(response.Body); err != nil {
		return nil, "", fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, "", fmt.Errorf("%s %s: %s: %s", method, path, response.Status, raw)
	}
	return raw, response.Header.Get("Position"), nil
}

// live makes the past: everybody talks in several threads at once until there are so many events.
func (c *crowd) live(ctx context.Context, asker streams.Asker, events int, say func(int64)) (int, error) {
	const together = 3 // threads of a person at a time
	var made atomic.Int64
	more := func(added uint64) bool {
		n := made.Add(int64(added))
		if n/100_000 > (n-int64(added))/100_000 {
			say(n)
		}
		return n < int64(events)
	}
	group, grouped := errgroup.WithContext(ctx)
	for _, p := range c.people {
		for range together {
			group.Go(func() error {
				for more(0) {
					t := newTalk(p.scope)
					if err := t.talkUntil(grouped, asker, ordinary, func(added uint64) bool { p.ran(t.run); return more(added) }); err != nil {
						return err
					}
					p.mu.Lock()
					p.threads = append(p.threads, &spoken{id: t.thread, past: t.version, sent: -1, acked: -1, seen: -1, there: true})
					p.mu.Unlock()
				}
				return nil
			})
		}
	}
	err := group.Wait()
	return int(made.Load()), err
}

func (p *person) ran(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs = append(p.runs, run)
}

func (c *crowd) anybody() *person { return c.people[rand.IntN(len(c.people))] }

func (p *person) thread() *spoken {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.threads[rand.IntN(len(p.threads))]
}

// written is one of the few threads that a person goes on with.
func (p *person) written() *spoken {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.threads[rand.IntN(min(4, len(p.threads)))]
}

// acknowledged notes where a write left the scope. It comes before the note of what was written: who looks at that first
// and then takes the position asks for a state that has it.
func (p *person) acknowledged(text string) error {
	position, err := streams.ParsePosition(text)
	if err != nil {
		return wrong("a write was answered with the position %q", text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if position.Position > p.position.Position {
		p.position = position
	}
	return nil
}

// write gives a thread its next title, or opens one.
func (c *crowd) write(ctx context.Context) error {
	p := c.anybody()
	if p.mayOpen() && rand.IntN(10) == 0 {
		return c.open(ctx, p)
	}
	t := p.written()
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	t.sent++
	n := t.sent
	t.mu.Unlock()
	_, position, err := c.do(ctx, p, http.MethodPatch, "/api/v1/threads/"+t.id, map[string]string{"title": strconv.Itoa(n)})
	if err != nil {
		return err
	}
	if err := p.acknowledged(position); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked = max(t.acked, n)
	return nil
}

// mostThreads keeps a person's list on one page.
const mostThreads = 180

func (p *person) mayOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.threads) < mostThreads
}

func (c *crowd) open(ctx context.Context, p *person) error {
	raw, position, err := c.do(ctx, p, http.MethodPost, "/api/v1/threads", map[string]string{"title": "0"})
	if err != nil {
		return err
	}
	var opened struct{ ID string }
	if err := json.Unmarshal(raw, &opened); err != nil || opened.ID == "" {
		return wrong("a thread was opened, and the answer is %s", raw)
	}
	if err := p.acknowledged(position); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.threads = append(p.threads, &spoken{id: opened.ID, seen: -1})
	return nil
}
