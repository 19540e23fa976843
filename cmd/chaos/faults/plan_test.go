package faults_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cairnhq/cairn/cmd/chaos/faults"
)

// TestEachKindHasItsTurnBeforeAnyHasTwo also holds that no step is left out or doubled, that what is short comes first, and
// that a seed gives the same plan again.
func TestEachKindHasItsTurnBeforeAnyHasTwo(t *testing.T) {
	for _, extent := range []faults.Extent{faults.Whole, faults.Sample} {
		all := faults.All(extent)
		steps := 0
		for _, f := range all {
			steps += len(f.Steps)
		}
		for seed := range uint64(50) {
			rounds := faults.Plan(all, rand.New(rand.NewPCG(seed, 0)))
			again := faults.Plan(all, rand.New(rand.NewPCG(seed, 0)))
			kinds, of, n := map[string]bool{}, map[string]bool{}, 0
			for i, round := range rounds {
				for j, turn := range round {
					if i == 0 && kinds[turn.Kind] {
						t.Errorf("seed %d: %s has two turns in the first round", seed, turn.Kind)
					}
					if i > 0 && !kinds[turn.Kind] {
						t.Errorf("seed %d: %s has none in the first round", seed, turn.Kind)
					}
					if i == 1 && of[turn.Fault] || i == 2 && !of[turn.Fault] {
						t.Errorf("seed %d: %s in round %d", seed, turn.Fault, i)
					}
					if j > 0 && round[j-1].Long > turn.Long {
						t.Errorf("seed %d: %s is longer than %s, and before it", seed, round[j-1].Fault, turn.Fault)
					}
					if again[i][j].Fault != turn.Fault {
						t.Errorf("seed %d: %s, and then %s", seed, turn.Fault, again[i][j].Fault)
					}
					kinds[turn.Kind], of[turn.Fault] = true, true
					n++
				}
			}
			if n != steps {
				t.Errorf("seed %d: %d turns for %d steps", seed, n, steps)
			}
		}
	}
}
