package live

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/streams"
)

// hello is what a client said of itself.
type hello struct {
	DeviceID string   `json:"device_id"`
	AgentIDs []string `json:"agent_ids"`
	Protocol int      `json:"protocol"`
	Name     string   `json:"name"`
	Timezone string   `json:"timezone"`
	Journal  bool     `json:"journal"`
	Batch    bool     `json:"batch"`

	// device is the id that the log knows the device by: its own, or, where that has other characters than ids
	// may have, one that follows from it and tells nothing.
	device string
	told   bool // it gave its protocol, and so knows more than the frames of older clients
}

// greet takes a device_hello. A frame that can't be read is an error; one that says something impossible is
// answered.
func (s *session) greet(frame []byte) error {
	var h hello
	if err := json.Unmarshal(frame, &h); err != nil {
		return errors.New("the fields of device_hello are not of their types")
	}
	if why := h.wrong(); why != "" {
		s.fail(errorFrame{Code: domain.CodeInvalid, Message: why})
		s.close(closePolicy, why)
		return nil
	}
	before := s.said()
	if before != nil && before.DeviceID != h.DeviceID {
		s.fail(errorFrame{Code: domain.CodeInvalid, Message: "a socket belongs to one device"})
		return nil
	}
	if before != nil {
		if err := s.admit(); err != nil { // each may become a command
			s.fail(refused(err))
			return nil
		}
	}
	h.device = h.DeviceID
	if !domain.NewStream("device", h.DeviceID).Valid() {
		index, err := s.index()
		if err != nil {
			return nil // the socket is closing
		}
		h.device = digest(index, []byte(h.DeviceID))[:32]
	}
	h.told = h.Protocol != 0
	if h.Protocol == 0 {
		h.Protocol = 2
	}
	s.mu.Lock()
	s.hello = &h
	s.mu.Unlock()
	s.inTime()
	s.gate.Go(func() {
		if h.told {
			s.send(s.welcome())
		}
		s.present(&h)
	})
	return nil
}

// present makes known what the device said, one hello after the other. One that a newer has replaced says
// nothing more: the newest is the last to become known.
func (s *session) present(h *hello) {
	s.presenting.Lock()
	defer s.presenting.Unlock()
	if s.said() != h {
		return
	}
	s.gateway.online(s, h)
	s.gateway.hold(s, h)
	s.gateway.introduce(s, h)
	s.gateway.see(s, h)
}

// admit refuses where the user sends too much.
func (s *session) admit() error {
	if s.gateway.Admit == nil {
		return nil
	}
	return s.gateway.Admit(s.scope)
}

// wrong says what can't be.
func (h *hello) wrong() string {
	switch {
	case h.DeviceID == "" || len(h.DeviceID) > 200:
		return "device_id must have 1 to 200 bytes"
	case h.Protocol != 0 && h.Protocol != 2 && h.Protocol != 3:
		return "protocol must be 2 or 3"
	case utf8.RuneCountInString(h.Name) > 200:
		return "name may have 200 characters"
	case strings.ContainsRune(h.DeviceID+h.Name+h.Timezone, 0):
		return "NUL bytes are not allowed"
	}
	if h.Timezone != "" {
		if _, err := time.LoadLocation(h.Timezone); err != nil || h.Timezone == "Local" {
			return "timezone must be an IANA name such as Europe/Rome"
		}
	}
	return ""
}

// index is the scope's key for digests; while the vault can't be reached the socket waits with everything.
func (s *session) index() ([]byte, error) {
	for {
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		key, err := s.gateway.Keys.Index(ctx, s.scope)
		cancel()
		if err == nil {
			return key, nil
		}
		if errors.Is(err, streams.ErrScopeErased) {
			s.close(closePolicy, "the account was erased")
			return nil, err
		}
		s.gateway.Log.Warn("reading an index key failed, trying again", "error", err)
		if err := pause(s.ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

func digest(key, b []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(b)
	return hex.EncodeToString(mac.Sum(nil))
}

// welcome is the hello frame. A head that can't be read now is left open: it is a hint.
func (s *session) welcome() helloFrame {
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	head := scopeHead{Scope: string(s.scope)}
	if at, err := s.gateway.Events.Head(ctx, s.scope); err == nil {
		head.Head = &at.Position
	}
	return helloFrame{
		Type: "hello", Version: s.gateway.Version, Scopes: []scopeHead{head},
		Features: []string{
			"chat_request", "home_request", "floating_request", "cancel", "tool_result_ack", "request_id",
			"subscribe", "events", "live", "reset", "stored", "reconnect", "data_request", "mutation",
		},
	}
}

// introduce records what the device said, if it is something new: the decider knows.
func (g *Gateway) introduce(s *session, h *hello) {
	command := device.Introduce{
		Device: h.device, Protocol: h.Protocol, Timezone: h.Timezone, Journal: h.Journal, Batch: h.Batch,
	}
	if h.Name != "" {
		index, err := s.index()
		if err != nil {
			return // the socket is closing
		}
		command.Name, command.NameDigest = device.Name{Text: h.Name}, digest(index, []byte(h.Name))
	}
	_, err := g.insist(s.ctx, streams.Command{
		Scope: s.scope, ID: uuid.NewString(), Body: command, Actor: s.actor(),
	})
	var rejected *domain.Rejection
	if errors.As(err, &rejected) && rejected.Code == domain.CodeScopeErased {
		s.close(closePolicy, "the account was erased")
		return
	}
	if err != nil && s.ctx.Err() == nil {
		g.Log.Warn("recording what a device said failed", "device", h.device, "error", err)
	}
}

// actor is the user at the device.
func (s *session) actor() domain.Actor {
	actor := domain.Actor{Kind: domain.ActorUser, ID: s.user}
	if h := s.said(); h != nil {
		actor.Device = h.device
	}
	return actor
}

// insist asks until there is an answer, under the one id that the command has.
func (g *Gateway) insist(ctx context.Context, c streams.Command) (streams.Answer, error) {
	for {
		answer, err := g.Asker.Ask(ctx, c)
		var rejected *domain.Rejection
		if err == nil || errors.As(err, &rejected) {
			return answer, err
		}
		if ctx.Err() != nil {
			return answer, fmt.Errorf("live: asking: %w", err)
		}
		wait := time.Second
		var busy *streams.Busy
		if errors.As(err, &busy) {
			wait = max(wait, busy.RetryAfter)
		}
		g.Log.WarnContext(ctx, "a command has no answer yet, asking again", "command", c.ID, "error", err)
		if err := pause(ctx, wait); err != nil {
			return answer, err
		}
	}
}
