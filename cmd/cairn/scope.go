package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/holdings"
)

type scopeCmd struct {
	Show   scopeShowCmd   `cmd:"" help:"How much each table and topic holds of a scope. Opens nothing."`
	Export scopeExportCmd `cmd:"" help:"Write everything that is held of a scope into a folder, content opened, secrets left out."`
}

type scopeShowCmd struct {
	Scope string `arg:"" help:"A scope, or an account's e-mail."`
}

// Run shows.
func (s scopeShowCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		scope, err := o.FindScope(ctx, s.Scope)
		if err != nil {
			return err
		}
		found, err := o.ShowScope(ctx, scope, reading(c))
		if err != nil {
			return err
		}
		var rows [][]any
		for _, h := range found {
			if c.json {
				if err := printJSON(c.out, h); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, []any{h.In, h.Name, h.Count, kilobytes(h.Bytes)})
		}
		if !c.json {
			fmt.Fprintln(c.out, scope)
			printTable(c.out, []string{"In", "Name", "Rows or records", "KiB"}, rows)
		}
		return nil
	})
}

type scopeExportCmd struct {
	Scope  string `arg:"" help:"A scope, or an account's e-mail."`
	Dir    string `arg:"" help:"A folder that is not there yet." type:"path"`
	Sealed bool   `help:"Do not open sealed content."`
}

// Run exports.
func (s scopeExportCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		scope, err := o.FindScope(ctx, s.Scope)
		if err != nil {
			return err
		}
		export := o.ExportScope
		if s.Sealed {
			export = o.ExportScopeSealed
		}
		m, err := export(ctx, scope, s.Dir, reading(c))
		if err != nil {
			return fmt.Errorf("export %s: %w", scope, err)
		}
		if c.json {
			return printJSON(c.out, m)
		}
		var rows [][]any
		for _, f := range m.Files {
			rows = append(rows, []any{f.File, f.Count})
		}
		printTable(c.out, []string{"File", "Lines"}, rows)
		fmt.Fprintf(c.out, "Everything of %s is in %s. Left out, as secrets: %d columns of the vault (%s says which).\n",
			scope, s.Dir, len(m.Left), holdings.ManifestName)
		return nil
	})
}

func kilobytes(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(n)/1024)
}

// reading says every five seconds what is being read, and how far that is.
func reading(c *console) func(holdings.Progress) {
	last := time.Now()
	return func(p holdings.Progress) {
		if time.Since(last) < 5*time.Second {
			return
		}
		last = time.Now()
		if p.Total == 0 {
			fmt.Fprintf(c.err, "cairn: reading %s\n", p.Place)
			return
		}
		fmt.Fprintf(c.err, "cairn: reading %s, offset %d of %d\n", p.Place, p.Done, p.Total)
	}
}
