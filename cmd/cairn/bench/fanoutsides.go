package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/cmd/cairn/bench/sockets"
	"github.com/cairnhq/cairn/domain"
)

// side is one of those that are compared: a server in a process of its own, what is published there, and how clients listen.
type side interface {
	server() *obedient
	// subject is what is published, from a number that was not used yet.
	subject() order
	// calls are those of so many clients, by names of their own, that listen to what comes after the first so many events of the
	// subject.
	calls(names string, n int, after int64) ([]sockets.Call, error)
	// published notes that the subject has so many more events.
	published(events int64)
	// level is how many events the subject has.
	level() int64
}

// ours is Cairn: an account with a thread, to which each client subscribes as a device of its own.
type ours struct {
	process *obedient
	api     *api.Client
	scope   domain.Scope
	stream  string
	events  int64
	payload [2]string // an event as a client gets it, around its number
}

// startOurs starts a Cairn under dir with an account, and a thread that has one event.
func startOurs(ctx context.Context, binary, dir string) (*ours, error) {
	env := []string{"CAIRN_LOG_LEVEL=warn", "CAIRN_COMMAND_RATE=1000000", "CAIRN_COMMAND_BURST=1000000"}
	process, err := startObedient(ctx, "Cairn", env, binary, "bench", "fanout-serve",
		"--data", filepath.Join(dir, "cairn"), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &ours{process: process, api: api.New(process.url)}
	if err := o.begin(ctx); err != nil {
		return nil, errors.Join(err, process.end())
	}
	return o, nil
}

func (o *ours) begin(ctx context.Context) error {
	account, err := o.api.Register(ctx, uuid.NewString()[:8]+"@example.com", uuid.NewString())
	if err != nil {
		return fmt.Errorf("bench: register: %w", err)
	}
	o.scope = domain.Scope(account.Scope)
	if err := o.open(ctx); err != nil {
		return err
	}
	o.payload, err = o.sample(ctx)
	return err
}

// open opens the thread that is listened to.
func (o *ours) open(ctx context.Context) error {
	var opened struct{ ID string }
	said, err := o.api.Do(ctx, http.MethodPost, "/api/v1/threads", map[string]string{"title": "The fair"}, &opened)
	if err != nil {
		return fmt.Errorf("bench: open a thread: %w", err)
	}
	o.stream = string(domain.NewStream("thread", opened.ID))
	var page struct {
		Window struct {
			Max int64 `json:"max_seq"`
		}
	}
	path := "/api/v1/threads/" + opened.ID + "/timeline?limit=1&min_position=" + url.QueryEscape(said.Get("Position"))
	if err := o.api.Get(ctx, path, &page); err != nil {
		return fmt.Errorf("bench: read the thread: %w", err)
	}
	o.events = page.Window.Max
	return nil
}

// sample publishes one event, number 0, and takes it as a client gets it.
func (o *ours) sample(ctx context.Context) (payload [2]string, err error) {
	calls, err := o.calls("sample", 1, o.events)
	if err != nil {
		return payload, err
	}
	if _, err := o.process.ask(ctx, order{Do: orderPublish, Scope: o.scope, Stream: o.stream, Count: 1}); err != nil {
		return payload, err
	}
	o.published(1)
	conn, response, err := websocket.DefaultDialer.DialContext(ctx, strings.Replace(o.process.url, "http", "ws", 1)+calls[0].Path, header(calls[0]))
	if err != nil {
		return payload, fmt.Errorf("bench: connect: %w", err)
	}
	response.Body.Close()
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	for _, said := range calls[0].Say {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(said)); err != nil {
			return payload, fmt.Errorf("bench: %w", err)
		}
	}
	for {
		_, raw, err := conn.ReadMessage()
		if err != nil {
			return payload, fmt.Errorf("bench: wait for the first event: %w", err)
		}
		var f struct {
			Type    string
			Message string
			Events  []json.RawMessage
		}
		if err := json.Unmarshal(raw, &f); err != nil || f.Type == "error" || f.Type == "reset" {
			return payload, fmt.Errorf("bench: instead of the first event came %s", raw)
		}
		if f.Type == "events" && len(f.Events) > 0 {
			before, after, ok := bytes.Cut(f.Events[0], []byte(sockets.Mark(0)))
			if !ok {
				return payload, fmt.Errorf("bench: the first event has no number: %s", f.Events[0])
			}
			return [2]string{string(before) + "~", "~" + string(after)}, nil
		}
	}
}

func header(call sockets.Call) http.Header {
	h := http.Header{}
	for _, line := range call.Header {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	return h
}

// another is another thread of the account.
func (o *ours) another(ctx context.Context) (*ours, error) {
	other := &ours{process: o.process, api: o.api, scope: o.scope, payload: o.payload}
	return other, other.open(ctx)
}

func (o *ours) server() *obedient      { return o.process }
func (o *ours) subject() order         { return order{Scope: o.scope, Stream: o.stream} }
func (o *ours) published(events int64) { o.events += events }
func (o *ours) level() int64           { return o.events }

func (o *ours) calls(names string, n int, after int64) ([]sockets.Call, error) {
	token, err := o.api.Token(context.Background())
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	address, err := hostOf(o.process.url)
	if err != nil {
		return nil, err
	}
	calls := make([]sockets.Call, n)
	for i := range calls {
		calls[i] = sockets.Call{
			Address: address, Path: "/api/v1/ws/device", Header: []string{"Authorization: Bearer " + token},
			Say: []string{
				fmt.Sprintf(`{"type":"device_hello","protocol":3,"device_id":"%s-%d","journal":true,"batch":true}`, names, i),
				fmt.Sprintf(`{"type":"subscribe","id":"s","stream":%q,"after":%d}`, o.stream, after),
			},
			Await: `"type":"subscribed"`, Refused: `"type":"error"`,
		}
	}
	return calls, nil
}

func hostOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	return u.Host, nil
}

