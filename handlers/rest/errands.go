package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/streams"
)

// errandView is what a device was asked outside a run, and what became of it.
type errandView struct {
	ID          string            `json:"id"`
	DeviceID    string            `json:"device_id"`
	Kind        requests.Kind     `json:"kind"`
	Action      string            `json:"action"`
	Table       string            `json:"table,omitempty"`
	Status      requests.Status   `json:"status"`
	Reason      string            `json:"reason,omitempty"`
	Text        string            `json:"text,omitempty"`
	Bytes       int64             `json:"bytes,omitempty"`
	RequestedAt time.Time         `json:"requested_at"`
	WaitUntil   time.Time         `json:"wait_until"`
	OfferedAt   *time.Time        `json:"offered_at,omitempty"`
	EndedAt     *time.Time        `json:"ended_at,omitempty"`
	Request     json.RawMessage   `json:"request,omitempty"`
	Answer      json.RawMessage   `json:"answer,omitempty"`
	Mutations   []device.Mutation `json:"mutations,omitempty"`
	LateAnswer  json.RawMessage   `json:"late_answer,omitempty"`
}

// RequestData asks a device for rows and waits for them.
func (s *server) RequestData(ctx context.Context, r contract.RequestDataRequestObject) (contract.RequestDataResponseObject, error) {
	call := callOf(ctx)
	if err := nameable(r.Device); err != nil {
		return nil, err
	}
	if r.Body.Action == "get" && r.Body.Data == nil {
		return nil, invalid(wrong{Pointer: "/data", Detail: "is missing: a get needs the row's id"})
	}
	fields, err := fieldsOf(call.body, allowed(r.Body.Action))
	if err != nil {
		return nil, err
	}
	_, command := asked(ctx, r.Params.IdempotencyKey, nil)
	body := device.RequestData{
		Device: r.Device, RequestID: streams.Derive(command.ID, "request"), Action: r.Body.Action, Table: r.Body.Table,
		Wait: seconds(r.Body.WaitSeconds), Payload: device.Payload{Fields: fields},
	}
	command.Body = body
	answer, err := s.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	call.header().Set("Location", errandPath(r.Device, requests.Data, body.RequestID))
	short, cancel := context.WithTimeout(ctx, s.Limits.ChatWait)
	defer cancel()
	v, err := s.outcome(short, call, r.Device, body.RequestID)
	switch {
	case err == nil:
		return reply{http.StatusOK, v}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case short.Err() == nil:
		return nil, err
	}
	return reply{http.StatusAccepted, pending(body.RequestID, r.Device, requests.Data, body.Action, body.Table, fields, answer, body.Wait)}, nil
}

// RequestMutation asks a device to write. What comes of it is found at its Location.
func (s *server) RequestMutation(ctx context.Context, r contract.RequestMutationRequestObject) (contract.RequestMutationResponseObject, error) {
	call := callOf(ctx)
	if err := nameable(r.Device); err != nil {
		return nil, err
	}
	fields, err := fieldsOf(call.body, allowed(r.Body.Action))
	if err != nil {
		return nil, err
	}
	table := or(r.Body.Table, "")
	if faults := written(r.Body.Action, table, r.Body.Data, r.Body.Vector != nil); len(faults) > 0 {
		return nil, invalid(faults...)
	}
	_, command := asked(ctx, r.Params.IdempotencyKey, nil)
	body := device.RequestMutation{
		Device: r.Device, RequestID: streams.Derive(command.ID, "request"), Action: r.Body.Action, Table: table,
		Wait: seconds(r.Body.WaitSeconds), Payload: device.Payload{Fields: fields},
	}
	command.Body = body
	answer, err := s.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	call.header().Set("Location", errandPath(r.Device, requests.Mutation, body.RequestID))
	if answer.Repeated {
		if found, err := s.Requests.Get(ctx, call.scope(), body.RequestID); err == nil {
			v, _, err := s.viewErrand(ctx, found)
			return reply{http.StatusAccepted, v}, err
		}
	}
	return reply{http.StatusAccepted, pending(body.RequestID, r.Device, requests.Mutation, body.Action, table, fields, answer, body.Wait)}, nil
}

