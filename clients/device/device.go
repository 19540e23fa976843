package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	maxFrame    = 8 << 20
	silence     = 75 * time.Second // the server pings every 30 s
	writeWithin = 10 * time.Second
)

// ErrUnauthorized ends Run: the backend refused a token that was just fetched, twice in a row.
var ErrUnauthorized = errors.New("device: the backend refuses the token")

// ErrReplaced ends Run: the same device connected from elsewhere.
var ErrReplaced = errors.New("device: the same device connected elsewhere")

// CodeReplaced is the close code that says so.
const CodeReplaced = 4001

// Device is one installed client. Run keeps it connected; Send may be called before and at any time.
type Device struct {
	o Options

	mu      sync.Mutex
	socket  *socket            // nil while disconnected
	waiters chan struct{}      // closed at the next connect
	open    map[string]*Stream // requests without an end, by request id
	order   []string           // their ids, in the order of Send
	running string             // v2: the request that was sent; frames carry no id
}

// New checks the options.
func New(o Options) (*Device, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	o.Protocol = cmp.Or(o.Protocol, V3)
	o.MinBackoff, o.MaxBackoff = cmp.Or(o.MinBackoff, 500*time.Millisecond), cmp.Or(o.MaxBackoff, 20*time.Second)
	o.Dialer = cmp.Or(o.Dialer, &websocket.Dialer{HandshakeTimeout: 15 * time.Second, Proxy: http.ProxyFromEnvironment})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Device{o: o, waiters: make(chan struct{}), open: map[string]*Stream{}}, nil
}

// Store is the device's database.
func (d *Device) Store() *Store { return d.o.Store }

// Run connects and stays connected until ctx ends. It returns when every call in hand is done.
func (d *Device) Run(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	defer d.endAll(errors.New("device: stopped"))
	refused, wait := 0, d.o.MinBackoff
	for {
		began := time.Now()
		err := d.session(ctx, &calls)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errRefused):
			if refused++; refused > 1 {
				return ErrUnauthorized
			}
		case websocket.IsCloseError(err, CodeReplaced):
			return ErrReplaced
		default:
			refused = 0
		}
		if time.Since(began) > d.o.MaxBackoff {
			wait = d.o.MinBackoff
		}
		d.o.Log.Debug("disconnected", "device", d.o.DeviceID, "error", err, "again_within", wait)
		// Full jitter: a server that restarts is not met by all its clients at once.
		timer := time.NewTimer(rand.N(wait)) //nolint:gosec // no secret
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		wait = min(2*wait, d.o.MaxBackoff)
	}
}

var errRefused = errors.New("the handshake was refused")

// session is one socket's life.
func (d *Device) session(ctx context.Context, calls *sync.WaitGroup) error {
	s, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer s.kill()
	stop := context.AfterFunc(ctx, s.bye)
	defer stop()
	if err := s.write(d.introduction()); err != nil {
		return err
	}
	if d.o.Protocol == Undeclared {
		if err := d.connected(ctx, s); err != nil {
			return err
		}
	}
	defer d.disconnected(s)
	for {
		raw, err := s.read()
		if err != nil {
			return err
		}
		if err := d.handle(ctx, s, raw, calls); err != nil {
			return err
		}
	}
}

func (d *Device) dial(ctx context.Context) (*socket, error) {
	token, err := d.o.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("device: token: %w", err)
	}
	u, err := url.Parse(d.o.URL)
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	u.Scheme = map[string]string{"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}[u.Scheme]
	u.Path = strings.TrimSuffix(u.Path, "/") + "/api/v1/ws/device"
	conn, response, err := d.o.Dialer.DialContext(ctx, u.String(), http.Header{"Authorization": {"Bearer " + token}}) //nolint:bodyclose // the dialer has closed the connection; the body is a copy
	if err != nil {
		if response != nil && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) {
			return nil, fmt.Errorf("device: %w: %s", errRefused, response.Status)
		}
		return nil, fmt.Errorf("device: connect: %w", err)
	}
	conn.SetReadLimit(maxFrame)
	return &socket{conn: conn}, nil
}

func (d *Device) introduction() map[string]any {
	hello := map[string]any{"type": "device_hello", "device_id": d.o.DeviceID, "agent_ids": d.o.Agents}
	if d.o.Agents == nil {
		hello["agent_ids"] = []string{}
	}
	if d.o.Protocol != Undeclared {
		hello["protocol"] = d.o.Protocol
	}
	if d.o.Name != "" {
		hello["name"] = d.o.Name
	}
	if d.o.Timezone != "" {
		hello["timezone"] = d.o.Timezone
	}
	if !d.o.Forgetful {
		hello["journal"] = true
	}
	return hello
}

// connected sends what waited: answers that were never acknowledged, then requests without an end.
func (d *Device) connected(ctx context.Context, s *socket) error {
	if !d.o.Forgetful {
		entries, err := d.o.Store.Unacknowledged(ctx)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := s.write(result("", e.CallID, e.Answer)); err != nil {
				return err
			}
		}
	}
	// Under the lock, so that a Send either finds the socket or is found here, and never both.
	d.mu.Lock()
	defer d.mu.Unlock()
	d.socket, d.running = s, ""
	close(d.waiters)
	d.waiters = make(chan struct{})
	for _, id := range d.order {
		if err := d.submit(d.open[id]); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) disconnected(s *socket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.socket == s {
		d.socket = nil
	}
}

// Ready waits until the device is connected and introduced.
func (d *Device) Ready(ctx context.Context) error {
	d.mu.Lock()
	wait, is := d.waiters, d.socket != nil
	d.mu.Unlock()
	if is {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait:
		return nil
	}
}

// Cut kills the socket without a word, as a lost network does. Run connects again.
func (d *Device) Cut() {
	if s := d.current(); s != nil {
		s.kill()
	}
}

func (d *Device) current() *socket {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.socket
}
