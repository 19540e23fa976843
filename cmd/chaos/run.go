package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lmittmann/tint"

	"github.com/cairnhq/cairn/cmd/chaos/faults"
	"github.com/cairnhq/cairn/cmd/chaos/load"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// runCmd is one run.
type runCmd struct {
	Seconds int    `help:"How long faults are injected. None begins that would last longer; one of each kind comes first." default:"600"`
	Seed    uint64 `help:"Of every choice the run makes. 0: drawn, and printed."`
	Fault   string `help:"Only the faults whose names contain this. 'each role every' is the one of killing one process of each role again and again."`
	Sample  bool   `help:"Each fault in one step, however long that takes, and stops of 5 s: about three minutes."`
	Brokers int    `help:"1 or 3. 0: 3, or 1 for a sample." default:"0" enum:"0,1,3"`
	Every   int    `help:"Seconds between the kills of one process of each role." default:"20"`
	Cairn   string `help:"The program to run. Empty: built from this checkout."`
	Tags    string `help:"Build tags of the program that is built."`
	Keep    bool   `help:"Keep the directory with all logs, also after a run without a fault."`
	JSON    bool   `help:"Print the table as JSON." name:"json"`
}

// Run runs, prints, and fails if the checker does.
func (c *runCmd) Run(ctx context.Context) error {
	if c.Seed == 0 {
		c.Seed = rand.Uint64()>>33 + 1 //nolint:gosec // no secret
	}
	if c.Brokers == 0 {
		c.Brokers = 3
		if c.Sample {
			c.Brokers = 1
		}
	}
	log := slog.New(tint.NewTextHandler(os.Stderr, &tint.Options{TimeFormat: "15:04:05.000", NoColor: true}))
	dir, err := os.MkdirTemp("", "cairn-chaos-")
	if err != nil {
		return err
	}
	log.Info("chaos", "seed", c.Seed, "directory", dir)
	report, err := c.run(ctx, dir, log)
	if err == nil {
		err = c.print(report)
	}
	if err == nil && !c.Keep {
		return os.RemoveAll(dir)
	}
	log.Info("what the processes said is kept", "directory", dir)
	return err
}

func (c *runCmd) print(r *report) error {
	if c.JSON {
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return err
		}
	} else {
		r.table(os.Stdout)
	}
	if len(r.Faults) > 0 {
		return errJudged
	}
	return nil
}

// build makes the program under test.
func (c *runCmd) build(ctx context.Context, dir string) (string, error) {
	if c.Cairn != "" {
		return filepath.Abs(c.Cairn)
	}
	binary := filepath.Join(dir, "cairn")
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", c.Tags, "-o", binary, "github.com/cairnhq/cairn/cmd/cairn").CombinedOutput() //nolint:gosec // our own tags
	if err != nil {
		return "", fmt.Errorf("build cairn: %w: %s", err, out)
	}
	return binary, nil
}

func (c *runCmd) run(ctx context.Context, dir string, log *slog.Logger) (_ *report, err error) {
	binary, err := c.build(ctx, dir)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	s, err := stage.Open(ctx, stage.Config{
		Dir: dir, Binary: binary, Clocked: []string{self}, Brokers: c.Brokers, Partitions: 4, Log: log,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	recorder := history.New()
	l, err := load.New(ctx, load.Config{Dir: dir, Seed: c.Seed}, load.URLs{API: "http://" + s.API.Addr(), Gate: "http://" + s.Gate.Addr()}, recorder)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	log.Info("everything runs", "processes", len(s.Processes), "took", time.Since(began).Round(time.Second))

	working, rest := context.WithCancel(ctx)
	defer rest()
	var loading sync.WaitGroup
	loading.Go(func() { l.Run(working) })
	defer loading.Wait()
	defer rest()
	r := &report{Seed: c.Seed, Brokers: c.Brokers, Began: time.Now()}
	ring := &faults.Ring{Stage: s, Load: l, Rand: rand.New(rand.NewPCG(c.Seed, 0)), Log: log} //nolint:gosec // no secret
	m := &models{stage: s, log: log}
	if err := c.injure(ctx, ring, m, r); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		log.Error("it does not heal, and is injured no more", "error", err)
		r.unhealed = err
	}
	log.Info("no more faults: clients settle what is open")
	rest()
	loading.Wait()
	return r, judge(ctx, m, l, recorder, r, log)
}

// chosen are the faults of this run.
func (c *runCmd) chosen() []faults.Fault {
	extent := faults.Whole
	if c.Sample {
		extent = faults.Sample
	}
	all := append(faults.All(extent), faults.KillsOfEach(time.Duration(c.Every)*time.Second))
	var round []faults.Fault
	for _, f := range all {
		if c.Fault == "" && !f.Apart || c.Fault != "" && strings.Contains(f.Name, c.Fault) {
			round = append(round, f)
		}
	}
	return round
}

// listCmd lists the faults.
type listCmd struct{}

// Run prints their names.
func (listCmd) Run() error {
	for _, f := range (&runCmd{Fault: " ", Every: 20}).chosen() {
		fmt.Printf("%-50s %d steps\n", f.Name, len(f.Steps))
	}
	return nil
}
