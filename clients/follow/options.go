package follow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gorilla/websocket"
)

// Options say what kind of client this is.
type Options struct {
	URL      string                                // of the backend, such as http://127.0.0.1:8700
	Token    func(context.Context) (string, error) // asked at every connect
	DeviceID string                                // made once by the installation and kept
	Framing  Framing

	MinBackoff time.Duration // between connects; zero: 500 ms
	MaxBackoff time.Duration // zero: 20 s
	// Silence is after how long without a word a connection counts as dead. Zero: 75 s; the server pings every 30 s.
	Silence time.Duration
	Dialer  *websocket.Dialer
	Log     *slog.Logger
}

// Framing says how events come.
type Framing int

// The framings.
const (
	Batched Framing = iota // several in a frame
	Single                 // one in a frame, as clients get them that say nothing
)

func (o Options) validate() error {
	var errs []error
	if o.URL == "" {
		errs = append(errs, errors.New("no URL"))
	}
	if o.Token == nil {
		errs = append(errs, errors.New("no Token"))
	}
	if o.DeviceID == "" {
		errs = append(errs, errors.New("no DeviceID"))
	}
	return errors.Join(errs...)
}

// Place is how far a subscription is: the seq of a stream's event, or the position of a scope's, and that event's hash. A
// program that keeps it goes on there after its own restart.
type Place struct {
	Cursor uint64 `json:"cursor"` // 0: before the first event
	Hash   string `json:"hash,omitempty"`
}

// Want is what is followed: a stream, or a whole scope.
type Want struct {
	ID     string // its name here, unique while it is followed
	Stream string // such as thread-…
	Scope  string // such as user-…, instead of Stream
	// From is the last place one has. Nil: from now on.
	From *Place
	// AgentID and Types leave out other events of a scope.
	AgentID string
	Types   []string
	Proof   Proof

	// OnEvent is given each event, once and in order. An error ends Run with the event not counted as had.
	OnEvent func(Event) error
	// OnPlace is told where the subscription is: where it begins if that is now, after an event was taken, and when the cursor
	// moved over what the filter left out.
	OnPlace func(Place)
	// OnLive is given what is streaming now: provisional, and nothing of it comes again.
	OnLive func(Live)
	// OnReset loads anew what is followed, and answers from where to go on. Nil: a reset ends Run, as a *Reset.
	OnReset func(Reset) (Place, error)
}

// Proof is what each event is held to beside its order.
type Proof int

// The proofs.
const (
	Ordered  Proof = iota // versions and positions
	Verified              // the hash chain and the digests, recomputed from the stored bytes, which come along
)

func (w Want) validate() error {
	switch {
	case w.ID == "":
		return errors.New("follow: a subscription without an ID")
	case (w.Stream == "") == (w.Scope == ""):
		return errors.New("follow: a subscription is of a Stream or of a Scope")
	case w.Stream != "" && w.filtered():
		return errors.New("follow: only a Scope is filtered")
	case w.OnEvent == nil:
		return errors.New("follow: a subscription without OnEvent")
	}
	return nil
}

func (w Want) filtered() bool { return w.AgentID != "" || len(w.Types) > 0 }
