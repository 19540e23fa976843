package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/handlers/policies"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Parked is what could not be handled, the oldest first, with what became of it.
func (o *Operator) Parked(ctx context.Context) ([]kafka.ParkedItem, error) {
	config, err := o.config.kafka()
	if err != nil {
		return nil, err
	}
	return config.ReadParked(ctx)
}

// ShowParked is one item, and what it says, opened. What can't be read is shown as the bytes that it is.
func (o *Operator) ShowParked(ctx context.Context, id string) (item kafka.ParkedItem, content json.RawMessage, err error) {
	item, sealed, err := o.ShowParkedSealed(ctx, id)
	if err != nil || len(item.Value) == 0 {
		return item, sealed, err
	}
	content, err = o.open(ctx, item)
	switch {
	case err == nil:
		return item, content, nil
	case errors.Is(err, codec.ErrUndecodable), errors.Is(err, codec.ErrUnknownType):
		return item, sealed, nil
	default:
		return item, nil, fmt.Errorf("%w (or show it as it is with --sealed)", err)
	}
}

// ShowParkedSealed is one item as it is, which needs no keys.
func (o *Operator) ShowParkedSealed(ctx context.Context, id string) (item kafka.ParkedItem, content json.RawMessage, err error) {
	config, err := o.config.kafka()
	if err != nil {
		return item, nil, err
	}
	if item, err = config.Parked(ctx, id); err != nil {
		return item, nil, err
	}
	if json.Valid(item.Value) {
		return item, item.Value, nil
	}
	content, err = json.Marshal(item.Value)
	return item, content, err
}

// open is the body of a parked command or event.
func (o *Operator) open(ctx context.Context, item kafka.ParkedItem) (json.RawMessage, error) {
	if err := o.openVault(ctx); err != nil {
		return nil, err
	}
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return nil, err
	}
	if item.Policy == "" {
		command, err := schema.DecodeCommand(ctx, o.vault, item.Value)
		if err != nil {
			return nil, err
		}
		return schema.Plain(command.Body)
	}
	event, err := policies.Opened(ctx, schema, o.vault, item)
	if err != nil {
		return nil, err
	}
	return event, nil
}

// ErrEnded says that an item was replayed or dropped already.
var ErrEnded = errors.New("this was replayed or dropped already")

// ReplayParked tries an item again: a command is asked for under a new id, since its own was rejected for good; a policy
// looks at its event once more. What comes of it ends the item. Of two replays at once the command is decided once.
func (o *Operator) ReplayParked(ctx context.Context, id string) (outcome string, err error) {
	config, item, err := o.parked(ctx, id)
	if err != nil {
		return "", err
	}
	err = o.asking(ctx, func(schema *codec.Schema, asker streams.Asker) error {
		if item.Policy != "" {
			outcome = "the policy " + item.Policy + " has handled the event"
			all := allPolicies(runs.New(projections.NewDB(o.read)), projections.NewWaiter(o.read))
			return policies.Replay(ctx, all, schema, asker, item)
		}
		command, err := schema.DecodeCommand(ctx, o.vault, item.Value)
		if err != nil {
			return fmt.Errorf("the command can't be read by this release: %w", err)
		}
		answer, err := asker.Ask(ctx, streams.Command{
			Scope: command.Scope, ID: streams.OwnID(command.Scope, "replay:"+item.ID), Actor: command.Actor,
			CorrelationID: command.CorrelationID, CausationID: command.ID, Body: command.Body,
		})
		var no *domain.Rejection
		switch {
		case errors.As(err, &no):
			outcome = "the command was rejected: " + no.Code + ": " + no.Reason
			return nil
		case err != nil:
			return err
		}
		outcome = fmt.Sprintf("the command was accepted, and its scope stands at position %d", answer.Position.Position)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("replay %s: %w (it stays parked)", id, err)
	}
	return outcome, config.EndParked(ctx, item, kafka.EndReplayed, outcome)
}

// DropParked gives an item up.
func (o *Operator) DropParked(ctx context.Context, id, why string) error {
	config, item, err := o.parked(ctx, id)
	if err != nil {
		return err
	}
	return config.EndParked(ctx, item, kafka.EndDropped, why)
}

// parked finds an item that has not ended.
func (o *Operator) parked(ctx context.Context, id string) (kafka.Config, kafka.ParkedItem, error) {
	config, err := o.config.kafka()
	if err != nil {
		return config, kafka.ParkedItem{}, err
	}
	item, err := config.Parked(ctx, id)
	if err == nil && item.End != "" {
		err = fmt.Errorf("%s: %w", id, ErrEnded)
	}
	return config, item, err
}

// asking gives do an asker of its own.
func (o *Operator) asking(ctx context.Context, do func(*codec.Schema, streams.Asker) error) error {
	if err := o.openVault(ctx); err != nil {
		return err
	}
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return err
	}
	config, err := o.config.kafka()
	if err != nil {
		return err
	}
	level, err := o.vault.FormatLevel(ctx)
	if err != nil {
		return err
	}
	config.Level = func() int { return level }
	states := writerstates.New(o.read)
	config.Stored = func(ctx context.Context, partition int32) (streams.Checkpoint, error) {
		found, err := states.Load(ctx, partition, streams.Lookup{})
		return found.Checkpoint, err
	}
	asker, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: o.vault, States: states})
	if err != nil {
		return err
	}
	life := newLifecycle(slog.New(slog.DiscardHandler))
	defer life.stop()
	life.start("asker", asker.Run)
	return do(schema, asker)
}
