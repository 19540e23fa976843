// Package chat is the terminal client: a real device on a local SQLite file that streams answers, shows
// tool calls, and keeps a journal of the calls it did.
package chat

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/term"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/clients/device"
)

// Options say who chats, where, and with what database.
type Options struct {
	URL      string // of the backend
	Email    string // with Password: logs in
	Password string
	Register bool // makes the account first
	// TokenFile keeps the session: with it, e-mail and password are needed only once.
	TokenFile string
	DB        string // the device's SQLite file
	Name      string // of the device; empty: the host's
	Timezone  string // IANA
	Thread    string // to go on with; empty: a new one
	Message   string // one message, then the end; empty: lines of In
	JSON      bool   // frames and answers as JSON, one a line
	In        io.Reader
	Out       io.Writer
	Log       *slog.Logger
}

// Run chats until In or ctx ends. A single message that fails is an error.
func Run(ctx context.Context, o Options) error {
	client, err := Session(ctx, o)
	if err != nil {
		return err
	}
	store, err := device.OpenStore(ctx, o.DB, nil)
	if err != nil {
		return err
	}
	id, err := store.Identity(ctx, uuid.NewString())
	if err != nil {
		return errors.Join(err, store.Close())
	}
	s := &screen{out: o.Out, json: o.JSON, person: typing(o.In)}
	d, err := device.New(device.Options{
		URL: o.URL, Token: client.Token, DeviceID: id, Name: cmp.Or(o.Name, hostname()), Timezone: o.Timezone, Store: store,
		OnAnswer: s.did, Log: o.Log,
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() {
		err := d.Run(ctx)
		cancel() // what waits for the device must not wait for ever
		stopped <- err
	}()
	err = talk(ctx, o, d, s)
	cancel()
	if why := <-stopped; why != nil && !errors.Is(why, context.Canceled) {
		err = why // the reason that talk ended
	}
	if errors.Is(err, context.Canceled) {
		err = nil // somebody wanted to stop
	}
	return errors.Join(err, store.Close())
}

// Session is the session that TokenFile keeps, or a new one by e-mail and password.
func Session(ctx context.Context, o Options) (*api.Client, error) {
	var options []api.Option
	if o.TokenFile != "" {
		file := api.TokenFile(o.TokenFile)
		options = append(options, api.KeepingTokens(file.Save))
		tokens, ok, err := file.Load()
		if err != nil {
			return nil, err
		}
		if ok && o.Email == "" {
			return api.New(o.URL, append(options, api.WithTokens(tokens))...), nil
		}
	}
	if o.Email == "" || o.Password == "" {
		return nil, errors.New("nobody is logged in: make an account with --register EMAIL, or log in with --email EMAIL")
	}
	client := api.New(o.URL, options...)
	enter := client.Login
	if o.Register {
		enter = client.Register
	}
	if _, err := enter(ctx, o.Email, o.Password); err != nil {
		return nil, err
	}
	return client, nil
}

// talk sends the one message, or each line.
func talk(ctx context.Context, o Options, d *device.Device, s *screen) error {
	thread := o.Thread
	if o.Message != "" {
		_, err := turn(ctx, d, s, o.Message, thread)
		return err
	}
	lines, failed := reading(ctx, o.In)
	for {
		s.prompt()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, ok := <-lines:
			if !ok {
				s.end()
				return <-failed
			}
			s.typed()
			switch line = strings.TrimSpace(line); line {
			case "":
				continue
			case "/new":
				thread = ""
				continue
			case "/quit", "/exit":
				return nil
			}
			next, err := turn(ctx, d, s, line, thread)
			var refused *device.RequestError
			if err != nil && !errors.As(err, &refused) {
				return err // not the request's fault, which the screen has shown
			}
			thread = cmp.Or(next, thread)
		}
	}
}

// typing reports whether in is a terminal.
func typing(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// reading hands out lines. Its goroutine ends with the input: a terminal's reader can't be interrupted, so it
// is not waited for.
func reading(ctx context.Context, in io.Reader) (<-chan string, <-chan error) {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, 2<<20)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				failed <- nil
				return
			}
		}
		failed <- scanner.Err()
	}()
	return lines, failed
}

// turn sends a message and shows the answer as it comes; it answers the thread it is in.
func turn(ctx context.Context, d *device.Device, s *screen, message, thread string) (string, error) {
	stream := d.Send(device.Request{Message: message, SessionID: thread})
	for {
		frame, ok, err := stream.Next(ctx)
		if err != nil {
			// Told while the socket still lives; the run ends as cancelled.
			_ = d.Cancel(stream.Request.RequestID)
			return thread, err
		}
		if !ok {
			break
		}
		s.show(frame)
	}
	result, err := stream.Wait(ctx)
	if err != nil {
		return thread, err
	}
	s.done(result)
	return result.SessionID, result.Err
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "terminal"
	}
	return name
}

// line is v as one line of JSON.
func line(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
