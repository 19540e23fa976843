package domain

import "fmt"

// Rejection is the answer "no" of a decider: a code for programs, a sentence for people, and numbers.
// It goes into the log in clear, so it never holds content or personal data.
type Rejection struct {
	Code    string           `json:"code"`
	Reason  string           `json:"reason"`
	Numbers map[string]int64 `json:"numbers,omitempty"`
}

// Error makes a rejection an error.
func (r *Rejection) Error() string { return r.Code + ": " + r.Reason }

// Reject refuses a command with a code and a sentence.
func Reject(code, format string, args ...any) error {
	return &Rejection{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// The codes that do not belong to one aggregate.
const (
	CodeNotFound    = "not_found"
	CodeConflict    = "conflict"
	CodeInvalid     = "invalid"
	CodeTooLarge    = "too_large"
	CodeInternal    = "internal"
	CodeScopeErased = "scope_erased"
	CodeIDReused    = "id_reused"     // another request under a used id
	CodeNotYet      = "not_finalized" // the release that can do this is not finalized yet
)
