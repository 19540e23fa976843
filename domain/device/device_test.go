package device_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
)

var hello = device.Introduce{Device: "d", Protocol: 3, Timezone: "Europe/Paris", Journal: true, NameDigest: "ab", Name: device.Name{Text: "Laptop"}}

// TestOnlyNewsIsRecorded: a hello is recorded once, and again when any part of it has changed.
func TestOnlyNewsIsRecorded(t *testing.T) {
	var state device.State
	for i, c := range []struct {
		change func(*device.Introduce)
		events int
	}{
		{func(*device.Introduce) {}, 1},
		{func(*device.Introduce) {}, 0},
		{func(c *device.Introduce) { c.Timezone = "" }, 1},
		{func(c *device.Introduce) { c.Timezone, c.NameDigest = "", "cd" }, 1},
		{func(c *device.Introduce) { c.Protocol = 2 }, 1},
		{func(c *device.Introduce) { c.Protocol, c.Batch = 2, true }, 1},
		{func(c *device.Introduce) { c.Protocol, c.Batch, c.Journal = 2, true, false }, 1},
		{func(c *device.Introduce) { c.Protocol, c.Batch, c.Journal = 2, true, false }, 0},
	} {
		said := hello
		c.change(&said)
		events, err := state.Decide(said)
		if err != nil || len(events) != c.events {
			t.Fatalf("hello %d: %d events, %v; want %d", i, len(events), err, c.events)
		}
		for _, e := range events {
			if e := e.(device.Introduced); e.Name != said.Name || e.Timezone != said.Timezone {
				t.Errorf("hello %d became %+v", i, e)
			}
			b, err := json.Marshal(state.Evolve(e))
			if err != nil || strings.Contains(string(b), "Laptop") {
				t.Fatalf("state %s, %v", b, err)
			}
			if err := json.Unmarshal(b, &state); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSeenHourlyOrWhereWorkWaits: a device that comes and goes is recorded once an hour, and each time that work waits
// for it; a clock that runs behind records nothing.
func TestSeenHourlyOrWhereWorkWaits(t *testing.T) {
	var state device.State
	noon := time.Date(2026, 11, 30, 12, 0, 0, 999, time.UTC)
	for i, c := range []struct {
		after   time.Duration
		waiting bool
		events  int
	}{
		{0, false, 1}, {0, false, 0}, {time.Minute, true, 1}, {2 * time.Minute, true, 1}, {59 * time.Minute, false, 0},
		{62 * time.Minute, false, 1}, {-time.Hour, false, 0}, {-time.Hour, true, 1}, {121 * time.Minute, false, 0}, {122 * time.Minute, false, 1},
	} {
		events, err := state.Decide(device.See{Device: "d", At: noon.Add(c.after), Waiting: c.waiting})
		if err != nil || len(events) != c.events {
			t.Fatalf("%d: %d events, %v; want %d", i, len(events), err, c.events)
		}
		for _, e := range events {
			if e := e.(device.Seen); e.Waiting != c.waiting || e.At.Nanosecond() != 0 {
				t.Errorf("%d: %+v", i, e)
			}
			b, err := json.Marshal(state.Evolve(e))
			if err == nil {
				err = json.Unmarshal(b, &state)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if said := state.Evolve(device.Introduced{Protocol: 2}); !reflect.DeepEqual(said.Evolve(device.Introduced{}), state.Evolve(device.Introduced{})) {
			t.Errorf("%d: a hello forgot when the device was seen", i)
		}
	}
	var no *domain.Rejection
	for _, c := range []device.See{{Device: "d"}, {Device: "My Mac", At: noon}} {
		if _, err := state.Decide(c); !errors.As(err, &no) || no.Code != domain.CodeInvalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestABadHelloIsRefused(t *testing.T) {
	for name, change := range map[string]func(*device.Introduce){
		"id":       func(c *device.Introduce) { c.Device = "My Mac" },
		"protocol": func(c *device.Introduce) { c.Protocol = 4 },
		"timezone": func(c *device.Introduce) { c.Timezone = strings.Repeat("x", 65) },
		"name":     func(c *device.Introduce) { c.Name.Text = strings.Repeat("é", 201) },
		"UTF-8":    func(c *device.Introduce) { c.Name.Text = "\xff" },
	} {
		said := hello
		change(&said)
		var no *domain.Rejection
		if _, err := (device.State{}).Decide(said); !errors.As(err, &no) || no.Code != domain.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
