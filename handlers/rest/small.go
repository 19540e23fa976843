package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

// GetThreadHead answers a thread's newest seq.
func (s *server) GetThreadHead(ctx context.Context, r contract.GetThreadHeadRequestObject) (contract.GetThreadHeadResponseObject, error) {
	_, w, err := s.history(ctx, r.Thread, r.Params.MinPosition)
	if err != nil {
		return nil, err
	}
	if callOf(ctx).fresh(w.Max, r.Params.IfNoneMatch) {
		return contract.GetThreadHead304Response{}, nil
	}
	return contract.GetThreadHead200JSONResponse{Body: contract.Window{MinSeq: w.Min, MaxSeq: w.Max, NextSeq: w.Next, PrunedBefore: windowOf(w).Pruned}}, nil
}

type lastView struct {
	Entry *entry `json:"entry"`
}

// GetLastEntry answers the newest entry that a chat shows, null where there is none.
func (s *server) GetLastEntry(ctx context.Context, r contract.GetLastEntryRequestObject) (contract.GetLastEntryResponseObject, error) {
	e, err := s.newest(ctx, r.Thread, r.Params.MinPosition, func(entry) bool { return true })
	if err != nil {
		return nil, err
	}
	return reply{http.StatusOK, lastView{e}}, nil
}

// GetLastMessage answers the newest assistant message as plain text, nulls where there is none.
func (s *server) GetLastMessage(ctx context.Context, r contract.GetLastMessageRequestObject) (contract.GetLastMessageResponseObject, error) {
	e, err := s.newest(ctx, r.Thread, r.Params.MinPosition, func(e entry) bool { return e.Kind == kindAssistant })
	if err != nil {
		return nil, err
	}
	var message contract.LastMessage
	if e != nil {
		if item, ok := e.Item.(assistantItem); ok {
			text := plain(item.Text)
			message.Seq, message.At, message.Text = &e.Seq, &e.At, &text
		}
	}
	return contract.GetLastMessage200JSONResponse{Body: message}, nil
}

// newest finds the newest entry that a chat shows and that is wanted. None is ErrPruned where it may have been deleted.
func (s *server) newest(ctx context.Context, name string, minimum *string, wanted func(entry) bool) (*entry, error) {
	f := fetch{direction: "before", limit: 10}
	var err error
	if f.key, f.window, err = s.history(ctx, name, minimum); err != nil {
		return nil, err
	}
	f.seq = f.window.Next
	for {
		entries, more, err := s.collect(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := len(entries) - 1; i >= 0; i-- {
			if wanted(entries[i]) {
				return &entries[i], nil
			}
		}
		switch {
		case more:
		case f.window.Min > 1:
			return nil, events.ErrPruned
		default:
			return nil, nil
		}
		f.seq = entries[0].Seq
	}
}

// GetRequest answers whether a message with that request id was committed: a client whose answer was lost
// learns what became of it.
func (s *server) GetRequest(ctx context.Context, r contract.GetRequestRequestObject) (contract.GetRequestResponseObject, error) {
	if err := s.await(ctx, r.Params.MinPosition, modelRuns); err != nil {
		return nil, err
	}
	scope := callOf(ctx).scope()
	answer := contract.RequestState{RequestID: r.RequestID}
	run, err := s.Runs.Get(ctx, scope, streams.Derive(streams.CommandID(scope, r.RequestID), "run"))
	switch {
	case errors.Is(err, projections.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		answer.Committed, answer.SessionID, answer.RunID = true, some(run.Thread), some(run.ID)
		answer.Seq, answer.Status = some(run.MessageVersion), some(string(run.Status))
	}
	return contract.GetRequest200JSONResponse{Body: answer}, nil
}
