package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/doctor"
	"github.com/cairnhq/cairn/cmd/cairn/eventlog"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
)

// operating connects to what runs, and hands it to do.
func operating(ctx context.Context, config *app.Config, do func(*app.Operator) error) error {
	attached, _, err := config.Attach()
	if err != nil {
		return err
	}
	operator, err := app.Operate(ctx, attached)
	if err != nil {
		return err
	}
	defer operator.Close()
	return do(operator)
}

type eventsCmd struct {
	Tail   tailCmd   `cmd:"" help:"Print events as they stand in the log."`
	Export exportCmd `cmd:"" help:"Write a range of events to a file, for analytics: JSON lines or Parquet, without sealed content."`
	Prune  pruneCmd  `cmd:"" help:"Delete the history of threads that have been quiet for long from the read model of events. The log keeps it."`
}

type tailCmd struct {
	Scope  string `help:"Only of this scope."`
	Stream string `help:"Only of this stream."`
	Type   string `help:"Only of this type, or of types that begin with it."`
	OfRun  string `help:"Only of this run." name:"run"`
	Last   int    `help:"How many of the newest to print; 0: all." default:"20"`
	Follow bool   `help:"Go on with what comes." short:"f"`
	Sealed bool   `help:"Do not open sealed content."`
}

// Run prints them.
func (t tailCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if t.Scope != "" && !domain.Scope(t.Scope).Valid() {
		return fmt.Errorf("%q is no scope: one looks like user-… or org-…", t.Scope)
	}
	if t.Stream != "" && !domain.Stream(t.Stream).Valid() {
		return fmt.Errorf("%q is no stream: one looks like thread-…", t.Stream)
	}
	if t.Last < 0 {
		return errors.New("--last must be 0 or more")
	}
	attached, _, err := config.Attach()
	if err != nil {
		return err
	}
	return app.Tail(ctx, attached, t.Sealed, eventlog.Options{
		Scope: domain.Scope(t.Scope), Stream: domain.Stream(t.Stream), Type: t.Type, Run: t.OfRun,
		Last: t.Last, Follow: t.Follow, JSON: c.json, Out: c.out,
	})
}

type effectsCmd struct {
	List   effectsListCmd   `cmd:"" help:"The open effects."`
	Pause  effectsPauseCmd  `cmd:"" help:"Take no effects and fire no timers, in the whole installation."`
	Resume effectsResumeCmd `cmd:"" help:"Go on."`
}

type effectsListCmd struct {
	Scope string `help:"Only of this scope."`
	Limit int    `help:"At most so many." default:"100"`
}

// Run prints them.
func (e effectsListCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		paused, since, err := o.Work().Paused(ctx)
		if err != nil {
			return err
		}
		found, err := o.Effects(ctx, domain.Scope(e.Scope), e.Limit)
		if err != nil {
			return err
		}
		if c.json {
			for _, f := range found {
				if err := printJSON(c.out, f); err != nil {
					return err
				}
			}
			return nil
		}
		if paused {
			fmt.Fprintln(c.out, "Effects are paused since", since.UTC().Format(time.DateTime), "(go on with `cairn effects resume`).")
		}
		rows := make([][]any, len(found))
		for i, f := range found {
			rows[i] = []any{f.Scope, f.Kind, f.ID, f.Device, f.Started, f.Worker}
		}
		printTable(c.out, []string{"Scope", "Kind", "Effect", "Device", "Started", "Worker"}, rows)
		return nil
	})
}

type effectsPauseCmd struct{}

// Run pauses.
func (effectsPauseCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return switchEffects(ctx, config, c, true)
}

type effectsResumeCmd struct{}

// Run resumes.
func (effectsResumeCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return switchEffects(ctx, config, c, false)
}

func switchEffects(ctx context.Context, config *app.Config, c *console, pause bool) error {
	return operating(ctx, config, func(o *app.Operator) error {
		set, said := o.Work().Resume, "effects go on"
		if pause {
			set, said = o.Work().Pause, "effects are paused; what is in hand is finished"
		}
		if err := set(ctx); err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, map[string]bool{"paused": pause})
		}
		fmt.Fprintln(c.out, said)
		return nil
	})
}

