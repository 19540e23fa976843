package rest

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// threadHead answers a thread's newest seq.
func (s *server) threadHead(c echo.Context) error {
	q, err := parameters(c)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	_, w, err := s.history(c, q)
	if err != nil {
		return err
	}
	if done, err := etag(c, w.Max); done {
		return err
	}
	return s.json(c, http.StatusOK, window{w.Min, w.Max, w.Next})
}

// lastItem answers the newest entry that a chat shows, null where there is none.
func (s *server) lastItem(c echo.Context) error {
	e, err := s.newest(c, func(entry) bool { return true })
	if err != nil {
		return err
	}
	return s.json(c, http.StatusOK, struct {
		Entry *entry `json:"entry"`
	}{e})
}

// lastMessage answers the newest assistant message as plain text, null where there is none.
func (s *server) lastMessage(c echo.Context) error {
	e, err := s.newest(c, func(e entry) bool { return e.Kind == kindAssistant })
	if err != nil {
		return err
	}
	var message struct {
		Seq  *uint64 `json:"seq"`
		At   *string `json:"at"`
		Text *string `json:"text"`
	}
	if e != nil {
		if item, ok := e.Item.(assistantItem); ok {
			text := plain(item.Text)
			message.Seq, message.At, message.Text = &e.Seq, &e.At, &text
		}
	}
	return s.json(c, http.StatusOK, message)
}

// newest finds the newest entry that a chat shows and that is wanted.
func (s *server) newest(c echo.Context, wanted func(entry) bool) (*entry, error) {
	q, err := parameters(c)
	if err != nil {
		return nil, err
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	f := fetch{direction: "before", limit: 10}
	if f.key, f.window, err = s.history(c, q); err != nil {
		return nil, err
	}
	f.seq = f.window.Next
	for {
		entries, more, err := s.collect(c.Request().Context(), f)
		if err != nil {
			return nil, err
		}
		for i := len(entries) - 1; i >= 0; i-- {
			if wanted(entries[i]) {
				return &entries[i], nil
			}
		}
		if !more {
			return nil, nil
		}
		f.seq = entries[0].Seq
	}
}

// getRequest answers whether a message with that request id was committed: a client whose answer was lost
// learns what became of it.
func (s *server) getRequest(c echo.Context) error {
	q, err := parameters(c)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	if err := s.await(c, q, modelRuns); err != nil {
		return err
	}
	scope, request := principal(c).Scope, param(c, "request")
	answer := requestView{RequestID: request}
	run, err := s.Runs.Get(c.Request().Context(), scope, streams.Derive(streams.CommandID(scope, request), "run"))
	switch {
	case errors.Is(err, projections.ErrNotFound):
	case err != nil:
		return err
	default:
		answer.Committed, answer.SessionID, answer.RunID, answer.Seq, answer.Status = true, run.Thread, run.ID, run.MessageVersion, string(run.Status)
	}
	return s.json(c, http.StatusOK, answer)
}

type requestView struct {
	RequestID string `json:"request_id"`
	Committed bool   `json:"committed"`
	SessionID string `json:"session_id,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	Seq       uint64 `json:"seq,omitempty"`
	Status    string `json:"status,omitempty"`
}
