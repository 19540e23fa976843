package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// attemptWithin is how long a client waits for one answer before it asks again. The server says outcome_unknown after 15 s.
const attemptWithin = 12 * time.Second

// command is a request that changes something, as it is sent; a repeat is the same bytes.
type command struct {
	method, path, key string
	body              []byte
	// of is the thread that it is about, "" where the answer names it.
	of     string
	follow followed
}

// followed says what there is beside the answer.
type followed int

const (
	alone followed = iota // nothing
	begun                 // a run, told as it comes; who asked leaves when it has begun
	ended                 // a run, of which the end is waited for
)

func (c command) request(scope domain.Scope) history.Request {
	return history.Request{
		Scope: scope, CommandID: streams.CommandID(scope, c.key), Fingerprint: c.method + " " + c.path + "\n" + string(c.body),
		What: c.method + " " + c.path,
	}
}

// ending is what a client was told in the end.
type ending int

const (
	accepted ending = iota + 1
	rejected
	unknown // nothing, or that nobody knows: ask again
	refused // to come again later; nothing was done
)

// told is one answer.
type told struct {
	ending ending
	code   string
	thread string // accepted: which it is about
	whole  bool   // of a run: its end was told
}

// send sends a command once, and records what was asked and answered.
func (u *user) send(ctx context.Context, client string, c command) told {
	ctx, cancel := context.WithTimeout(ctx, attemptWithin)
	defer cancel()
	token, err := u.token(ctx)
	if err != nil {
		return told{ending: refused, code: "no token: " + err.Error()}
	}
	r, err := http.NewRequestWithContext(ctx, c.method, u.load.urls.API+c.path, bytes.NewReader(c.body))
	if err != nil {
		return told{ending: refused, code: err.Error()}
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", c.key)
	if c.follow != alone {
		r.Header.Set("Accept", "text/event-stream")
	}
	op := u.load.history.Invoke(client, c.request(u.scope))
	resp, err := u.load.http.Do(r)
	if err != nil {
		op.Unknown(err)
		return told{ending: unknown, code: "no answer"}
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusBadRequest && c.follow != alone {
		op.Accepted(answerOf(u.scope, c, c.of, resp.Header))
		return told{ending: accepted, thread: c.of, whole: c.follow == ended && readToEnd(resp.Body)}
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		op.Unknown(err)
		return told{ending: unknown, code: "half an answer"}
	}
	return u.judge(ctx, op, c, resp, body)
}

// judge says what an answer means.
func (u *user) judge(ctx context.Context, op *history.Op, c command, resp *http.Response, body []byte) told {
	if resp.StatusCode < http.StatusBadRequest {
		var made struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(body, &made) // an answer without an id is about the command's thread
		t := told{ending: accepted, thread: c.of, whole: true}
		if t.thread == "" {
			t.thread = made.ID
		}
		op.Accepted(answerOf(u.scope, c, t.thread, resp.Header))
		return t
	}
	var p struct {
		Code, Detail string
		Numbers      map[string]int64
	}
	_ = json.Unmarshal(body, &p) // what is no problem has no code
	why := fmt.Errorf("%s %s %s", resp.Status, p.Code, p.Detail)
	switch p.Code {
	case "not_found", "conflict", "busy", "queue_full", "run_ended", "scope_erased", "id_reused":
		op.Rejected(&domain.Rejection{Code: p.Code, Reason: p.Detail, Numbers: p.Numbers})
		return told{ending: rejected, code: p.Code}
	case "rate_limited", "overloaded", "unavailable":
		op.Refused(why)
		return told{ending: refused, code: p.Code}
	case "unauthorized":
		u.enter(ctx)
		op.Refused(why)
		return told{ending: refused, code: p.Code}
	default:
		if p.Code != "outcome_unknown" {
			u.load.note(fmt.Sprintf("an answer that nobody expected: %v", why))
		}
		op.Unknown(why)
		return told{ending: unknown, code: p.Code}
	}
}

// answerOf is what an accepted command's answer says.
func answerOf(scope domain.Scope, c command, thread string, header http.Header) streams.Answer {
	a := streams.Answer{CommandID: streams.CommandID(scope, c.key), Repeated: header.Get("Idempotency-Replayed") == "true"}
	if p, err := streams.ParsePosition(header.Get("Position")); err == nil {
		a.Position = p
	}
	if v, err := strconv.ParseUint(strings.Trim(header.Get("ETag"), `"v`), 10, 64); err == nil {
		a.Heads = []streams.Head{{Stream: domain.NewStream("thread", thread), Version: v}}
	}
	return a
}

// readToEnd reads a run as it comes, and reports whether its end came.
func readToEnd(body io.Reader) bool {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == "event: stream_end" {
			return true
		}
	}
	return false
}
