package projectionstest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// Compare says by key where read models differ from the fold of the log. Columns named in except are not compared: after
// a move of the log the rows name places of the old one (partition, log_offset, era).
func Compare(live, fold *Dump, except ...string) []history.Fault {
	var faults []history.Fault
	fault := func(format string, args ...any) {
		faults = append(faults, history.Fault{Law: history.ReadModels, Detail: fmt.Sprintf(format, args...)})
	}
	for _, stopped := range live.Stopped {
		fault("a projector has stopped: %s", stopped)
	}
	for _, table := range Tables() {
		a, b := live.Rows[table], fold.Rows[table]
		for _, key := range slices.Sorted(maps.Keys(a)) {
			other, ok := b[key]
			if !ok {
				fault("%s has a row %q, which the log does not lead to", table, key)
				continue
			}
			for _, column := range slices.Sorted(maps.Keys(a[key])) {
				if !slices.Contains(except, column) && a[key][column] != other[column] {
					fault("%s, row %q: %s is %q, the log leads to %q", table, key, column, a[key][column], other[column])
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(b)) {
			if _, ok := a[key]; !ok {
				fault("%s lacks a row %q", table, key)
			}
		}
	}
	return faults
}

// Places holds what the models remember beside their checkpoints against the log.
func Places(d *Dump, log *history.Log) []history.Fault {
	var faults []history.Fault
	for _, model := range slices.Sorted(maps.Keys(d.Places)) {
		for partition, lanes := range d.Places[model] {
			faults = append(faults, placesOf(model, partition, lanes, log)...)
		}
	}
	return faults
}

func placesOf(model string, partition int32, lanes []streams.Checkpoint, log *history.Log) []history.Fault {
	var faults []history.Fault
	for _, at := range lanes {
		switch want := log.At(partition, at.Next); {
		case at.Next > log.Ends[partition]:
			faults = append(faults, history.Fault{Law: history.ReadModels, Detail: fmt.Sprintf("%s stands at %d of partition %d, and the log ends at %d",
				model, at.Next, partition, log.Ends[partition])})
		case want != at.Acceptance:
			faults = append(faults, history.Fault{Law: history.ReadModels, Detail: fmt.Sprintf("%s remembers %+v at offset %d of partition %d, and the log says %+v",
				model, at.Acceptance, at.Next, partition, want)})
		}
	}
	return faults
}
