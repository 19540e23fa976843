package device_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain/device"
)

// naive decides by looking at everything that was ever recorded of the device.
func naive(past []device.Event, c device.Command) []string {
	switch c := c.(type) { //nolint:gochecksumtype // of those that the test sends
	case device.Introduce:
		said := device.Introduced{Protocol: c.Protocol, Timezone: c.Timezone, Journal: c.Journal, NameDigest: c.NameDigest, Name: c.Name}
		for i := len(past) - 1; i >= 0; i-- {
			if last, ok := past[i].(device.Introduced); ok {
				last.Name = said.Name // which its digest stands for
				if last == said {
					return nil
				}
				break
			}
		}
		return []string{fmt.Sprintf("%+v", said)}
	case device.See:
		for _, e := range past {
			if seen, ok := e.(device.Seen); ok && !c.Waiting && c.At.Sub(seen.At) < device.SeenEvery {
				return nil
			}
		}
		return []string{fmt.Sprintf("%+v", device.Seen{At: c.At, Waiting: c.Waiting})}
	}
	return nil
}

// TestDecidesAsTheNaiveDevice: after any commands, stored and loaded in between, the decider answers what somebody answers who
// remembers everything.
func TestDecidesAsTheNaiveDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var state device.State
		var past []device.Event
		for range rapid.IntRange(1, 30).Draw(t, "commands") {
			var c device.Command = device.See{
				Device: "d", Waiting: rapid.IntRange(0, 3).Draw(t, "waiting") == 0,
				At: time.Unix(1_800_000_000+600*rapid.Int64Range(0, 40).Draw(t, "at"), 0).UTC(),
			}
			if rapid.Bool().Draw(t, "hello") {
				name := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name")
				c = device.Introduce{
					Device: "d", Protocol: rapid.IntRange(2, 3).Draw(t, "protocol"), Journal: rapid.Bool().Draw(t, "journal"),
					Timezone: rapid.SampledFrom([]string{"", "Europe/Rome"}).Draw(t, "zone"), NameDigest: name, Name: device.Name{Text: name},
				}
			}
			want := naive(past, c)
			events, err := state.Decide(c)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range events {
				got = append(got, fmt.Sprintf("%+v", e))
				past, state = append(past, e), state.Evolve(e)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%+v after %+v (-naive +decided):\n%s", c, past, diff)
			}
			stored, err := json.Marshal(state)
			if err == nil {
				err = json.Unmarshal(stored, &state)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
