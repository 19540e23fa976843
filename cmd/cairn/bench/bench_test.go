package bench_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/bench"
)

// TestBenchmarksRun runs each benchmark of the whole Cairn in small: it ends, and its figures are numbers in their spread.
func TestBenchmarksRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for name, run := range map[string]func(*testing.T) (bench.Report, error){
		"chat": func(t *testing.T) (bench.Report, error) {
			return bench.Chat(ctx, bench.ChatOptions{Rounds: 1, Turn: 500 * time.Millisecond, Progress: t.Output()})
		},
		"growth": func(t *testing.T) (bench.Report, error) {
			return bench.Growth(ctx, bench.GrowthOptions{Rounds: 1, Events: 3000, Long: 1000, Watch: time.Second, Progress: t.Output()})
		},
		"replay": func(t *testing.T) (bench.Report, error) {
			return bench.Replay(ctx, bench.ReplayOptions{Rounds: 1, Events: 600, Progress: t.Output()})
		},
		"live": func(t *testing.T) (bench.Report, error) {
			return bench.Live(ctx, bench.LiveOptions{Length: 300 * time.Millisecond, Progress: t.Output()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := run(t)
			if err != nil {
				t.Fatal(err)
			}
			if report.Bench != name || len(report.Figures) == 0 {
				t.Fatalf("the report is %+v", report)
			}
			seen := map[string]bool{}
			for _, f := range report.Figures {
				if f.Value < 0 || f.Low > f.Value || f.Value > f.High || seen[f.Name] || f.Unit == "" {
					t.Errorf("figure %+v", f)
				}
				seen[f.Name] = true
			}
		})
	}
}
