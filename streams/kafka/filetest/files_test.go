package filetest_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// all is the value of CAIRN_FILE_FAULTS that goes through every operation; a number draws so many of each kind.
const all = "all"

// wanted is how many faults of each kind are tried: one, or what the environment says.
func wanted() (sample int, every bool) {
	said := os.Getenv("CAIRN_FILE_FAULTS")
	if n, err := strconv.Atoi(said); err == nil && n > 0 {
		return n, false
	}
	return 1, said == all
}

// fault is one that a life of the stage meets.
type fault struct {
	kind string // kill, torn, power, full
	at   int
}

func (f fault) String() string { return fmt.Sprint(f.kind, " at ", f.at) }

// plan is what happens to one directory: one life after another, and then one without a fault.
type plan []fault

// trial is the run of a plan.
type trial struct {
	t     *testing.T
	stage string
	args  []string // of the stage, besides its directory
	dir   string
	seed  uint64
	rec   *history.Recorder
	open  map[string]*history.Op
	ends  []string
	told  int // answers given in lives that ended by a fault
}

// TestWhatIsAcknowledgedOutlivesEveryFileFault ends the broker at operations on its files, within writes, as a power failure
// does, and with a full disk, also while it recovers from that; the next start goes on by itself, and the checker
// finds each answer in the log, once. CAIRN_FILE_FAULTS=all goes through every operation, CAIRN_SEED draws another sample.
func TestWhatIsAcknowledgedOutlivesEveryFileFault(t *testing.T) {
	stage := built(t)
	t.Run("a broker that does not sync is found out", func(t *testing.T) { unsynced(t, stage) })
	seed := uint64(time.Now().UnixNano())
	if v, err := strconv.ParseUint(os.Getenv("CAIRN_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("CAIRN_SEED=%d", seed)
	first := operations(t, stage, nil)
	again := operations(t, stage, &fault{kind: "torn", at: len(first) / 2})
	t.Logf("a life has %d operations (%s), one after a torn write %d", len(first), kinds(first), len(again))
	if len(first) < 100 || len(again) < 30 {
		t.Fatal("the broker's files are not watched")
	}
	plans := drawn(rand.New(rand.NewPCG(seed, 1)), first, again)
	var table strings.Builder
	fmt.Fprintf(&table, "%-20s %8s %22s %8s\n", "fault", "times", "acknowledged before", "wrong")
	var mu sync.Mutex
	limit := make(chan struct{}, 2)
	var running sync.WaitGroup
	totals := map[string][3]int{}
	for n, p := range plans {
		running.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			tr := newTrial(t, stage, seed+uint64(n))
			v, err := tr.run(p)
			mu.Lock()
			defer mu.Unlock()
			name := p[0].kind
			if len(p) > 1 {
				name += ", then " + p[1].kind
			}
			sum := totals[name]
			totals[name] = [3]int{sum[0] + 1, sum[1] + tr.told, sum[2] + len(v.Faults)}
			if err != nil {
				t.Errorf("%v (seed %d): %v\n%s", p, tr.seed, err, strings.Join(tr.ends, "\n"))
			}
		})
	}
	running.Wait()
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		fmt.Fprintf(&table, "%-20s %8d %22d %8d\n", name, totals[name][0], totals[name][1], totals[name][2])
	}
	t.Log("\n" + table.String())
}

// unsynced is the control: of a broker that acknowledges before it has synced, a power failure takes what was acknowledged,
// and the judge says so.
func unsynced(t *testing.T, stage string) {
	t.Helper()
	for n := range uint64(24) {
		tr := newTrial(t, stage, n)
		tr.args = []string{"-unsynced"}
		v, err := tr.run(plan{{"power", 100 + int(n)}})
		if len(v.Broken(history.Acknowledged)) > 0 {
			return
		}
		t.Logf("power at %d: %v", 100+n, err)
	}
	t.Error("nothing that was acknowledged and not synced was lost")
}

func newTrial(t *testing.T, stage string, seed uint64) *trial {
	return &trial{t: t, stage: stage, dir: filepath.Join(t.TempDir(), "kafka"), seed: seed, rec: history.New(), open: map[string]*history.Op{}}
}

