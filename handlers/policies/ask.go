package policies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// ask sends a command. A rejection is an answer like any other: the decider has looked. It has not where the release that
// can do this is not finalized yet: then the event waits. The writer may have said so, and says it of that id for ever: so
// the command has a row of ids, and the first of which it was not said is the one that counts, whoever asks again.
func (r *reactor) ask(ctx context.Context, e streams.Recorded, w Wish) error {
	first := commandID(r.policy.Name, e, w.For, 0)
	n, wait := r.again.next(first)
	if wait {
		return errNotYet
	}
	for ; ; n++ {
		answer, err := r.asker.Ask(ctx, streams.Command{
			Scope: e.Scope, ID: commandID(r.policy.Name, e, w.For, n), Actor: domain.Actor{Kind: domain.ActorPolicy, ID: r.policy.Name},
			CorrelationID: e.CorrelationID, CausationID: e.ID, Body: w.Body,
		})
		var rejected *domain.Rejection
		switch isRejected := errors.As(err, &rejected); {
		case isRejected && rejected.Code == domain.CodeNotYet:
			decided := answer.CommandID != "" // else it was not even sent
			if decided && answer.Repeated {
				continue
			}
			if decided {
				r.again.refused(first, n)
			}
			return fmt.Errorf("%w: %w", errNotYet, err)
		case isRejected, errors.Is(err, streams.ErrScopeErased), err == nil:
			r.again.forget(first)
			return nil
		default:
			return err
		}
	}
}

// errNotYet says that what follows from an event can't be written yet.
var errNotYet = errors.New("the upgrade is not finalized")

// commandID follows from the policy and the event, so that a repeat is known as one: the n-th of its row.
func commandID(policy string, e streams.Recorded, target string, n int) string {
	name := "policy:" + policy + ":" + e.ID + ":" + target
	if n > 0 {
		name += fmt.Sprint(":after:", n)
	}
	return streams.OwnID(e.Scope, name)
}

// refusals are commands that the writer could not write yet, by their first id. Each new try is a record in the log, and an
// upgrade may take days: so they are few. What is forgotten is found again by asking.
type refusals struct {
	every time.Duration // between two tries

	mu sync.Mutex
	of map[string]refusal
}

type refusal struct {
	n  int
	at time.Time
}

// next is the id of the row to ask under, if it is time to.
func (r *refusals) next(first string) (n int, wait bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.of[first]
	if !ok {
		return 0, false
	}
	return last.n + 1, time.Since(last.at) < r.every
}

func (r *refusals) refused(first string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= 1000 { // what partitions that others have now left behind
		r.of = map[string]refusal{}
	}
	r.of[first] = refusal{n: n, at: time.Now()}
}

func (r *refusals) forget(first string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, first)
}