// CancelMutation takes a write back that was not sent yet.
func (s *server) CancelMutation(ctx context.Context, r contract.CancelMutationRequestObject) (contract.CancelMutationResponseObject, error) {
	call := callOf(ctx)
	if err := nameable(r.Device); err != nil {
		return nil, err
	}
	if err := nameable(r.Mutation); err != nil {
		return nil, err
	}
	_, command := asked(ctx, r.Params.IdempotencyKey, device.CancelRequest{Device: r.Device, RequestID: r.Mutation})
	if _, err := s.ask(ctx, command); err != nil {
		return nil, err
	}
	call.header().Set("Location", errandPath(r.Device, requests.Mutation, r.Mutation))
	short, cancel := context.WithTimeout(ctx, projections.Patience)
	defer cancel()
	v, err := s.outcome(short, call, r.Device, r.Mutation)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return nil, &problem{Code: "behind", Detail: "it is cancelled; the read model does not show it yet", retryAfter: time.Second}
	}
	if err != nil {
		return nil, err
	}
	return reply{http.StatusOK, v}, nil
}

// GetDataRequest answers a question to a device and what came of it.
func (s *server) GetDataRequest(ctx context.Context, r contract.GetDataRequestRequestObject) (contract.GetDataRequestResponseObject, error) {
	return s.errand(ctx, r.Device, r.DataRequest, requests.Data, r.Params.MinPosition)
}

// GetMutation answers a write on a device and what came of it.
func (s *server) GetMutation(ctx context.Context, r contract.GetMutationRequestObject) (contract.GetMutationResponseObject, error) {
	return s.errand(ctx, r.Device, r.Mutation, requests.Mutation, r.Params.MinPosition)
}

// ListDataRequests lists what a device was asked for.
func (s *server) ListDataRequests(ctx context.Context, r contract.ListDataRequestsRequestObject) (contract.ListDataRequestsResponseObject, error) {
	return s.errands(ctx, r.Device, requests.Data, r.Params.MinPosition, r.Params.Cursor, r.Params.Limit)
}

// ListMutations lists what a device was asked to write.
func (s *server) ListMutations(ctx context.Context, r contract.ListMutationsRequestObject) (contract.ListMutationsResponseObject, error) {
	return s.errands(ctx, r.Device, requests.Mutation, r.Params.MinPosition, r.Params.Cursor, r.Params.Limit)
}

func (s *server) errand(ctx context.Context, name, id string, kind requests.Kind, minimum *string) (reply, error) {
	if err := nameable(id); err != nil {
		return reply{}, err
	}
	if err := s.await(ctx, minimum, modelRequests, modelEvents); err != nil {
		return reply{}, err
	}
	scope := callOf(ctx).scope()
	found, err := s.Requests.Get(ctx, scope, id)
	if err != nil {
		return reply{}, err
	}
	if found.Device != name || found.Kind != kind {
		return reply{}, fmt.Errorf("rest: request %s: %w", id, projections.ErrNotFound)
	}
	v, _, err := s.viewErrand(ctx, found)
	return reply{http.StatusOK, v}, err
}

