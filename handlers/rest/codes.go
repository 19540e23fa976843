package rest

import "net/http"

// kind is a sort of problem (RFC 9457): its code, status and title, and what it means, which is served at
// its type's URL.
type kind struct {
	Code   string `json:"code"`
	Status int    `json:"status"`
	Title  string `json:"title"`
	About  string `json:"about"`
	as     string
}

// kinds is the one table of everything that can go wrong for a client. Codes of rejections stand in it
// like all others; one that is missing is a conflict.
func kinds() []kind {
	return []kind{
		{"malformed", http.StatusBadRequest, "The request can't be read", "The body is not JSON, not UTF-8, or not there, or a parameter stands twice.", ""},
		{"malformed_position", http.StatusBadRequest, "No such position", "min_position is not a text that a Position header carried.", ""},
		{"foreign_position", http.StatusBadRequest, "A position of another scope", "min_position belongs to a scope that this read does not touch.", ""},
		{"unauthorized", http.StatusUnauthorized, "Who are you?", "The access token is missing, wrong or expired. Log in, or refresh the session.", ""},
		{"bad_credentials", http.StatusUnauthorized, "E-mail or password is wrong", "Which of the two is not said.", ""},
		{"not_found", http.StatusNotFound, "Not found", "There is nothing with that name that belongs to you.", ""},
		{"method_not_allowed", http.StatusMethodNotAllowed, "Not with this method", "The resource exists, but not for this method.", ""},
		{"conflict", http.StatusConflict, "It can't be done now", "The present state does not allow it; the detail says why.", ""},
		{"not_finalized", http.StatusConflict, "Not before the upgrade is finalized", "Some of the servers still run the release before. An operator ends that with `cairn upgrade finalize`.", ""},
		{"email_taken", http.StatusConflict, "The e-mail address has an account", "Log in, or register another address.", ""},
		{"busy", http.StatusConflict, "A run is going on", "The thread has an active run and on_busy was refuse.", ""},
		{"queue_full", http.StatusConflict, "Too many messages wait", "The thread's queue is full. Wait for a run to end, or cancel some.", ""},
		{"position_unknown", http.StatusConflict, "The log has no such position", "min_position lies beyond the end of the log: it was never given out, or the log was restored to an earlier state. Read without it.", ""},
		{"device_busy", http.StatusConflict, "Too many requests wait for the device", "Let some end, or cancel writes that were not sent yet; numbers says how many wait.", ""},
		{"already_offered", http.StatusConflict, "The device has it already", "What was sent can't be taken back. It ends within 30 seconds.", ""},
		{"request_ended", http.StatusConflict, "The request has its outcome", "There is nothing left to cancel.", ""},
		{"run_ended", http.StatusConflict, "The run has ended", "There is nothing left to cancel.", ""},
		{"run_cancelled", http.StatusConflict, "The run was cancelled", "Somebody cancelled it, or another message took its place.", ""},
		{"reset", http.StatusGone, "Too far behind", "One can't go on from that position: it is further back than is allowed, or what comes after it was deleted. Load what you follow anew, and go on from the head; numbers says both.", ""},
		{"pruned", http.StatusGone, "It was deleted", "Events that this needs are not in the read model any more. The log has them, and an operator can fill the read model again.", ""},
		{"scope_erased", http.StatusGone, "The account was erased", "Its data is gone and can't be brought back.", ""},
		{"precondition_failed", http.StatusPreconditionFailed, "It has changed", "If-Match names another version than the newest.", ""},
		{"precondition_required", http.StatusPreconditionRequired, "Say which version you mean", "This write needs If-Match with the ETag that you read, so that nobody's change is lost.", ""},
		{"too_large", http.StatusRequestEntityTooLarge, "Too large", "The detail says how much is allowed.", ""},
		{"unsupported_media_type", http.StatusUnsupportedMediaType, "Send JSON", "Bodies are application/json in UTF-8.", ""},
		{"invalid", http.StatusUnprocessableEntity, "The request makes no sense", "It can be read, but a value in it is not allowed; errors says which.", ""},
		{"id_reused", http.StatusUnprocessableEntity, "The Idempotency-Key is used", "It belongs to another request. Take a new one.", ""},
		{"rate_limited", http.StatusTooManyRequests, "Too many requests", "Wait as long as Retry-After says.", ""},
		{"overloaded", http.StatusTooManyRequests, "Not now", "The system takes no commands now. Nothing was sent; wait as long as Retry-After says.", ""},
		{"internal", http.StatusInternalServerError, "Our fault", "Something broke. The traceId finds it in the logs.", ""},
		{"run_failed", http.StatusBadGateway, "The run failed", "The model or a tool could not do it; the detail says why.", ""},
		{"behind", http.StatusServiceUnavailable, "Not there yet", "The read model has not reached min_position. Repeat it after Retry-After.", ""},
		{"stopped", http.StatusServiceUnavailable, "The read model stands still", "An operator must look at it; waiting does not help.", ""},
		{"paused", http.StatusServiceUnavailable, "The read model is paused", "An operator paused it, and resumes it. Reads without min_position answer with what there is.", ""},
		{"unavailable", http.StatusServiceUnavailable, "A part is away", "Something we need can't be reached. It goes on by itself.", ""},
		{"outcome_unknown", http.StatusGatewayTimeout, "The outcome is not known", "Repeat the request with the same Idempotency-Key: it is done once.", ""},
	}
}

// typ is the last part of the type's URL: the kind's code, and for a rejection that the table does not
// have, that of a conflict.
func (k kind) typ() string {
	if k.as != "" {
		return k.as
	}
	return k.Code
}

// table finds kinds by code.
type table map[string]kind

func newTable() table {
	t := table{}
	for _, k := range kinds() {
		t[k.Code] = k
	}
	return t
}

// rejection is the kind of a rejection's code.
func (t table) rejection(code string) kind {
	if k, ok := t[code]; ok {
		return k
	}
	k := t["conflict"]
	k.Code, k.as = code, k.Code
	return k
}
