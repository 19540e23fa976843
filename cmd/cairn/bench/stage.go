package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
)

// embeddedConfig is the set-up of `cairn dev` in dir, on a port of its own.
func embeddedConfig(dir string, roles []string) app.Config {
	return app.Config{
		Listen: "127.0.0.1:0", Data: dir, Era: 1, Replication: 1, TopicPrefix: "cairn", LogLevel: "warn", LogFormat: "text",
		MinFree: 1 << 30, Model: "bench", CommandRate: 1e6, CommandBurst: 1 << 20, Roles: roles,
	}
}

// scratch makes a directory that the database's user can enter, too; else its files would lie elsewhere, and stay there.
func scratch() (string, error) {
	dir, err := os.MkdirTemp("", "cairn-bench-")
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // it holds nothing of anybody's
	}
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	return dir, nil
}

// stage is a whole Cairn, a model that answers at once, and a device: all real, in one process.
type stage struct {
	model  *modeltest.Server
	device *device.Device
	// brokers are the embedded broker's addresses.
	brokers []string
	closers []func() error

	mu      sync.Mutex
	sent    time.Time     // when the model began to write its first piece of text
	text    time.Time     // when the client had its first stream_text
	called  time.Time     // when the device began its call
	working time.Duration // of the device on its calls
}

// What a person says, and so what the model does.
const (
	sayText = "How was the week of the fair?"
	sayTool = "Add a task: bring the tent"
)

// play is the model's script. It picks the agent for the router, calls a tool for who asks for a task, and says a sentence.
func (s *stage) play(_ context.Context, r modeltest.Request) modeltest.Reply {
	last := r.Messages[len(r.Messages)-1]
	switch {
	case len(r.Tools) == 0 && strings.Contains(r.Messages[0].Content, "task_agent:"):
		return modeltest.Text("task_agent")
	case last.Role == "user" && last.Content == sayTool:
		return modeltest.Calling(modeltest.Call{ID: uuid.NewString(), Name: "create_task", Arguments: `{"title":"Bring the tent","priority":"high"}`})
	}
	reply := modeltest.Text("It went well: everybody came, the tent held, and the cake was gone by noon.")
	reply.Sent = func(n int, at time.Time) {
		if n == 1 {
			s.mu.Lock()
			s.sent = at
			s.mu.Unlock()
		}
	}
	return reply
}

func (s *stage) onFrame(f device.Frame) {
	if f.Type != "stream_text" {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text.IsZero() {
		s.text = now
	}
}

func (s *stage) onCall(device.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called = time.Now()
}

func (s *stage) onAnswer(device.Call, device.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working += time.Since(s.called)
}

// startStage starts everything under dir. What goes wrong meanwhile is said on progress.
func startStage(ctx context.Context, dir string, progress io.Writer) (*stage, error) {
	s := &stage{}
	if err := s.start(ctx, dir, progress); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// stop ends what was started, the last first.
func (s *stage) stop() error {
	var failed error
	for _, end := range slices.Backward(s.closers) {
		failed = errors.Join(failed, end())
	}
	return failed
}

func (s *stage) closing(end func() error) { s.closers = append(s.closers, end) }

func (s *stage) start(ctx context.Context, dir string, progress io.Writer) (err error) {
	if s.model, err = modeltest.Start(s.play); err != nil {
		return err
	}
	s.closing(func() error { s.model.Close(); return nil })
	config := embeddedConfig(filepath.Join(dir, "cairn"), app.AllRoles())
	config.ModelURL = s.model.URL
	running, err := app.Start(ctx, config, "bench", app.NewLog(config, progress))
	if err != nil {
		return err
	}
	s.closing(func() error { running.Stop(); return nil })
	attached, url, err := config.Attach()
	if err != nil {
		return err
	}
	s.brokers = attached.Brokers
	client := api.New(url)
	if _, err := client.Register(ctx, uuid.NewString()[:8]+"@example.com", uuid.NewString()); err != nil {
		return fmt.Errorf("bench: register: %w", err)
	}
	store, err := device.OpenStore(ctx, filepath.Join(dir, "device.db"), nil)
	if err != nil {
		return err
	}
	s.closing(store.Close)
	if s.device, err = device.New(device.Options{
		URL: url, Token: client.Token, DeviceID: uuid.NewString(), Name: "bench", Timezone: "UTC", Store: store,
		OnFrame: s.onFrame, OnCall: s.onCall, OnAnswer: s.onAnswer,
	}); err != nil {
		return err
	}
	connected, disconnect := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { _ = s.device.Run(connected) }) // it connects again by itself, until disconnect
	s.closing(func() error { disconnect(); group.Wait(); return nil })
	return s.device.Ready(ctx)
}

// took is what one request took.
type took struct{ added, whole, device time.Duration }

// ask sends one request, in a thread of its own, and waits for its end.
func (s *stage) ask(ctx context.Context, message string) (took, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s.mu.Lock()
	s.sent, s.text, s.working = time.Time{}, time.Time{}, 0
	s.mu.Unlock()
	began := time.Now()
	result, err := s.device.Send(device.Request{Message: message}).Wait(ctx)
	whole := time.Since(began)
	if err = errors.Join(err, result.Err); err != nil {
		return took{}, fmt.Errorf("bench: a request failed: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent.IsZero() || s.text.IsZero() {
		return took{}, fmt.Errorf("bench: the answer %q came without text while it streamed", result.Text)
	}
	return took{added: s.text.Sub(s.sent), whole: whole, device: s.working}, nil
}