func (s *server) errands(ctx context.Context, name string, kind requests.Kind, minimum, cursor *string, limit *int) (reply, error) {
	before := uint64(0)
	if cursor != nil {
		var err error
		if before, err = strconv.ParseUint(*cursor, 10, 63); err != nil || before == 0 {
			return reply{}, invalid(wrong{Pointer: "cursor", Detail: notGivenOut})
		}
	}
	if err := nameable(name); err != nil {
		return reply{}, err
	}
	if err := s.await(ctx, minimum, modelRequests, modelDevices); err != nil {
		return reply{}, err
	}
	call, most := callOf(ctx), or(limit, defaultLimit)
	if _, err := s.Devices.Get(ctx, call.scope(), name); err != nil {
		return reply{}, err
	}
	found, err := s.Requests.ByDevice(ctx, call.scope(), name, kind, before, most+1)
	if err != nil {
		return reply{}, err
	}
	next := ""
	if len(found) > most {
		found = found[:most]
		next = strconv.FormatUint(found[most-1].Position, 10)
	}
	views := make([]errandView, len(found))
	for i, one := range found {
		views[i] = brief(one)
	}
	return reply{http.StatusOK, page[errandView]{views, call.next(next)}}, nil
}

// outcome waits until a request has its outcome and the read models show it. The answer's Position covers it.
func (s *server) outcome(ctx context.Context, call *call, name, id string) (errandView, error) {
	scope := call.scope()
	for {
		asked, stored := s.Waiter.Changed(modelRequests), s.Waiter.Changed(modelEvents)
		found, err := s.Requests.Get(ctx, scope, id)
		if err == nil && found.Status.Ended() {
			v, whole, err := s.viewErrand(ctx, found)
			if err != nil {
				return v, err
			}
			if whole {
				return v, s.covers(ctx, call, domain.NewStream("device", name), found.ResultVersion)
			}
		}
		if err != nil && !missing(err) {
			return errandView{}, err
		}
		select {
		case <-ctx.Done():
			return errandView{}, ctx.Err()
		case <-asked:
		case <-stored:
		}
	}
}

// covers sets the answer's Position to that of an event.
func (s *server) covers(ctx context.Context, call *call, stream domain.Stream, version uint64) error {
	rows, err := s.Events.After(ctx, streams.StreamKey{Scope: call.scope(), Stream: stream}, version-1, 1)
	if err != nil || len(rows) == 0 {
		return err
	}
	at := streams.Position{
		Scope: call.scope(), Position: rows[0].Position, Era: rows[0].Era, Partition: rows[0].Place.Partition, Offset: rows[0].Place.Offset,
	}
	call.header().Set(HeaderPosition, at.String())
	return nil
}

// brief is a request without content.
func brief(r requests.Request) errandView {
	return errandView{
		ID: r.ID, DeviceID: r.Device, Kind: r.Kind, Action: r.Action, Table: r.Table, Status: r.Status, Reason: r.Reason,
		RequestedAt: r.RequestedAt, WaitUntil: r.WaitUntil, OfferedAt: r.OfferedAt, EndedAt: r.EndedAt,
	}
}

// viewErrand opens what a request holds; whole says that events had all of it.
func (s *server) viewErrand(ctx context.Context, r requests.Request) (v errandView, whole bool, err error) {
	v = brief(r)
	key := streams.StreamKey{Scope: r.Scope, Stream: domain.NewStream("device", r.Device)}
	for _, version := range []uint64{r.RequestVersion, r.ResultVersion, r.LateVersion} {
		if version == 0 {
			continue
		}
		event, err := s.event(ctx, key, version)
		if err != nil || event == nil {
			return v, false, err
		}
		v.show(event)
	}
	return v, true, nil
}

func (v *errandView) show(event any) {
	switch e := event.(type) {
	case device.DataRequested:
		v.Request = e.Payload.Fields
	case device.MutationRequested:
		v.Request = e.Payload.Fields
	case device.DataAnswered:
		v.Answer = e.Result.Device
	case device.DataFailed:
		v.Answer, v.Text, v.Bytes = e.Result.Device, e.Result.Text, e.Bytes
	case device.MutationCompleted:
		v.Answer, v.Mutations = e.Result.Device, e.Mutations
	case device.MutationFailed:
		v.Answer, v.Text, v.Bytes = e.Result.Device, e.Result.Text, e.Bytes
	case device.LateAnswerRecorded:
		v.LateAnswer = e.Result.Device
	}
}
