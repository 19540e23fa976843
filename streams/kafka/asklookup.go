package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/cairnhq/cairn/streams"
)

// lookupBatch is how many ids are looked up in one statement at most.
const lookupBatch = 2048

// idLookup asks whether an id was decided before.
type idLookup struct {
	key    streams.CommandKey
	answer chan looked // holds one
}

// looked is the answer: the row, or the writer's checkpoint for which there is none.
type looked struct {
	row   *streams.AnswerRow
	known streams.CommandPlace
}

// look waits for the look-up of an id. While the database is away it waits, as long as the caller does.
func (a *Asker) look(ctx context.Context, w *asked, partition int32) (looked, error) {
	l := &idLookup{key: w.key, answer: make(chan looked, 1)}
	select {
	case a.lookups[partition] <- l:
	case <-ctx.Done():
		return looked{}, impatient(ctx)
	}
	select {
	case found := <-l.answer:
		return found, nil
	case <-w.done: // somebody else's command under the id was decided meanwhile
		return looked{}, nil
	case <-a.ended:
		return looked{}, errEnded
	case <-ctx.Done():
		return looked{}, impatient(ctx)
	}
}

// impatient is why a look-up was given up: the caller left, or the time is up.
func impatient(ctx context.Context) error {
	if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &streams.Busy{Reason: "the log or the database does not answer", RetryAfter: time.Second}
}

// lookUp serves the look-ups of a partition: all that have accumulated in one statement, without waiting for more.
func (a *Asker) lookUp(ctx context.Context, partition int32) error {
	queue := a.lookups[partition]
	for {
		var batch []*idLookup
		select {
		case l := <-queue:
			batch = append(batch, l)
		case <-ctx.Done():
			return ctx.Err()
		}
		for more := true; more && len(batch) < lookupBatch; {
			select {
			case l := <-queue:
				batch = append(batch, l)
			default:
				more = false
			}
		}
		what := streams.Lookup{Commands: make([]streams.CommandKey, len(batch))}
		for i, l := range batch {
			what.Commands[i] = l.key
		}
		snapshot, err := a.load(ctx, partition, what)
		if err != nil {
			return err
		}
		rows := make(map[streams.CommandKey]*streams.AnswerRow, len(snapshot.Answers))
		for i := range snapshot.Answers {
			r := &snapshot.Answers[i]
			rows[streams.CommandKey{Scope: r.Scope, ID: r.CommandID}] = r
		}
		for _, l := range batch {
			l.answer <- looked{row: rows[l.key], known: snapshot.Checkpoint.Acceptance.After}
		}
	}
}

// load asks the states until they answer. It ends with ctx only.
func (a *Asker) load(ctx context.Context, partition int32, what streams.Lookup) (streams.Snapshot, error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		snapshot, err := a.config.States.Load(one, partition, what)
		cancel()
		if err == nil {
			return snapshot, nil
		}
		if ctx.Err() != nil {
			return streams.Snapshot{}, ctx.Err()
		}
		a.config.log().Warn("looking up command ids failed; askers wait", "partition", partition, "ids", len(what.Commands), "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return streams.Snapshot{}, ctx.Err()
		}
	}
}
