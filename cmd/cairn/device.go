package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/chat"
	"github.com/cairnhq/cairn/cmd/cairn/errand"
)

type deviceCmd struct {
	List   deviceListCmd   `cmd:"" help:"Your devices, and whether they are online."`
	Query  deviceQueryCmd  `cmd:"" help:"Ask a device for rows of its own database."`
	Mutate deviceMutateCmd `cmd:"" help:"Have a device write to its own database."`
}

// caller is who asks, and whom. Its session is its own: a client that runs keeps its session to itself.
type caller struct {
	URL      string `help:"Of the backend. Default: what runs here." env:"CAIRN_URL"`
	Email    string `help:"Log in as; once, then the session is kept."`
	Password string `help:"Asked for when it is needed and not set." env:"CAIRN_PASSWORD"`
	Session  string `help:"The file that keeps the session." default:"~/.cairn/device-commands.session" type:"path"`
	Device   string `help:"Its id. Default: the only one, or the only one that is online."`
}

func (w caller) client(ctx context.Context, config *app.Config, c *console) (errand.Client, error) {
	if w.URL == "" {
		_, found, err := config.Attach()
		if err != nil {
			return errand.Client{}, fmt.Errorf("%w (or say where it is with --url)", err)
		}
		w.URL = found
	}
	if err := os.MkdirAll(filepath.Dir(w.Session), 0o700); err != nil {
		return errand.Client{}, fmt.Errorf("make the session's folder: %w", err)
	}
	if w.Email != "" && w.Password == "" {
		var err error
		if w.Password, err = askPassword(c); err != nil {
			return errand.Client{}, err
		}
	}
	client, err := chat.Session(ctx, chat.Options{URL: w.URL, Email: w.Email, Password: w.Password, TokenFile: w.Session})
	return errand.Client{API: client}, err
}

type deviceListCmd struct {
	caller
}

// Run prints them.
func (l deviceListCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	client, err := l.client(ctx, config, c)
	if err != nil {
		return err
	}
	all, err := client.Devices(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(c.out, map[string]any{"devices": all})
	}
	rows := make([][]any, len(all))
	for i, d := range all {
		name := ""
		if d.Name != nil {
			name = *d.Name
		}
		rows[i] = []any{d.ID, name, d.Online}
	}
	printTable(c.out, []string{"Device", "Name", "Online"}, rows)
	return nil
}

type deviceQueryCmd struct {
	caller

	Table  string        `arg:"" help:"tasks, projects, checkpoints, notes, taskComments or clients."`
	ID     string        `arg:"" optional:"" help:"One row."`
	Filter []string      `help:"column=text or column:=JSON; also search, dueDateFrom, dueDateTo, orderBy." sep:"none"`
	Limit  int           `help:"So many rows at most."`
	Wait   time.Duration `help:"For an absent device." default:"30s"`
}

// Run asks and prints the rows.
func (q deviceQueryCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	filters, err := errand.Values(q.Filter)
	if err != nil {
		return err
	}
	body := map[string]any{"action": "select", "table": q.Table, "wait_seconds": wholeSeconds(q.Wait)}
	switch {
	case q.ID != "":
		body["action"], body["data"] = "get", map[string]any{"id": q.ID}
	case len(filters) > 0:
		body["filters"] = filters
	}
	if q.Limit > 0 {
		body["limit"] = q.Limit
	}
	client, err := q.client(ctx, config, c)
	if err != nil {
		return err
	}
	device, err := client.Choose(ctx, q.Device)
	if err != nil {
		return err
	}
	r, err := client.Query(ctx, device, body)
	if err != nil {
		return err
	}
	return showErrand(c, r)
}

type deviceMutateCmd struct {
	caller

	Action string        `arg:"" enum:"insert,update,delete" help:"insert, update or delete."`
	Table  string        `arg:"" help:"tasks, projects, checkpoints, notes, taskComments or clients."`
	ID     string        `arg:"" optional:"" help:"The row, of an update or delete."`
	Set    []string      `help:"column=text or column:=JSON." sep:"none"`
	Wait   time.Duration `help:"For an absent device." default:"24h"`
	For    time.Duration `help:"Look that long for what became of it; it goes on afterwards." default:"40s"`
}

// Run asks, and says what became of it.
func (m deviceMutateCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	set, err := errand.Values(m.Set)
	if err != nil {
		return err
	}
	data := map[string]any{"id": m.ID}
	switch m.Action {
	case "insert":
		if m.ID != "" {
			return fmt.Errorf("the device makes the id of a new row: leave %q out", m.ID)
		}
		data = set
	case "update":
		data["updates"] = set
	}
	client, err := m.client(ctx, config, c)
	if err != nil {
		return err
	}
	device, err := client.Choose(ctx, m.Device)
	if err != nil {
		return err
	}
	r, err := client.Mutate(ctx, device, map[string]any{"action": m.Action, "table": m.Table, "data": data, "wait_seconds": wholeSeconds(m.Wait)}, m.For)
	if err != nil {
		return err
	}
	return showErrand(c, r)
}

func wholeSeconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// showErrand prints an outcome; a failure is an error that says what to do next.
func showErrand(c *console, r errand.Record) error {
	if c.json {
		if err := printJSON(c.out, r.Raw); err != nil {
			return err
		}
	}
	switch {
	case r.Status == "failed":
		return fmt.Errorf("device %s did not do it: %s: %s", r.Device, r.Reason, cmp.Or(r.Text, string(r.Answer), advice(r)))
	case c.json:
		return nil
	case !r.Ended():
		fmt.Fprintf(c.out, "It waits for device %s, and is done when that comes: GET %s tells what became of it.\n", r.Device, r.Location)
		return nil
	}
	var answer struct {
		Rows    []map[string]any `json:"rows"`
		Row     map[string]any   `json:"row"`
		Deleted *bool            `json:"deleted"`
	}
	d := json.NewDecoder(bytes.NewReader(r.Answer))
	d.UseNumber() // milliseconds are shown as they are
	if err := d.Decode(&answer); err != nil {
		return fmt.Errorf("the device's answer can't be read: %w", err)
	}
	if answer.Row != nil {
		answer.Rows = append(answer.Rows, answer.Row)
	}
	switch {
	case len(answer.Rows) > 0:
		printRows(c, answer.Rows)
	case answer.Deleted != nil && *answer.Deleted:
		fmt.Fprintln(c.out, "Deleted.")
	default:
		fmt.Fprintln(c.out, "There is no such row on the device.")
	}
	return nil
}

// advice is what to do where nobody said anything.
func advice(r errand.Record) string {
	switch r.Reason {
	case "device_offline":
		return "it did not connect in time: start it, or wait longer with --wait"
	case "deadline":
		return "it has it and did not answer within 30 s: look at the rows before you repeat it; GET " + r.Location + " shows a late answer"
	default:
		return "see GET " + r.Location
	}
}

func printRows(c *console, rows []map[string]any) {
	columns := slices.Sorted(maps.Keys(rows[0]))
	lines := make([][]any, len(rows))
	for i, row := range rows {
		for _, column := range columns {
			value := row[column]
			if value == nil {
				value = ""
			}
			lines[i] = append(lines[i], value)
		}
	}
	printTable(c.out, columns, lines)
}
