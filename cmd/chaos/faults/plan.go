package faults

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Turn is one step of a fault.
type Turn struct {
	Fault string
	Kind  string
	Long  time.Duration // how long it lasts at least, without healing
	Step  Step
}

// Plan orders the steps of faults into rounds: one step of each kind, one of each fault that has had none, and all the
// others. The choice is drawn; in each round what is short comes first, so that as much as can be has had its turn
// whenever the time is up.
func Plan(all []Fault, from *rand.Rand) [][]Turn {
	all = slices.Clone(all)
	from.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	rounds := make([][]Turn, 3)
	had := map[string]bool{}
	for _, f := range all {
		round := 0
		if had[f.kind()] {
			round = 1
		}
		had[f.kind()] = true
		drawn := from.IntN(len(f.Steps))
		for i, step := range f.Steps {
			t := Turn{Fault: f.Name, Kind: f.kind(), Long: f.Long, Step: step}
			if i == drawn {
				rounds[round] = append(rounds[round], t)
			} else {
				rounds[2] = append(rounds[2], t)
			}
		}
	}
	from.Shuffle(len(rounds[2]), func(i, j int) { rounds[2][i], rounds[2][j] = rounds[2][j], rounds[2][i] })
	for _, round := range rounds {
		slices.SortStableFunc(round, func(a, b Turn) int { return int(a.Long - b.Long) })
	}
	return rounds
}

// kind is what several faults are that differ in their victim only.
func (f Fault) kind() string {
	if f.Kind != "" {
		return f.Kind
	}
	return f.Name
}
