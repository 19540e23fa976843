// Package modeltest is a model server for tests and benchmarks: it speaks the OpenAI protocol over HTTP on
// loopback, streams, calls tools, and has every fault that real ones have. What it answers is a script, or
// another model behind it. It is no part of the product.
package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Request is what the server was asked.
type Request struct {
	Model    string    `json:"model"`
	Messages []Message `json:"messages"`
	Tools    []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Stream     bool            `json:"stream"`

	// N counts the requests from 1.
	N      int         `json:"-"`
	Header http.Header `json:"-"`
}

// Message is a message of the protocol.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ToolCall is a tool call of the protocol, or a piece of one.
type ToolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Last is the text of the newest message of that role.
func (r Request) Last(role string) string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == role {
			return m.Content
		}
	}
	return ""
}

// Script says how a request is answered.
type Script func(ctx context.Context, r Request) Reply

// Server answers by its script. Its zero value is not ready: use Start.
type Server struct {
	// URL is the base URL, with /v1.
	URL    string
	script Script
	http   *http.Server
	done   chan struct{}
	stop   context.CancelFunc

	mu       sync.Mutex
	requests []Request
}

// Start serves on a free port of loopback until Close.
func Start(script Script) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("model server: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{URL: "http://" + listener.Addr().String() + "/v1", script: script, done: make(chan struct{}), stop: stop}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // until Close
	}()
	return s, nil
}

// Close cuts every connection and waits for the server to have stopped.
func (s *Server) Close() {
	s.stop()
	_ = s.http.Close()
	<-s.done
}

// Requests are the chat requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) chat(w http.ResponseWriter, hr *http.Request) {
	var r Request
	if err := json.NewDecoder(http.MaxBytesReader(w, hr.Body, 64<<20)).Decode(&r); err != nil {
		fault(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	r.Header = hr.Header
	s.mu.Lock()
	r.N = len(s.requests) + 1
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	reply := s.script(hr.Context(), r)
	if reply.Status >= 400 {
		if reply.RetryAfter != "" {
			w.Header().Set("Retry-After", reply.RetryAfter)
		}
		fault(w, reply.Status, reply.Code, reply.Message)
		return
	}
	if r.Stream {
		reply.stream(w, hr, r)
		return
	}
	reply.whole(w, r)
}

func fault(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": code, "code": code}})
}

// embeddings answers with vectors of 1536 numbers that depend on the text's bytes.
func (s *Server) embeddings(w http.ResponseWriter, hr *http.Request) {
	var r struct {
		Input []string `json:"input"`
		Model string   `json:"model"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, hr.Body, 8<<20)).Decode(&r); err != nil {
		fault(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	type item struct {
		Object    string    `json:"object"`
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	items := make([]item, len(r.Input))
	for i, text := range r.Input {
		items[i] = item{"embedding", i, make([]float32, 1536)}
		for at, b := range []byte(text) {
			items[i].Embedding[(at*31+int(b))%1536]++
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"object": "list", "model": r.Model, "data": items, "usage": map[string]int{"prompt_tokens": 1, "total_tokens": 1},
	})
}
