package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/lmittmann/tint"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/chaos/reconnect"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// reconnectCmd is one run of the reconnect contract on a whole installation.
type reconnectCmd struct {
	Minutes float64 `help:"How long writes and injuries go on." default:"15"`
	Rate    int     `help:"Writes a second." default:"1000"`
	Offline float64 `help:"Minutes that one client of each user is offline. 0: ten, or two thirds of the run where that is shorter."`
	Users   int     `help:"Users; each has three clients." default:"4"`
	Brokers int     `help:"1 or 3." default:"3" enum:"1,3"`
	Seed    uint64  `help:"Of every choice the run makes. 0: drawn, and printed."`
	Cairn   string  `help:"The program to run. Empty: built from this checkout."`
	Tags    string  `help:"Build tags of the program that is built."`
	Keep    bool    `help:"Keep the directory with all logs, also after a run without a fault."`
	JSON    bool    `help:"Print the report as JSON." name:"json"`
}

// reconnectReport is what a run found.
type reconnectReport struct {
	Seed       uint64           `json:"seed"`
	Brokers    int              `json:"brokers"`
	Minutes    float64          `json:"minutes"`
	Wanted     int              `json:"rate_wanted"`
	Rate       float64          `json:"rate"`         // commands acknowledged a second, while they were sent
	Commands   uint64           `json:"commands"`     // that were acknowledged
	Repeated   uint64           `json:"repeated"`     // attempts that were not, and were made again
	Injuries   map[string]int   `json:"injuries"`     // of each kind
	Still      float64          `json:"projectors_s"` // for how long in all no projector ran
	Events     int              `json:"events"`
	Clients    int              `json:"clients"`
	Deliveries int              `json:"deliveries"`
	Met        reconnect.Counts `json:"met"`
	Offline    float64          `json:"offline_s"`
	Level      float64          `json:"level_s"`       // until all clients were level after the last write
	Month      float64          `json:"month_level_s"` // until a client was level that came back a month later
	Missed     uint64           `json:"month_missed"`  // events that it had missed
	Notes      []string         `json:"notes,omitempty"`
	Broken     []string         `json:"broken,omitempty"`
}

// Run runs, prints, and fails if a promise was broken.
func (c *reconnectCmd) Run(ctx context.Context) error {
	if c.Minutes <= 0 || c.Rate <= 0 || c.Users <= 0 {
		return errors.New("--minutes, --rate and --users must be more than 0")
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()>>33 + 1 //nolint:gosec // no secret
	}
	if c.Offline == 0 {
		c.Offline = min(10, c.Minutes*2/3)
	}
	log := slog.New(tint.NewTextHandler(os.Stderr, &tint.Options{TimeFormat: "15:04:05.000", NoColor: true}))
	dir, err := os.MkdirTemp("", "cairn-reconnect-")
	if err != nil {
		return err
	}
	log.Info("chaos reconnect", "seed", c.Seed, "directory", dir)
	r := &reconnectReport{Seed: c.Seed, Brokers: c.Brokers, Minutes: c.Minutes, Wanted: c.Rate, Injuries: map[string]int{}}
	err = c.run(ctx, dir, r, log)
	if err == nil {
		err = c.print(r)
	}
	if err == nil && !c.Keep {
		return os.RemoveAll(dir)
	}
	log.Info("what the processes said is kept", "directory", dir)
	return err
}

func (c *reconnectCmd) run(ctx context.Context, dir string, r *reconnectReport, log *slog.Logger) (err error) {
	binary, err := (&runCmd{Cairn: c.Cairn, Tags: c.Tags}).build(ctx, dir)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s, err := stage.Open(ctx, stage.Config{
		Dir: dir, Binary: binary, Clocked: []string{self}, Brokers: c.Brokers, Partitions: 4, Log: log,
		Roles: []string{app.RoleAPI, app.RoleWriter, app.RoleProjector, app.RoleGateway},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	w, err := openWork(ctx, s)
	if err != nil {
		return err
	}
	defer w.close()
	f := &following{reconnectCmd: c, stage: s, work: w, history: history.New(), report: r, log: log,
		rand: rand.New(rand.NewPCG(c.Seed, 0))} //nolint:gosec // no secret
	return f.run(ctx)
}

func (c *reconnectCmd) print(r *reconnectReport) error {
	if c.JSON {
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return err
		}
	} else {
		r.table(os.Stdout)
	}
	if len(r.Broken) > 0 {
		return errJudged
	}
	return nil
}

// table prints the report for people.
func (r *reconnectReport) table(out io.Writer) {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.AppendRows([]table.Row{
		{"commands acknowledged", r.Commands}, {"a second", fmt.Sprintf("%.0f of %d", r.Rate, r.Wanted)}, {"asked again", r.Repeated},
		{"without any projector", fmt.Sprintf("%.0f s", r.Still)}, {"events", r.Events}, {"clients", r.Clients}, {"deliveries, each judged", r.Deliveries},
		{"connections", r.Met.Connects}, {"closed as too slow", r.Met.Slow}, {"ends that were announced", r.Met.Told},
		{"events that came twice", r.Met.Again}, {"holes", r.Met.Holes},
		{"offline", fmt.Sprintf("%.0f s", r.Offline)}, {"all level after the last write", fmt.Sprintf("%.1f s", r.Level)},
		{"level after a month away", fmt.Sprintf("%.1f s, %d events", r.Month, r.Missed)},
	})
	for _, name := range injuries() {
		t.AppendRow(table.Row{name, r.Injuries[name]})
	}
	t.Render()
	for _, note := range r.Notes {
		fmt.Fprintln(out, "note:", note)
	}
	fmt.Fprintf(out, "seed %d, %d brokers, %s\n", r.Seed, r.Brokers, time.Duration(r.Minutes*float64(time.Minute)).Round(time.Second))
	if len(r.Broken) == 0 {
		fmt.Fprintln(out, "received is what was committed")
		return
	}
	fmt.Fprintln(out, "\nNOT KEPT:\n ", strings.Join(r.Broken, "\n  "))
}
