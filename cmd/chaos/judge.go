package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/cmd/chaos/load"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// restWithin is how long the installation may take, after the last fault and the last command, until nothing moves any more.
const restWithin = 3 * time.Minute

// judge waits until everything has come to rest, reads everything there is, and judges.
func judge(ctx context.Context, m *models, l *load.Load, recorder *history.Recorder, r *report, log *slog.Logger) error {
	s := m.stage
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		return err
	}
	var found []history.Fault
	rest := history.AtRest
	if err := settled(ctx, s); err != nil {
		rest = history.Running
		found = append(found, history.Fault{Law: history.OneOutcome, Detail: err.Error()})
	}
	log.Info("subscribers read to the end")
	level, done := context.WithTimeout(ctx, restWithin)
	err := l.Level(level)
	done()
	if err != nil {
		found = append(found, history.Fault{Law: history.Unbroken, Detail: err.Error()})
	}
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return err
	}
	log.Info("the log is read twice, and everything judged")
	var logs []*history.Log
	for range 2 {
		read, err := history.Read(ctx, s.Brokered())
		if err != nil {
			return err
		}
		logs = append(logs, read)
	}
	rows, err := l.Rows(ctx)
	if err != nil {
		return err
	}
	for _, wrong := range rows {
		found = append(found, history.Fault{Law: history.OneOutcome, Detail: wrong})
	}
	for _, open := range l.Undecided() {
		found = append(found, history.Fault{Law: history.Acknowledged, Detail: "never decided: " + open})
	}
	evidence := history.Evidence{History: recorder, Logs: logs, Invoked: byClients, Rest: rest, Effects: history.EffectsOf(schema)}
	log.Info("the feeds are waited for and read, and what was parked")
	if evidence.Feeds, err = history.ReadLevelFeeds(ctx, s.Brokered(), logs[1], restWithin); err != nil {
		return err
	}
	if evidence.Parked, err = history.ReadParked(ctx, s.Brokered()); err != nil { // nothing is meant to be
		return err
	}
	more, err := m.judge(ctx, evidence, schema)
	if err != nil {
		return err
	}
	evidence.Faults = append(found, more...)
	r.Verdict = history.Check(evidence)
	r.count(l, recorder, logs[1])
	r.Seconds, r.Notes, r.Laws = time.Since(r.Began).Seconds(), l.Notes(), map[string]int{}
	for _, law := range history.Laws() {
		r.Laws[string(law)] = len(r.Verdict.Broken(law))
	}
	if err := r.Verdict.Err(); err != nil {
		r.Faults = strings.Split(err.Error(), "\n")
	}
	r.ended(s.Ended())
	if r.unhealed != nil {
		r.Faults = append(r.Faults, "it did not heal: "+r.unhealed.Error())
	}
	return nil
}

// byClients tells the commands of this program's clients from those that the product gives itself: accounts and devices
// introduce themselves under ids of their own.
func byClients(c *streams.Commit) bool {
	var actor domain.Actor
	if err := json.Unmarshal(c.Actor, &actor); err != nil || actor.Kind != domain.ActorUser {
		return false
	}
	for _, e := range c.Events {
		if !strings.HasPrefix(e.Type, "thread.") {
			return false
		}
	}
	return len(c.Events) > 0 || c.Rejected != nil // a device that says nothing new changes nothing
}

// settled waits until no effect is open and no run goes on.
func settled(ctx context.Context, s *stage.Stage) error {
	conn, err := pgx.Connect(ctx, s.Database.Direct(migrations.Read.Name()))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only read
	limit := time.NewTimer(restWithin)
	defer limit.Stop()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		var effects, runs int
		if err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM open_effects), (SELECT count(*) FROM threads WHERE active_run IS NOT NULL)`).Scan(&effects, &runs); err != nil {
			return err
		}
		if effects+runs == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("%s after the last command %d effects are open and %d threads have an active run", restWithin, effects, runs)
		case <-tick.C:
		}
	}
}
