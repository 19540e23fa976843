package device

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/safety"
)

// request is what is remembered of a request without outcome.
type request struct {
	ID      string `json:"id"`
	Write   bool   `json:"write,omitempty"`
	Offered bool   `json:"offered,omitempty"`
	Started bool   `json:"started,omitempty"` // and must not be sent again
}

func (s State) open(id string) (request, bool) {
	i := slices.IndexFunc(s.known.Open, func(r request) bool { return r.ID == id })
	if i < 0 {
		return request{}, false
	}
	return s.known.Open[i], true
}

// existed reports whether there was such a request, as far as is remembered: once some were forgotten, any may have.
func (s State) existed(id string) bool {
	return slices.Contains(s.known.Ended, id) || s.known.Forgot && isRequestID(id)
}

func (s State) requestData(c RequestData) ([]Event, error) {
	r := Request{
		RequestID: c.RequestID, DeviceID: c.Device, Action: c.Action, Table: c.Table, Wait: cmp.Or(c.Wait, DataWait), Repeatable: true,
	}
	if err := s.mayAsk(r, r.wrong(c.Payload, reads(), LongestRead)); err != nil {
		return nil, err
	}
	return []Event{DataRequested{Request: r, Payload: c.Payload}}, nil
}

func (s State) requestMutation(c RequestMutation) ([]Event, error) {
	r := Request{
		RequestID: c.RequestID, DeviceID: c.Device, Action: c.Action, Table: c.Table, Wait: cmp.Or(c.Wait, WriteWait),
		Repeatable: repeats(c.Action),
	}
	if err := s.mayAsk(r, r.wrong(c.Payload, writes(), LongestWrite)); err != nil {
		return nil, err
	}
	return []Event{MutationRequested{Request: r, Payload: c.Payload}}, nil
}

// mayAsk refuses what the device can't be asked now.
func (s State) mayAsk(r Request, wrong error) error {
	_, open := s.open(r.RequestID)
	switch {
	case s.known.Protocol == 0:
		return domain.Reject(domain.CodeNotFound, "there is no such device")
	case wrong != nil:
		return wrong
	case open || slices.Contains(s.known.Ended, r.RequestID):
		return domain.Reject(domain.CodeConflict, "the device was asked this already")
	case len(s.known.Open) >= MaxOpen:
		return &domain.Rejection{Code: CodeTooMany, Reason: "too many requests wait for this device: let some end, or cancel them", Numbers: map[string]int64{
			"open": int64(len(s.known.Open)), "limit": MaxOpen,
		}}
	}
	return nil
}

// cancelRequest: what was sent can't be taken back, since nobody knows whether it was done.
func (s State) cancelRequest(c CancelRequest) ([]Event, error) {
	r, open := s.open(c.RequestID)
	switch {
	case !open && s.existed(c.RequestID):
		return nil, domain.Reject(CodeEnded, "the request has an outcome")
	case !open:
		return nil, domain.Reject(domain.CodeNotFound, "there is no such request")
	case r.Offered:
		return nil, domain.Reject(CodeOffered, "the device has the request already: it ends within 30 s")
	}
	return []Event{r.fail(Cancelled, 0, Result{})}, nil
}

// offerRequest is told before a request is sent. See OfferRequest.
func (s State) offerRequest(c OfferRequest) ([]Event, error) {
	r, open := s.open(c.RequestID)
	switch {
	case !open && s.existed(c.RequestID):
		return nil, domain.Reject(CodeEnded, "the request has an outcome")
	case !open:
		return nil, domain.Reject(domain.CodeNotFound, "there is no such request")
	case r.Started && !safety.Off(safety.StartEffect):
		return nil, domain.Reject(CodeStarted, "the request was begun and must not be sent again")
	case r.Offered && !c.Started:
		return nil, nil
	}
	return []Event{RequestOffered{RequestID: c.RequestID, Started: c.Started}}, nil
}

// recordAnswer takes a device's answer, once; later ones are only noted. See RecordAnswer.
func (s State) recordAnswer(c RecordAnswer) ([]Event, error) {
	switch c.Failure {
	case "", DeviceError, BadResult, ResultTooLarge:
	default:
		return nil, domain.Reject(domain.CodeInvalid, "a device's answer fails with device_error, bad_result or result_too_large")
	}
	if size := int64(len(c.Result.Device) + len(c.Result.Text)); size > MaxResult {
		c.Failure, c.Bytes, c.Result = ResultTooLarge, size, Result{}
	}
	r, open := s.open(c.RequestID)
	switch {
	case c.By != c.Device:
		return nil, domain.Reject(CodeWrongDevice, "another device was asked this")
	case !open && s.existed(c.RequestID):
		return []Event{LateAnswerRecorded{RequestID: c.RequestID, Mutations: c.Mutations, Result: c.Result}}, nil
	case !open:
		return nil, domain.Reject(domain.CodeNotFound, "there is no such request")
	case c.Failure != "":
		return []Event{r.fail(c.Failure, c.Bytes, c.Result)}, nil
	case r.Write:
		return []Event{MutationCompleted{RequestID: c.RequestID, Mutations: c.Mutations, Result: c.Result}}, nil
	}
	return []Event{DataAnswered{RequestID: c.RequestID, Result: c.Result}}, nil
}

// loseRequest ends a request that was begun and whose outcome nobody will tell. See LoseRequest.
func (s State) loseRequest(c LoseRequest) ([]Event, error) {
	r, open := s.open(c.RequestID)
	switch {
	case !open:
		return nil, nil
	case !r.Started:
		return nil, domain.Reject(CodeNotStarted, "the request was not begun")
	}
	return []Event{r.fail(OutcomeUnknown, 0, c.Result)}, nil
}

// fireTimer fails a request: "offer" where the device did not answer, "wait" where it did not come.
func (s State) fireTimer(c FireTimer) []Event {
	kind, id, _ := strings.Cut(c.Timer, ":")
	r, open := s.open(id)
	switch {
	case open && kind == "offer" && r.Offered:
		return []Event{r.fail(TimedOut, 0, Result{})}
	case open && kind == "wait" && !r.Offered:
		return []Event{r.fail(Offline, 0, Result{})}
	}
	return nil
}

func (r request) fail(reason FailureReason, size int64, result Result) Event {
	if r.Write {
		return MutationFailed{RequestID: r.ID, Reason: reason, Bytes: size, Result: result}
	}
	return DataFailed{RequestID: r.ID, Reason: reason, Bytes: size, Result: result}
}

func (s State) offered(e RequestOffered) State {
	s.known.Open = slices.Clone(s.known.Open)
	for i := range s.known.Open {
		if r := &s.known.Open[i]; r.ID == e.RequestID {
			r.Offered, r.Started = true, r.Started || e.Started
		}
	}
	return s
}

func (s State) ended(id string) State {
	s.known.Open = slices.DeleteFunc(slices.Clone(s.known.Open), func(r request) bool { return r.ID == id })
	if len(s.known.Open) == 0 {
		s.known.Open = nil
	}
	s.known.Ended = append(slices.Clone(s.known.Ended), id)
	if over := len(s.known.Ended) - MaxEnded; over > 0 {
		s.known.Ended, s.known.Forgot = s.known.Ended[over:], true
	}
	return s
}
