package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/chaos/reconnect"
	"github.com/cairnhq/cairn/streams"
)

const month = 30 * 24 * time.Hour

// month has those come back who left before the first write: by the servers' clocks a month later, and with the log's
// beginning deleted.
func (f *following) month(ctx context.Context, heads reconnect.Heads) error {
	if err := level(ctx, f.work.pools[0], f.stage.Partitions); err != nil {
		return err
	}
	f.log.Info("a month later", "clients", len(f.away))
	for _, c := range f.clients {
		f.offline(c)
	}
	for _, role := range []string{app.RoleAPI, app.RoleGateway} {
		for _, p := range f.stage.With(role) {
			p.Stop()
			if err := p.StartClocked(); err != nil {
				return err
			}
			if err := p.Shift(month); err != nil {
				return err
			}
		}
	}
	if err := f.trim(ctx); err != nil {
		return err
	}
	if err := f.stage.Ready(ctx); err != nil {
		return err
	}
	if err := pauseFor(ctx, time.Second); err != nil { // a clock is looked at every 50 ms
		return err
	}
	began := time.Now()
	for _, c := range f.away {
		c.Cease(heads.Positions[c.Scope], heads.Of(c.Scope)) // its device says hello anew
		if err := c.person.later(ctx); err != nil {
			return fmt.Errorf("log in a month later: %w", err)
		}
		f.online(ctx, c)
		f.report.Missed = max(f.report.Missed, heads.Positions[c.Scope])
	}
	f.level(ctx, f.away, heads)
	f.report.Month = time.Since(began).Seconds()
	return nil
}

// trim deletes what the log has up to the writers' stored checkpoints.
func (f *following) trim(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(f.stage.Kafka.Seeds()...))
	if err != nil {
		return err
	}
	defer client.Close()
	topic := f.stage.Topics().Log()
	to := kadm.Offsets{}
	for p := range f.stage.Partitions {
		at, err := f.work.states.Load(ctx, p, streams.Lookup{})
		if err != nil {
			return err
		}
		to.AddOffset(topic, p, at.Checkpoint.Next, -1)
	}
	deleted, err := kadm.NewClient(client).DeleteRecords(ctx, to)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("delete the beginning of the log: %w", err)
	}
	return nil
}