// centrifuge is the peer, one channel of it with one way of writing to its connections.
type centrifuge struct {
	process *obedient
	channel string
	token   string
	wish    string // how its connections want to be written to
	payload [2]string
	events  int64
	epoch   string
}

// The ways in which centrifuge writes to a connection: at once, at most 16 messages a frame, which is its default; and what it
// recommends for many messages: collected for 10 ms, any number in a frame.
const (
	wishAtOnce  = `{}`
	wishDelayed = `{"delay_ms":10,"messages":-1}`
)

// peerUser owns the channels.
const peerUser = "ada"

// on is another channel in the same process, and a way of writing to its connections.
func (c *centrifuge) on(kind, wish string) *centrifuge {
	return &centrifuge{process: c.process, channel: kind + ":" + peerUser + ":" + uuid.NewString(), token: c.token, wish: wish, payload: c.payload}
}

func startCentrifuge(ctx context.Context, program string, payload [2]string) (*centrifuge, error) {
	env := []string{}
	if os.Getenv("GOGC") == "" {
		env = append(env, "GOGC=400") // as Cairn sets it itself
	}
	process, err := startObedient(ctx, "the peer", env, program)
	if err != nil {
		return nil, err
	}
	a, err := process.ask(ctx, order{Do: orderToken, User: peerUser})
	if err != nil {
		return nil, errors.Join(err, process.end())
	}
	return &centrifuge{process: process, token: a.Token, payload: payload}, nil
}

func (c *centrifuge) server() *obedient      { return c.process }
func (c *centrifuge) subject() order         { return order{Stream: c.channel, Payload: c.payload} }
func (c *centrifuge) published(events int64) { c.events += events }
func (c *centrifuge) level() int64           { return c.events }

func (c *centrifuge) calls(_ string, n int, after int64) ([]sockets.Call, error) {
	address, err := hostOf(c.process.url)
	if err != nil {
		return nil, err
	}
	subscribe := fmt.Sprintf(`{"id":2,"subscribe":{"channel":%q}}`, c.channel)
	if after < c.events {
		if err := c.learnEpoch(address); err != nil {
			return nil, err
		}
		subscribe = fmt.Sprintf(`{"id":2,"subscribe":{"channel":%q,"recover":true,"epoch":%q,"offset":%d}}`, c.channel, c.epoch, after)
	}
	call := sockets.Call{
		Address: address, Path: "/connection/websocket",
		Say:   []string{fmt.Sprintf(`{"id":1,"connect":{"token":%q,"data":%s}}`, c.token, c.wish), subscribe},
		Await: `{"id":2,"subscribe"`, Refused: `"error":`,
	}
	calls := make([]sockets.Call, n)
	for i := range calls {
		calls[i] = call
	}
	return calls, nil
}

// learnEpoch asks for the epoch of the channel's history, which who recovers has to name.
func (c *centrifuge) learnEpoch(address string) error {
	if c.epoch != "" {
		return nil
	}
	conn, response, err := websocket.DefaultDialer.Dial("ws://"+address+"/connection/websocket", nil)
	if err != nil {
		return fmt.Errorf("bench: connect to the peer: %w", err)
	}
	response.Body.Close()
	defer conn.Close()
	for _, said := range []string{fmt.Sprintf(`{"id":1,"connect":{"token":%q}}`, c.token), fmt.Sprintf(`{"id":2,"subscribe":{"channel":%q}}`, c.channel)} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(said)); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
	}
	for {
		_, raw, err := conn.ReadMessage()
		if err != nil {
			return fmt.Errorf("bench: ask the peer for its epoch: %w", err)
		}
		for line := range bytes.Lines(raw) {
			var reply struct{ Subscribe struct{ Epoch string } }
			if json.Unmarshal(line, &reply) == nil && reply.Subscribe.Epoch != "" {
				c.epoch = reply.Subscribe.Epoch
				return nil
			}
		}
	}
}

// buildPeer builds the peer into dir from the checkout that this program runs in.
func buildPeer(ctx context.Context, dir string) (string, error) {
	const where = "deploy/peers/fanout"
	if _, err := os.Stat(filepath.Join(where, "go.mod")); err != nil {
		return "", fmt.Errorf("bench: the peer is built from %s, which is not here: run this in Cairn's checkout, or build the peer elsewhere and name it with --peer", where)
	}
	program := filepath.Join(dir, "fanout-peer")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".") //nolint:gosec // nothing of it comes from outside
	build.Dir = where
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("bench: build the peer in %s: %w: %s (or name one that is built with --peer)", where, err, out)
	}
	return program, nil
}