type accountCmd struct {
	Tier  accountTierCmd  `cmd:"" help:"Move an account to a tier: free, pro, power, team."`
	Erase accountEraseCmd `cmd:"" help:"End an account and destroy its keys: its content can never be opened again."`
}

type accountTierCmd struct {
	Email string `arg:"" help:"The account's e-mail."`
	Tier  string `arg:"" help:"The tier." enum:"free,pro,power,team"`
}

// Run changes the tier.
func (a accountTierCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		user, err := o.ChangeTier(ctx, a.Email, account.Tier(a.Tier))
		if err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, map[string]string{"user": user, "tier": a.Tier})
		}
		fmt.Fprintf(c.out, "user-%s is on tier %s\n", user, a.Tier)
		return nil
	})
}

type accountEraseCmd struct {
	Email string `arg:"" help:"The account's e-mail."`
	Yes   bool   `help:"Do it. Nothing brings the content back."`
}

// Run erases.
func (a accountEraseCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if !a.Yes {
		return errors.New("erasing destroys the account's keys, and nothing brings its content back: repeat it with --yes")
	}
	return operating(ctx, config, func(o *app.Operator) error {
		user, err := o.Erase(ctx, a.Email)
		if err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, map[string]string{"user": user, "erased": "true"})
		}
		fmt.Fprintf(c.out, "user-%s is erased\n", user)
		return nil
	})
}

type keysCmd struct {
	Lost keysLostCmd `cmd:"" help:"Say that a scope's data key is lost for good: its content counts as erased, and its partition stops waiting."`
}

type keysLostCmd struct {
	Scope string `arg:"" help:"The scope."`
	Yes   bool   `help:"Do it. It can't be undone."`
}

// Run writes the tombstone.
func (k keysLostCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if !domain.Scope(k.Scope).Valid() {
		return fmt.Errorf("%q is no scope: one looks like user-… or org-…", k.Scope)
	}
	if !k.Yes {
		return errors.New("this can't be undone: repeat it with --yes")
	}
	return operating(ctx, config, func(o *app.Operator) error {
		if err := o.KeysLost(ctx, domain.Scope(k.Scope)); err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, map[string]string{"scope": k.Scope, "keys": "lost"})
		}
		fmt.Fprintf(c.out, "the keys of %s are given up\n", k.Scope)
		return nil
	})
}

type doctorCmd struct{}

// Run examines, and fails if there is a problem.
func (doctorCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	subject := doctor.Subject{
		Data: config.Data, MinFree: config.MinFree, Listen: config.Listen, Embedded: config.Embedded(),
		MasterKey: config.MasterKey, MasterKeyFile: config.MasterKeyFile, ModelURL: config.ModelURL, ModelKey: config.ModelKey,
	}
	attached, url, err := config.Attach()
	switch {
	case err == nil:
		subject.Serving = app.Answers(ctx, url)
		if subject.Running = subject.Serving || !config.Embedded(); subject.Running {
			subject.ReadDSN, subject.VaultDSN, subject.Topics = attached.DatabaseURL, attached.VaultURL, attached.CheckTopics
			subject.Vault = attached.CheckVault
		}
		if subject.Serving {
			subject.Listen = url
		}
	case !errors.Is(err, app.ErrNotRunning):
		return err
	}
	problems := 0
	var rows [][]any
	for _, f := range doctor.Examine(ctx, subject) {
		if f.Status == doctor.Bad {
			problems++
		}
		if c.json {
			if err := printJSON(c.out, f); err != nil {
				return err
			}
			continue
		}
		detail := f.Detail
		if f.Mend != "" {
			detail += "\n→ " + f.Mend
		}
		rows = append(rows, []any{f.Check, f.Status, detail})
	}
	if !c.json {
		printTable(c.out, []string{"Check", "Status", "Finding"}, rows)
	}
	if problems == 1 {
		return errors.New("1 problem")
	}
	if problems > 0 {
		return fmt.Errorf("%d problems", problems)
	}
	return nil
}
