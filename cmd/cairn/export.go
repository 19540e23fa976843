package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/export"
	"github.com/cairnhq/cairn/domain"
)

// exportCmd writes a range of events for other tools.
type exportCmd struct {
	JSONL   string `help:"Write CloudEvents as JSON lines to this file; - is the standard output." name:"jsonl" placeholder:"FILE" xor:"form"`
	Parquet string `help:"Write rows of Parquet to this file." placeholder:"FILE" xor:"form"`
	Since   string `help:"Only events from this time on: 2026-11-30, or 2026-11-30T18:45:00Z."`
	Until   string `help:"Only events before this time."`
	Scope   string `help:"Only of this scope."`
	Type    string `help:"Only of this type, or of types that begin with it."`
}

// Run exports. A file is there when it is complete, or not at all.
func (e exportCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	o, err := e.options(c)
	if err != nil {
		return err
	}
	attached, _, err := config.Attach()
	if err != nil {
		return err
	}
	if e.JSONL == "-" {
		o.Out = export.Lines(c.out)
		_, err := app.Export(ctx, attached, o)
		return err
	}
	path, sink := e.JSONL, export.Lines
	if e.Parquet != "" {
		path, sink = e.Parquet, export.Parquet
	}
	n, err := e.file(path, func(to io.Writer) (int64, error) {
		o.Out = sink(to)
		return app.Export(ctx, attached, o)
	})
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if c.json {
		return printJSON(c.out, map[string]any{"file": path, "events": n})
	}
	fmt.Fprintf(c.out, "%d events in %s\n", n, path)
	return nil
}

func (e exportCmd) options(c *console) (export.Options, error) {
	o := export.Options{Scope: domain.Scope(e.Scope), Type: e.Type, Progress: progress(c)}
	if e.JSONL == "" && e.Parquet == "" {
		return o, errors.New("say where to: --jsonl FILE or --parquet FILE")
	}
	if e.Scope != "" && !o.Scope.Valid() {
		return o, fmt.Errorf("%q is no scope: one looks like user-… or org-…", e.Scope)
	}
	for text, to := range map[*string]*time.Time{&e.Since: &o.Since, &e.Until: &o.Until} {
		if err := parseTime(*text, to); err != nil {
			return o, err
		}
	}
	if !o.Until.IsZero() && !o.Since.Before(o.Until) {
		return o, errors.New("--since must be before --until")
	}
	return o, nil
}

func parseTime(text string, to *time.Time) error {
	if text == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			*to = t
			return nil
		}
	}
	return fmt.Errorf("%q is no time: write 2026-11-30, or 2026-11-30T18:45:00Z", text)
}

// file writes a file beside its place, and puts it there when it is complete.
func (e exportCmd) file(path string, write func(io.Writer) (int64, error)) (int64, error) {
	if there, err := os.Lstat(path); err == nil && !there.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is there and no file that could be replaced: name another", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return 0, err
	}
	n, err := write(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return n, err
}

// progress says every second how far it is.
func progress(c *console) func(export.Progress) {
	last := time.Now()
	return func(p export.Progress) {
		if time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		fmt.Fprintf(c.err, "cairn: partition %d of %d, offset %d of %d, %d events\n", p.Partition+1, p.Partitions, p.Next, p.End, p.Events)
	}
}
