package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/streams/kafka"
)

type parkedCmd struct {
	List   parkedListCmd   `cmd:"" help:"What is parked."`
	Show   parkedShowCmd   `cmd:"" help:"One item, with its content."`
	Replay parkedReplayCmd `cmd:"" help:"Try an item again; what comes of it ends the item."`
	Drop   parkedDropCmd   `cmd:"" help:"Give an item up."`
}

// parkedView is an item for programs.
type parkedView struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"` // command or event
	Scope     string    `json:"scope,omitempty"`
	CommandID string    `json:"command_id,omitempty"`
	Policy    string    `json:"policy,omitempty"`
	EventID   string    `json:"event_id,omitempty"`
	EventType string    `json:"event_type,omitempty"`
	Reason    string    `json:"reason"`
	Era       int       `json:"era"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	ParkedAt  time.Time `json:"parked_at"`
	// State is parked, replayed or dropped; then EndedAt and Why.
	State   string          `json:"state"`
	EndedAt *time.Time      `json:"ended_at,omitempty"`
	Why     string          `json:"why,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
}

func viewParked(i kafka.ParkedItem) parkedView {
	v := parkedView{
		ID: i.ID, Kind: "command", Scope: string(i.Scope), CommandID: i.CommandID, Policy: i.Policy, EventID: i.EventID, EventType: i.EventType,
		Reason: oneLine(errors.New(i.Reason)), Era: i.Era, Partition: i.Partition, Offset: i.Offset, ParkedAt: i.At, State: "parked", Why: i.EndWhy,
	}
	if i.Policy != "" {
		v.Kind = "event"
	}
	if i.End != "" {
		v.State, v.EndedAt = i.End, &i.EndAt
	}
	return v
}

type parkedListCmd struct {
	All bool `help:"Also what was replayed or dropped."`
}

// Run prints them.
func (p parkedListCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		items, err := o.Parked(ctx)
		if err != nil {
			return err
		}
		var rows [][]any
		for _, i := range items {
			v := viewParked(i)
			if v.State != "parked" && !p.All {
				continue
			}
			if c.json {
				if err := printJSON(c.out, v); err != nil {
					return err
				}
				continue
			}
			what := v.CommandID
			if v.Kind == "event" {
				what = fmt.Sprintf("%s %s, for %s", v.EventType, v.EventID, v.Policy)
			}
			rows = append(rows, []any{v.ID, v.ParkedAt.Format(time.DateTime), v.Kind, v.Scope, what, short(v.Reason), v.State})
		}
		if !c.json && len(rows) == 0 {
			fmt.Fprintln(c.out, "nothing is parked")
		} else if !c.json {
			printTable(c.out, []string{"Item", "Parked (UTC)", "Kind", "Scope", "What", "Reason", "State"}, rows)
		}
		return nil
	})
}

// short is the beginning of a reason, which may hold a stack.
func short(reason string) string {
	const most = 120
	if r := []rune(reason); len(r) > most {
		return string(r[:most]) + "…"
	}
	return reason
}

type parkedShowCmd struct {
	Item   string `arg:"" help:"The item, as the list names it."`
	Sealed bool   `help:"Do not open sealed content."`
}

// Run prints it.
func (p parkedShowCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		show := o.ShowParked
		if p.Sealed {
			show = o.ShowParkedSealed
		}
		item, content, err := show(ctx, p.Item)
		if err != nil {
			return err
		}
		v := viewParked(item)
		v.Content = content
		if c.json {
			return printJSON(c.out, v)
		}
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fmt.Errorf("print item %s: %w", v.ID, err)
		}
		fmt.Fprintln(c.out, string(text))
		return nil
	})
}

type parkedReplayCmd struct {
	Item string `arg:"" help:"The item, as the list names it."`
}

// Run tries it again.
func (p parkedReplayCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		outcome, err := o.ReplayParked(ctx, p.Item)
		if err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, map[string]string{"id": p.Item, "state": kafka.EndReplayed, "why": outcome})
		}
		fmt.Fprintln(c.out, outcome)
		return nil
	})
}

type parkedDropCmd struct {
	Item   string `arg:"" help:"The item, as the list names it."`
	Reason string `help:"Why, for whoever asks later." required:""`
}

// Run gives it up.
func (p parkedDropCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if strings.TrimSpace(p.Reason) == "" {
		return errors.New("nothing was dropped: say why with --reason")
	}
	return operating(ctx, config, func(o *app.Operator) error {
		if err := o.DropParked(ctx, p.Item, p.Reason); err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, map[string]string{"id": p.Item, "state": kafka.EndDropped, "why": p.Reason})
		}
		fmt.Fprintln(c.out, p.Item, "is dropped")
		return nil
	})
}
