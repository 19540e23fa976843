package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// Commands that nobody decided before the close are decided in the new log, once, although the old writer still runs
// and their senders repeat them.
func TestMigrateCarriesUndecidedCommands(t *testing.T) {
	from := newSite(t, 1, 1, memory.NewKeys())
	from.live(20)
	schema := release(t, 1, 1)
	for i := range 10 {
		e := envelope("user-late", fmt.Sprint("late ", i), add{Tally: "t", By: 1})
		value, err := schema.EncodeCommand(t.Context(), from.keys, e)
		if err != nil {
			t.Fatal(err)
		}
		from.produce(&kgo.Record{Topic: from.config.Topics.Commands(), Key: []byte(e.Scope), Headers: kafka.CommandHeaders(e.Scope, e.ID), Value: value})
	}
	to := newSite(t, 3, 2, from.keys)
	done, err := migrate(from, to)
	if err != nil {
		t.Fatal(err)
	}
	if done.Commands != 10 {
		t.Errorf("%d undecided commands were copied", done.Commands)
	}
	_, stopOld := from.writer() // it must not decide them too
	defer stopOld()
	ask, stop := to.writer()
	defer stop()
	for i := range 10 {
		body := add{Tally: "t", By: 1}
		c := wish("user-late", fmt.Sprint("late ", i), body)
		plain, err := schema.Plain(body)
		if err != nil {
			t.Fatal(err)
		}
		c.Request = plain
		if answer := mustAsk(t, ask, c); answer.Position.Position != uint64(i+1) {
			t.Errorf("command %d was answered %+v", i, answer)
		}
	}
	if n := len(to.counted()["user-late"]); n != 10 {
		t.Errorf("%d commits for 10 commands", n)
	}
	if n := len(from.counted()["user-late"]); n != 0 {
		t.Errorf("the old log went on: %d commits", n)
	}
}

// While writers decide, a close ends them for good: what was acknowledged before is copied, nothing after it counts.
func TestMigrateClosesUnderLoad(t *testing.T) {
	from := newSite(t, 2, 1, memory.NewKeys())
	ask, stop := from.writer()
	acknowledged := make(chan []string)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := make(chan struct{})
	go func() {
		var ids []string
		for i := 0; ctx.Err() == nil; i++ {
			short, end := context.WithTimeout(ctx, 500*time.Millisecond)
			c := wish(lastOf(from.config.Topics, int32(i%2)), fmt.Sprint(i), add{Tally: "t", By: 1})
			if answer, err := ask.Ask(short, c); err == nil {
				ids = append(ids, answer.CommandID)
			}
			end()
			if i == 20 {
				close(begun)
			}
		}
		acknowledged <- ids
	}()
	<-begun
	to := newSite(t, 3, 2, from.keys)
	done, err := migrate(from, to)
	if err != nil {
		t.Fatal(err)
	}
	more := time.NewTimer(time.Second) // the old writer goes on trying
	<-more.C
	cancel()
	ids := <-acknowledged
	stop()
	has := map[string]bool{}
	for p := range to.config.Topics.N() {
		for _, r := range to.read(to.config.Topics.Log(), p) {
			for _, h := range r.Headers {
				if h.Key == kafka.HeaderCommandID {
					has[string(h.Value)] = true
				}
			}
		}
	}
	for _, id := range ids {
		if !has[id] {
			t.Errorf("the acknowledged command %s is not in the new log", id)
		}
	}
	if int64(len(ids)) > done.Commits || len(ids) < 20 {
		t.Errorf("%d acknowledged, %d migrated", len(ids), done.Commits)
	}
}

