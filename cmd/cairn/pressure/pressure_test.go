package pressure_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/pressure"
	"github.com/cairnhq/cairn/streams"
)

const far = 10 * pressure.MaxBehind

// TestOnlyARunningFollowerThatIsFarBehindRefuses gives two readings each and asks for both partitions.
func TestOnlyARunningFollowerThatIsFarBehindRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		first, second pressure.Reading
		refused       bool
	}{
		"far behind and running":    {pressure.Reading{Next: 1, End: far}, pressure.Reading{Next: 2, End: far}, true},
		"far behind, standing":      {pressure.Reading{Next: 1, End: far}, pressure.Reading{Next: 1, End: far}, false},
		"far behind, stopped":       {pressure.Reading{Next: 1, End: far}, pressure.Reading{Next: 2, End: far, Stopped: true}, false},
		"level again":               {pressure.Reading{Next: 1, End: far}, pressure.Reading{Next: far, End: far}, false},
		"behind within the bound":   {pressure.Reading{Next: 1, End: 100}, pressure.Reading{Next: 2, End: pressure.MaxBehind}, false},
		"set back by a lost commit": {pressure.Reading{Next: 9, End: far}, pressure.Reading{Next: 3, End: far}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := pressure.New(pressure.Config{})
			for _, r := range []pressure.Reading{c.first, c.second} {
				r.Partition, r.Follower = 1, "it"
				p.Look([]pressure.Reading{r})
			}
			var busy *streams.Busy
			if err := p.Admit(context.Background(), 1); errors.As(err, &busy) != c.refused {
				t.Errorf("partition 1: %v", err)
			}
			if err := p.Admit(context.Background(), 0); err != nil {
				t.Errorf("partition 0, which nothing is known of: %v", err)
			}
		})
	}
}

// TestAnUnknownLagRefusesNothing lets the readings fail after they refused.
func TestAnUnknownLagRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings := make(chan []pressure.Reading, 3)
		for next := range int64(3) {
			readings <- []pressure.Reading{{Follower: "it", Next: next, End: far}}
		}
		p := pressure.New(pressure.Config{Read: func(context.Context) ([]pressure.Reading, error) {
			select {
			case r := <-readings:
				return r, nil
			default:
				return nil, errors.New("the database is away")
			}
		}})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		<-time.After(3500 * time.Millisecond)
		if p.Admit(ctx, 0) == nil {
			t.Error("a follower that is far behind refuses nothing")
		}
		<-time.After(time.Second)
		if err := p.Admit(ctx, 0); err != nil {
			t.Errorf("refused although nothing is known: %v", err)
		}
		cancel()
		_ = <-done
	})
}

// TestAFullDiskRefuses whatever the lag.
func TestAFullDiskRefuses(t *testing.T) {
	full := &streams.Busy{Reason: "full"}
	p := pressure.New(pressure.Config{Disk: func() error { return full }})
	if err := p.Admit(context.Background(), 0); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}
