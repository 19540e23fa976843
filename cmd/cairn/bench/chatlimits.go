package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
)

// chatLimits measure what a chat would take without a ring: the model's answer relayed to a socket as it comes, the model
// called alone, and the bare writes.
type chatLimits struct {
	stage  *stage
	client *kgo.Client
	server *http.Server
	socket *websocket.Conn
}

// writesTopic takes the produces that are measured; it has the settings of the log, which are the defaults.
const writesTopic = "bench.writes"

func newChatLimits(ctx context.Context, s *stage) (*chatLimits, error) {
	l := &chatLimits{stage: s}
	var err error
	if l.client, err = kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0)); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if _, err = kadm.NewClient(l.client).CreateTopic(ctx, 1, 1, nil, writesTopic); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: %w", err), l.close())
	}
	if err := l.startRelay(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: the relay: %w", err), l.close())
	}
	return l, nil
}

func (l *chatLimits) close() error {
	l.client.Close()
	var failed error
	if l.socket != nil {
		failed = l.socket.Close()
	}
	if l.server != nil {
		failed = errors.Join(failed, l.server.Close())
	}
	return failed
}

// end is where the log ends.
func (l *chatLimits) end(ctx context.Context) (int64, error) {
	ends, err := kadm.NewClient(l.client).ListEndOffsets(ctx, "cairn.log")
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("bench: the end of the log: %w", err)
	}
	end, _ := ends.Lookup("cairn.log", 0)
	return end.Offset, nil
}

// produces measures how long n synced produces take, one after the other, 30 times.
func (l *chatLimits) produces(ctx context.Context, n int) ([]time.Duration, error) {
	var all []time.Duration
	value := bytes.Repeat([]byte("A commit of a chat has about as much. "), 30)
	for range 30 {
		began := time.Now()
		for range n {
			if err := l.client.ProduceSync(ctx, &kgo.Record{Topic: writesTopic, Value: value}).FirstErr(); err != nil {
				return nil, fmt.Errorf("bench: produce: %w", err)
			}
		}
		all = append(all, time.Since(began))
	}
	return all, nil
}

// startRelay serves a socket that answers every message with the model's pieces of text, as they come.
func (l *chatLimits) startRelay(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var upgrader websocket.Upgrader
	l.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		socket, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer socket.Close()
		for {
			_, question, err := socket.ReadMessage()
			if err != nil {
				return
			}
			err = l.exchange(ctx, question, func(text string) error { return socket.WriteMessage(websocket.TextMessage, []byte(text)) })
			if err == nil {
				err = socket.WriteMessage(websocket.TextMessage, nil)
			}
			if err != nil {
				return
			}
		}
	})}
	go l.server.Serve(listener) //nolint:errcheck // until close
	l.socket, _, err = websocket.DefaultDialer.DialContext(ctx, "ws://"+listener.Addr().String(), nil)
	return err
}

// exchange asks the model and hands on the pieces of its text.
func (l *chatLimits) exchange(ctx context.Context, question []byte, each func(string) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.stage.model.URL+"/chat/completions", bytes.NewReader(question))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line, found := strings.CutPrefix(lines.Text(), "data: ")
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if !found || json.Unmarshal([]byte(line), &chunk) != nil || len(chunk.Choices) == 0 || chunk.Choices[0].Delta.Content == "" {
			continue
		}
		if err := each(chunk.Choices[0].Delta.Content); err != nil {
			return err
		}
	}
	return nil
}

// relayed measures the relay n times, from the model's first delta to the first message on the socket.
func (l *chatLimits) relayed(ctx context.Context, s *stage, n int) ([]time.Duration, error) {
	asked, err := lastAsked(s, 1)
	if err != nil {
		return nil, err
	}
	all := make([]time.Duration, n)
	for i := range all {
		if err := l.socket.WriteMessage(websocket.TextMessage, asked[0]); err != nil {
			return nil, fmt.Errorf("bench: the relay: %w", err)
		}
		for first := true; ; first = false {
			_, text, err := l.socket.ReadMessage()
			if err != nil {
				return nil, fmt.Errorf("bench: the relay: %w", err)
			}
			if len(text) == 0 {
				break
			}
			if first {
				now := time.Now()
				s.mu.Lock()
				all[i] = now.Sub(s.sent)
				s.mu.Unlock()
			}
		}
	}
	return all, ctx.Err()
}

// callsOfARun is how often a run with one tool call asks the model: the route, and two turns.
const callsOfARun = 3

// modelAlone is how long the model's calls of the last run take by themselves, the median of 20.
func (l *chatLimits) modelAlone(ctx context.Context, s *stage) (time.Duration, error) {
	asked, err := lastAsked(s, callsOfARun)
	if err != nil {
		return 0, err
	}
	var all []float64
	for range 20 {
		began := time.Now()
		for _, question := range asked {
			if err := l.exchange(ctx, question, func(string) error { return nil }); err != nil {
				return 0, fmt.Errorf("bench: the model: %w", err)
			}
		}
		all = append(all, float64(time.Since(began)))
	}
	return time.Duration(Median(all)), nil
}

// lastAsked are the last n requests that the model had, as they were sent.
func lastAsked(s *stage, n int) ([][]byte, error) {
	requests := s.model.Requests()
	var asked [][]byte
	for _, r := range requests[len(requests)-n:] {
		raw, err := json.Marshal(struct {
			modeltest.Request
		}{r})
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		asked = append(asked, raw)
	}
	return asked, nil
}
