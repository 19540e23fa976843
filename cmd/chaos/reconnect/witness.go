package reconnect

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnhq/cairn/clients/follow"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// Config says who a witness is and what it follows.
type Config struct {
	Name    string // also its device's
	URL     string
	Token   func(context.Context) (string, error)
	Framing follow.Framing
	Scope   domain.Scope
	// Whole follows the scope from its beginning, Late from the moment at which the witness first comes.
	Whole, Late bool
	Streams     []domain.Stream // each from its beginning
	Types       []string        // of the scope, from its beginning; none: no such subscription
	Silence     time.Duration   // after which a connection counts as dead; zero: the client's own
	MaxBackoff  time.Duration
	History     *history.Recorder
	Log         *slog.Logger
}

// Witness is a client that remembers what it was given, over all its connections and its own restarts.
type Witness struct {
	Config
	subscriptions []*subscription

	connects, slow, told, duplicates, holes atomic.Uint64
}

type subscription struct {
	name   string
	stream domain.Stream
	types  []string
	proof  follow.Proof

	mu    sync.Mutex
	place *follow.Place       // nil: it has none yet
	is    *history.Subscriber // nil: of a filtered one, or one that has no place
	given []given             // of a filtered one
	last  *uint64             // what comes after it is not recorded; nil: everything is
	moved chan struct{}       // closed when place moves
}

// given is an event that a filtered subscription was given.
type given struct {
	position uint64
	id       string
}

// NewWitness prepares one.
func NewWitness(c Config) *Witness {
	w := &Witness{Config: c}
	add := func(name string, stream domain.Stream, types []string, from *follow.Place) {
		s := &subscription{name: name, stream: stream, types: types, place: from, proof: follow.Verified, moved: make(chan struct{})}
		if from != nil && types == nil {
			s.is = c.History.Subscribe(c.Name+" "+name, c.Scope, stream, 0)
		}
		w.subscriptions = append(w.subscriptions, s)
	}
	if c.Whole {
		add("whole", "", nil, &follow.Place{})
	}
	if c.Late {
		add("late", "", nil, nil)
	}
	for _, stream := range c.Streams {
		add(string(stream), stream, nil, &follow.Place{})
	}
	if len(c.Types) > 0 {
		add("types", "", c.Types, &follow.Place{})
	}
	return w
}

// Online follows until ctx ends, as a program that was just started and knows where it was. An error is a broken promise.
func (w *Witness) Online(ctx context.Context) error {
	f, err := follow.New(follow.Options{
		URL: w.URL, Token: w.Token, DeviceID: w.Name, Framing: w.Framing, Silence: w.Silence, Log: w.Log,
		MinBackoff: 20 * time.Millisecond, MaxBackoff: w.MaxBackoff,
	})
	if err != nil {
		return err
	}
	var all []*follow.Subscription
	for _, s := range w.subscriptions {
		one, err := s.follow(f, w)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	err = f.Run(ctx)
	w.connects.Add(f.Connects())
	w.slow.Add(f.Slow())
	w.told.Add(f.Told())
	for _, one := range all {
		n := one.Counts()
		w.duplicates.Add(n.Duplicates)
		w.holes.Add(n.Holes)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("%s: %w", w.Name, err)
}

func (s *subscription) follow(f *follow.Follower, w *Witness) (*follow.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := follow.Want{
		ID: s.name, Stream: string(s.stream), Types: s.types, Proof: s.proof,
		OnEvent: s.take,
		OnPlace: func(p follow.Place) { s.move(w, p) },
	}
	if s.stream == "" {
		want.Scope = string(w.Scope)
	}
	if s.place != nil {
		want.From = new(*s.place)
	}
	return f.Follow(want)
}

// take records an event.
func (s *subscription) take(e follow.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := e.Position
	if s.stream != "" {
		at = e.Seq
	}
	if s.last != nil && at > *s.last {
		return nil
	}
	if s.types != nil {
		s.given = append(s.given, given{e.Position, e.ID})
		return nil
	}
	hash, err := hex.DecodeString(e.Hash)
	s.is.Delivered(at, e.ID, hash)
	return err
}

func (s *subscription) move(w *Witness, p follow.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is == nil && s.types == nil { // it was told where it begins
		s.is = w.History.Subscribe(w.Name+" "+s.name, w.Scope, s.stream, p.Cursor)
	}
	s.place = &p
	close(s.moved)
	s.moved = make(chan struct{})
}

// Level waits until everything up to a position of the scope, and of its streams up to their heads, was given. Online runs
// meanwhile.
func (w *Witness) Level(ctx context.Context, position uint64, heads map[domain.Stream]uint64) error {
	for _, s := range w.subscriptions {
		to := position
		if s.stream != "" {
			to = heads[s.stream]
		}
		if err := s.reached(ctx, to); err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	return nil
}

func (s *subscription) reached(ctx context.Context, to uint64) error {
	for {
		s.mu.Lock()
		at, moved, is := s.place, s.moved, s.is
		s.mu.Unlock()
		if at != nil && at.Cursor >= to {
			if is != nil && to > 0 {
				is.Level()
			}
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			if at == nil {
				at = &follow.Place{}
			}
			return fmt.Errorf("%s stands at %d of %d: %w", s.name, at.Cursor, to, context.Cause(ctx))
		}
	}
}

// Begun waits until every subscription has a place. Online runs meanwhile.
func (w *Witness) Begun(ctx context.Context) error { return w.Level(ctx, 0, nil) }

// Cease has what lies beyond a reading of the log not recorded: it can't be judged by that.
func (w *Witness) Cease(position uint64, heads map[domain.Stream]uint64) {
	for _, s := range w.subscriptions {
		s.mu.Lock()
		s.last = new(position)
		if s.stream != "" {
			s.last = new(heads[s.stream])
		}
		s.mu.Unlock()
	}
}

// Counts are what a witness met.
type Counts struct {
	Connects uint64 `json:"connects"`
	Slow     uint64 `json:"slow"`       // closed because it did not read fast enough
	Told     uint64 `json:"announced"`  // told beforehand that the socket ends
	Again    uint64 `json:"duplicates"` // events that came twice on one subscription
	Holes    uint64 `json:"holes"`
}

// Counts are what it met while it was online.
func (w *Witness) Counts() Counts {
	return Counts{w.connects.Load(), w.slow.Load(), w.told.Load(), w.duplicates.Load(), w.holes.Load()}
}