// A migration that was interrupted is refused on the topics that it left half full, and succeeds on empty ones. Topics of
// a wrong era are refused, and readers tell whether a checkpoint belongs to their topics.
func TestMigrateInterruptedRunsAgain(t *testing.T) {
	from := newSite(t, 1, 1, memory.NewKeys())
	from.live(60)
	was := from.counted()
	half := newSite(t, 2, 2, from.keys)
	m := &kafka.Migration{From: from.config, To: half.config}
	if err := m.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed, err := m.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m.Progress = func(p kafka.Progress) {
		if p.Phase == "verify" {
			cancel()
		}
	}
	if _, err := m.Copy(ctx, closed); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	if _, err := migrate(from, half); !errors.Is(err, kafka.ErrNotEmpty) {
		t.Fatalf("into the topics of an interrupted migration: %v", err)
	}
	if _, err := migrate(from, newSite(t, 2, 3, from.keys)); err == nil {
		t.Fatal("a migration into era 3 from era 1 was begun")
	}
	to := newSite(t, 2, 2, from.keys)
	if _, err := migrate(from, to); err != nil {
		t.Fatal(err)
	}
	compareScopes(t, was, to.counted())

	old, err := from.config.Stored(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for p := range to.config.Topics.N() {
		now, err := to.config.Stored(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.config.Topics.CheckEra("it", p, now); err != nil {
			t.Error(err)
		}
		if err := from.config.Topics.CheckEra("it", p, now); !errors.Is(err, kafka.ErrMigrated) {
			t.Errorf("a new checkpoint on the old topics: %v", err)
		}
	}
	if err := to.config.Topics.CheckEra("it", 0, old); !errors.Is(err, kafka.ErrNotMigrated) {
		t.Errorf("an old checkpoint on the new topics: %v", err)
	}
	again := newSite(t, 5, 3, from.keys)
	if _, err := migrate(to, again); err != nil {
		t.Fatalf("on to era 3: %v", err)
	}
	compareScopes(t, was, again.counted())
}

// What a slow reader had not read yet comes last in the new log, behind one place, and all of it does.
func TestMigratePutsTheRestLast(t *testing.T) {
	from := newSite(t, 2, 1, memory.NewKeys())
	from.live(60)
	m := &kafka.Migration{From: from.config, Last: []int64{30, 5}}
	closed, err := m.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := map[string]bool{}
	for p := range from.config.Topics.N() {
		a := streams.NewAcceptance()
		for _, r := range from.read(from.config.Topics.Log(), p) {
			if mark, err := kafka.MarkOf(r.Headers); err == nil {
				var counts bool
				if a, counts = a.Accept(mark); counts && mark.Sort == streams.SortCommit && r.Offset >= m.Last[p] {
					late[commandOf(r)] = true
				}
			}
		}
	}
	to := newSite(t, 3, 2, from.keys)
	m.To = to.config
	if err := m.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	done, err := m.Copy(t.Context(), closed)
	if err != nil {
		t.Fatal(err)
	}
	for q := range to.config.Topics.N() {
		for _, r := range to.read(to.config.Topics.Log(), q) {
			if id := commandOf(r); id != "" && late[id] != (r.Offset >= done.Last[q]) {
				t.Errorf("command %s lies at %d of partition %d, and what comes last begins at %d", id, r.Offset, q, done.Last[q])
			}
		}
	}
	compareScopes(t, from.counted(), to.counted())
}

func commandOf(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == kafka.HeaderCommandID {
			return string(h.Value)
		}
	}
	return ""
}

// A voided record is carried with its void, or without its events where it can't be read at all.
func TestMigrateCarriesVoids(t *testing.T) {
	from := newSite(t, 1, 1, memory.NewKeys())
	from.live(10)
	p := newPen(t, from.config)
	records := from.read(from.config.Topics.Log(), 0)
	a := streams.NewAcceptance()
	for _, r := range records {
		if m, err := kafka.MarkOf(r.Headers); err == nil {
			a, _ = a.Accept(m)
		}
	}
	p.takeLead(a.Lead+1, penWriter)
	p.after = a.After
	c := command("user-u1", "defect", "free")
	leap := p.commit(c, a.After.Offset, nil, 1000)
	leap.Events[0].Stream, leap.Events[0].Type, leap.Events[0].Data = "tally-t1", "tally.added", []byte(`{"by":1}`)
	p.write(leap)
	torn := p.commit(c, a.After.Offset, nil, 1001)
	torn.After = streams.CommandPlace{Era: 1, Offset: a.After.Offset}
	p.append(from.config.Topics.Log(), kafka.CommitHeaders(torn, 1001), []byte("torn"))

	var defect *kafka.Defect
	if _, err := migrate(from, newSite(t, 2, 2, from.keys)); !errors.As(err, &defect) {
		t.Fatalf("a log with a defect: %v", err)
	}
	from.voids[0] = map[int64]bool{int64(len(records)) + 1: true, int64(len(records)) + 2: true}
	to := newSite(t, 2, 2, from.keys)
	done, err := migrate(from, to)
	if err != nil {
		t.Fatal(err)
	}
	if len(done.Voids) != 1 || done.Voids[0].From.Offset != int64(len(records))+1 {
		t.Errorf("voids were carried as %+v", done.Voids)
	}
	checkChains(t, to)
	ask, stop := to.writer()
	defer stop()
	if answer := mustAsk(t, ask, wish("user-u1", "after", add{Tally: "t1", By: 1})); answer.Position.Position > 100 {
		t.Errorf("after the void: %+v", answer)
	}
	checkChains(t, to)
}
