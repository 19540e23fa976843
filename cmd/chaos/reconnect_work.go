package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// work asks the installation's writers, past its HTTP interface: this machine is to spend its time on what is judged.
type work struct {
	stage  *stage.Stage
	asker  *kafka.Asker
	states *writerstates.States

	pools   []*pgxpool.Pool
	stop    context.CancelFunc
	running sync.WaitGroup
}

func openWork(ctx context.Context, s *stage.Stage) (*work, error) {
	w := &work{stage: s}
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stop = stop
	for _, which := range []migrations.Database{migrations.Read, migrations.Vault} {
		pool, err := pgxpool.New(life, s.Database.Direct(which.Name()))
		if err != nil {
			w.close()
			return nil, err
		}
		w.pools = append(w.pools, pool)
	}
	w.states = writerstates.New(w.pools[0])
	keys := vault.Open(w.pools[1], s.Master(), time.Now)
	if w.asker, err = kafka.NewAsker(kafka.AskerConfig{Config: s.Brokered(), Schema: schema, Keys: keys, States: w.states}); err != nil {
		w.close()
		return nil, err
	}
	w.running.Go(func() { _ = keys.Run(life) })
	w.running.Go(func() { _ = w.asker.Run(life) }) // that it has stopped is seen by what it answers
	return w, w.asker.Ready(ctx)
}

func (w *work) close() {
	w.stop()
	w.running.Wait()
	for _, pool := range w.pools {
		pool.Close()
	}
}

// person is a user with a session.
type person struct {
	url, email string
	scope      domain.Scope

	mu      sync.Mutex
	session *api.Client
}

func newPerson(ctx context.Context, url string, n int) (*person, error) {
	p := &person{url: url, email: fmt.Sprintf("person%d@example.com", n), session: api.New(url)}
	account, err := p.session.Register(ctx, p.email, "a long enough password")
	p.scope = domain.Scope(account.Scope)
	return p, err
}

// token is one for a handshake. A session that is not taken any more is begun anew.
func (p *person) token(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	token, err := p.session.Token(ctx)
	var no *api.Problem
	if err == nil || !errors.As(err, &no) {
		return token, err
	}
	fresh := api.New(p.url)
	if _, err := fresh.Login(ctx, p.email, "a long enough password"); err != nil {
		return "", err
	}
	p.session = fresh
	return p.session.Token(ctx)
}

// later begins a session by the servers' clocks as they are now.
func (p *person) later(ctx context.Context) error {
	fresh := api.New(p.url)
	if _, err := fresh.Login(ctx, p.email, "a long enough password"); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = fresh
	return nil
}
