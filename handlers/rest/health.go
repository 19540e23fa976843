package rest

import (
	"context"
	"sync"
	"time"

	"github.com/cairnhq/cairn/handlers/rest/contract"
)

// readyFor is how long holds what readiness found: nobody needs a token to ask, and each look asks databases and brokers.
const readyFor = 250 * time.Millisecond

// readiness looks for all who ask at once, and for those who ask soon after.
type readiness struct {
	look func(context.Context) []Check
	now  func() time.Time

	mu    sync.Mutex
	at    time.Time // zero: not yet
	found []Check
}

func (r *readiness) checks(ctx context.Context) []Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || r.now().Sub(r.at).Abs() >= readyFor {
		r.found = r.look(context.WithoutCancel(ctx)) // others are told of it, whoever leaves
		r.at = r.now()
	}
	return r.found
}

// Healthz says that the process answers.
func (s *server) Healthz(context.Context, contract.HealthzRequestObject) (contract.HealthzResponseObject, error) {
	return contract.Healthz200TextResponse("ok\n"), nil
}

// Readyz says whether the process can do its work; with verbose also what it looked at. It needs no token
// and says nothing of anybody's data.
func (s *server) Readyz(ctx context.Context, r contract.ReadyzRequestObject) (contract.ReadyzResponseObject, error) {
	answer := contract.Readiness{Ready: true}
	var views []contract.Check
	for _, check := range s.ready.checks(ctx) {
		v := contract.Check{Name: check.Name, Ready: check.Err == nil, Detail: some(check.Detail)}
		if check.Err != nil {
			answer.Ready, v.Detail = false, some(check.Err.Error())
		}
		views = append(views, v)
	}
	if r.Params.Verbose != nil && len(views) > 0 {
		answer.Checks = &views
	}
	if !answer.Ready {
		return contract.Readyz503JSONResponse{Body: answer, Headers: contract.Readyz503ResponseHeaders{RetryAfter: some(1)}}, nil
	}
	return contract.Readyz200JSONResponse(answer), nil
}

// GetProblem serves what each code means at the URL that is its type.
func (s *server) GetProblem(_ context.Context, r contract.GetProblemRequestObject) (contract.GetProblemResponseObject, error) {
	k, ok := s.kinds[r.Code]
	if !ok {
		return nil, fail("not_found", "there is no such problem")
	}
	return contract.GetProblem200JSONResponse{Code: k.Code, Status: k.Status, Title: k.Title, About: k.About}, nil
}