// drawn are the plans: every operation of the first life by every kind, or a sample; and pairs, the second of which meets
// the start after the first.
func drawn(r *rand.Rand, first, again []string) []plan {
	sample, every := wanted()
	var plans []plan
	for _, kind := range []string{"kill", "torn", "power", "full"} {
		var at []int
		for n, op := range first {
			if kind == "kill" || kind == "power" || strings.HasPrefix(op, "write ") {
				at = append(at, n+1)
			}
		}
		if !every {
			r.Shuffle(len(at), func(i, j int) { at[i], at[j] = at[j], at[i] })
			at = at[:min(sample, len(at))]
		}
		for _, n := range at {
			plans = append(plans, plan{{kind, n}})
		}
	}
	pairs := 2 * sample
	if every {
		pairs = len(again)
	}
	for n := range pairs {
		then := 1 + n
		if !every {
			then = 1 + r.IntN(len(again))
		}
		begin := []string{"torn", "power", "full"}[n%3]
		at := 1 + r.IntN(len(first))
		for begin != "power" && !strings.HasPrefix(first[at-1], "write ") {
			at = 1 + r.IntN(len(first))
		}
		plans = append(plans, plan{{begin, at}, {[]string{"kill", "power"}[n/3%2], then}})
	}
	return plans
}

// operations are what a life without a fault does to its files, as "what path"; with before, a life after one with that fault.
func operations(t *testing.T, stage string, before *fault) []string {
	t.Helper()
	tr := newTrial(t, stage, 1)
	if before != nil {
		if err := tr.life(before); err != nil {
			t.Fatal(err)
		}
	}
	trace := filepath.Join(t.TempDir(), "trace")
	if err := tr.life(nil, "CAIRN_FILE_TRACE="+trace); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var ops []string
	for l := range strings.Lines(string(text)) {
		_, op, _ := strings.Cut(strings.TrimSpace(l), " ")
		ops = append(ops, op)
	}
	return ops
}

func kinds(ops []string) string {
	n := map[string]int{}
	for _, op := range ops {
		what, _, _ := strings.Cut(op, " ")
		n[what]++
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[what], what))
	}
	return strings.Join(parts, ", ")
}

// run plays a plan, lets the stage come to its end, and judges.
func (tr *trial) run(p plan) (history.Verdict, error) {
	for _, f := range p {
		if err := tr.life(&f); err != nil {
			return history.Verdict{}, err
		}
	}
	if err := tr.life(nil); err != nil {
		return history.Verdict{}, err
	}
	return tr.judge()
}

type line struct {
	Client int
	Name   string
	Scope  domain.Scope
	ID     string
	Sent   bool
	Answer streams.Answer
	No     *domain.Rejection
	Error  string
}

// life runs the stage once and records what it says. A life without a fault must come to its end; one with a fault ends by
// it, or at its end where the fault lies behind that.
func (tr *trial) life(f *fault, env ...string) error {
	cmd := exec.Command(tr.stage, append(tr.args, "-dir", tr.dir)...)
	cmd.Env = append(os.Environ(), env...)
	if f != nil {
		cmd.Env = append(cmd.Env, fmt.Sprintf("CAIRN_FILE_FAULT=%s %d %d", f.kind, f.at, tr.seed))
	}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	tr.record(bufio.NewScanner(out), f != nil)
	err = cmd.Wait()
	clear(tr.open) // whoever waited still does not know
	what := "no fault"
	if f != nil {
		what = f.String()
	}
	tr.ends = append(tr.ends, fmt.Sprintf("--- %s: %v\n%s", what, err, said.String()))
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case f == nil || !errors.As(err, &exit):
		return fmt.Errorf("a life without a fault: %w", err)
	case f.kind == "full":
		if exit.ExitCode() != 3 && exit.ExitCode() != 4 { // the broker stops the process, or it does not come up
			return fmt.Errorf("on a full disk: %w", err)
		}
	case exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL:
		return fmt.Errorf("a start did not come so far: %w", err)
	}
	return nil
}

func (tr *trial) record(lines *bufio.Scanner, faulty bool) {
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return // the end came within it
		}
		if l.Sent {
			tr.open[l.Name] = tr.rec.Invoke(fmt.Sprint("client ", l.Client), history.Request{Scope: l.Scope, CommandID: l.ID, What: l.Name})
			continue
		}
		op := tr.open[l.Name]
		delete(tr.open, l.Name)
		if op == nil {
			continue
		}
		switch {
		case l.Error != "":
			op.Unknown(errors.New(l.Error))
			continue
		case l.No != nil:
			op.Rejected(l.No)
		default:
			op.Accepted(l.Answer)
		}
		if faulty {
			tr.told++
		}
	}
}

// judge starts the broker that ships on what is left, and reads the log twice.
func (tr *trial) judge() (history.Verdict, error) {
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: tr.dir})
	if err != nil {
		return history.Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config := kafka.Config{Seeds: broker.Seeds(), LiveSeeds: broker.LiveSeeds(), Topics: kafka.EmbeddedTopics()}
	var logs []*history.Log
	for range 2 {
		log, readErr := history.Read(ctx, config)
		if err = cmp.Or(err, readErr); err == nil {
			logs = append(logs, log)
		}
	}
	if err = errors.Join(err, broker.Close()); err != nil {
		return history.Verdict{}, err
	}
	v := history.Check(history.Evidence{History: tr.rec, Logs: logs})
	return v, v.Err()
}
