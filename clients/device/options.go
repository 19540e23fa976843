package device

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/gorilla/websocket"
)

// The protocols a device may speak.
const (
	V3         = 3
	V2         = 2
	Undeclared = 1 // speaks v2 and does not say so, like the oldest clients; it gets no hello
)

// Options say what kind of client this is.
type Options struct {
	URL      string                                // of the backend, such as http://127.0.0.1:8080
	Token    func(context.Context) (string, error) // asked at every connect
	DeviceID string
	Name     string
	Timezone string // IANA
	Protocol int    // zero: V3
	Agents   []string
	Store    *Store
	// Forgetful clients keep no journal and say so: a call that arrives twice is done twice.
	Forgetful bool

	// OnFrame sees every frame from the backend, OnCall every call before it is done and OnAnswer after; OnDone those
	// that were done, and not answered by what the journal knows. They are called from several goroutines and must not
	// wait for the device.
	OnFrame  func(Frame)
	OnCall   func(Call)
	OnDone   func(Call)
	OnAnswer func(Call, Answer)
	// Fault, if set, says how the device misbehaves at a call.
	Fault func(Call) Fault

	MinBackoff time.Duration // between connects; zero: 500 ms
	MaxBackoff time.Duration // zero: 20 s
	Dialer     *websocket.Dialer
	Log        *slog.Logger
}

// Fault is how a device misbehaves at a call. Its zero value is how it behaves.
type Fault struct {
	Silent    bool            // takes the call, does nothing, never answers
	Hold      <-chan struct{} // does nothing until the channel is closed
	DieBefore bool            // its socket dies before the call is done
	DieAfter  bool            // its socket dies after the call is done and before it is answered
	DieMid    bool            // its socket dies in the middle of the answer's frame
	Twice     bool            // answers twice
	Answer    json.RawMessage // answers this, without doing the call
	Raw       []byte          // sends these bytes as the frame
}

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
	if o.Store == nil {
		errs = append(errs, errors.New("no Store"))
	}
	if o.Protocol < 0 || o.Protocol > V3 {
		errs = append(errs, errors.New("an unknown Protocol"))
	}
	return errors.Join(errs...)
}
