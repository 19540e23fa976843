package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/backup"
)

// backupCmd copies an installation.
type backupCmd struct {
	Dir     string `arg:"" help:"A new folder for it." type:"path"`
	NoCheck bool   `help:"Do not read it again afterwards."`
}

// Run copies, and checks the copy.
func (b backupCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	installation, err := app.OpenAnywhere(ctx, *config, app.NewLog(quietly(*config), c.err))
	if err != nil {
		return err
	}
	defer installation.Close()
	began, progress := time.Now(), backup.NewProgress(c.err)
	var made backup.Manifest
	if err := installation.Do(ctx, func(ctx context.Context) error {
		made, err = backup.Take(ctx, b.Dir, backup.Source{Kafka: installation.Kafka, VaultURL: installation.VaultURL, Version: version}, progress)
		return err
	}); err != nil {
		return err
	}
	if b.NoCheck {
		return b.say(c, made, nil, time.Since(began))
	}
	found, err := backup.Check(ctx, b.Dir, progress)
	if err != nil {
		return err
	}
	return b.say(c, made, &found, time.Since(began))
}

func (b backupCmd) say(c *console, m backup.Manifest, found *backup.Found, took time.Duration) error {
	if c.json {
		out := map[string]any{"dir": b.Dir, "bytes": m.Bytes(), "seconds": took.Seconds(), "partitions": m.Partitions, "era": m.Era}
		if found != nil {
			describe(*found, out)
		}
		return printJSON(c.out, out)
	}
	fmt.Fprintf(c.out, "%s: %d KiB in %.1f s.\n", b.Dir, (m.Bytes()+1023)>>10, took.Seconds())
	if found != nil {
		sayFound(c, *found)
	}
	fmt.Fprintln(c.out, "It holds wrapped keys, which the master key opens: keep that elsewhere, and keep the copy for seven days at most, since an erased account's keys live on in it.")
	return nil
}

// restoreCmd puts a copy back.
type restoreCmd struct {
	Dir   string `arg:"" help:"The back-up." type:"existingdir"`
	Check bool   `help:"Only read the back-up and say what is in it."`
}

// Run restores.
func (r restoreCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	progress := backup.NewProgress(c.err)
	if r.Check {
		found, err := backup.Check(ctx, r.Dir, progress)
		if err != nil {
			return err
		}
		if c.json {
			out := map[string]any{"dir": r.Dir, "bytes": found.Manifest.Bytes()}
			describe(found, out)
			return printJSON(c.out, out)
		}
		sayFound(c, found)
		return nil
	}
	began := time.Now()
	found, err := r.refuse(ctx, *config, progress)
	if err != nil {
		return err
	}
	if err := config.BeginRestore(); err != nil {
		return err
	}
	installation, err := app.OpenHere(ctx, *config, app.NewLog(quietly(*config), c.err))
	if err != nil {
		if !app.HasData(config.Data) {
			return errors.Join(err, config.EndRestore()) // nothing was made
		}
		return err
	}
	defer installation.Close()
	var done backup.Restored
	if err := installation.Do(ctx, func(ctx context.Context) error {
		done, err = backup.Put(ctx, r.Dir, found, backup.Target{
			Kafka: installation.Kafka, ReadURL: installation.ReadURL, VaultURL: installation.VaultURL, Master: installation.Master,
		}, progress)
		return err
	}); err != nil {
		return err
	}
	if err := config.EndRestore(); err != nil {
		return err
	}
	done.Took = time.Since(began)
	return r.say(c, done)
}

// refuse looks at what would go wrong, before anything is made in the data directory.
func (r restoreCmd) refuse(ctx context.Context, config app.Config, progress *backup.Progress) (backup.Found, error) {
	m, err := backup.Read(r.Dir)
	if err != nil {
		return backup.Found{}, err
	}
	if err := config.Check(); err != nil {
		return backup.Found{}, err
	}
	if config.Embedded() && app.HasData(config.Data) {
		return backup.Found{}, fmt.Errorf("%w: there is data in %s: name another directory with CAIRN_DATA, or remove kafka and postgres there if a restore broke off", backup.ErrNotEmpty, config.Data)
	}
	master, err := config.Master()
	if err != nil {
		return backup.Found{}, err
	}
	topics, err := config.Topics()
	if err != nil {
		return backup.Found{}, err
	}
	if err := m.Fits(topics, master); err != nil {
		return backup.Found{}, err
	}
	return backup.Check(ctx, r.Dir, progress)
}

func (r restoreCmd) say(c *console, done backup.Restored) error {
	if c.json {
		out := map[string]any{
			"dir": r.Dir, "seconds": done.Took.Seconds(), "effects": "paused", "erasures_applied": done.Erased,
			"registrations_unfinished": done.Unfinished, "tiers_set_back": done.Tiers,
		}
		describe(done.Found, out)
		return printJSON(c.out, out)
	}
	fmt.Fprintf(c.out, "Restored and read back in %.1f s.\n", done.Took.Seconds())
	sayFound(c, done.Found)
	if done.Erased > 0 {
		fmt.Fprintf(c.out, "%d erasures of the log were applied to the vault again.\n", done.Erased)
	}
	if done.Unfinished > 0 {
		fmt.Fprintf(c.out, "%d accounts are younger than the log of the copy: their next log-in makes them again, empty.\n", done.Unfinished)
	}
	if done.Tiers > 0 {
		fmt.Fprintf(c.out, "%d accounts are on the tier again that the log gives them.\n", done.Tiers)
	}
	fmt.Fprintln(c.out, "Start it: the read models are filled from the log. Effects and timers are paused, since the world may have seen what the copy has not:\nlook at `cairn effects list`, then `cairn effects resume`.")
	return nil
}

func sayFound(c *console, f backup.Found) {
	fmt.Fprintf(c.out, "As of %s: %d events of %d scopes in %d commits, %d of them rejections; %d accounts, %d erased.\n",
		f.Manifest.MadeAt.Format(time.DateTime), f.Log.Events, f.Log.Scopes(), f.Log.Commits, f.Log.Rejections,
		f.Log.Accounts(), f.Log.Erased())
	for _, defect := range f.Log.Defects {
		fmt.Fprintln(c.out, "The log itself is not what a writer may write:", defect)
	}
}

func describe(f backup.Found, out map[string]any) {
	out["made_at"], out["events"], out["commits"], out["rejections"] = f.Manifest.MadeAt, f.Log.Events, f.Log.Commits, f.Log.Rejections
	out["scopes"], out["accounts"], out["erased"], out["defects"] = f.Log.Scopes(), f.Log.Accounts(), f.Log.Erased(), f.Log.Defects
}

// quietly is a configuration in which only what is wrong is logged: the command itself says what it does.
func quietly(config app.Config) app.Config {
	if config.LogLevel == "info" {
		config.LogLevel = "warn"
	}
	return config
}
