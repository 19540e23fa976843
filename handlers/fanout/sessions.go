package fanout

import (
	"context"
	"slices"
	"time"

	"github.com/cairnhq/cairn/handlers/accounts"
)

// Holder holds something open for people who came in once, such as sockets.
type Holder interface {
	// Principals are those for whom it does.
	Principals() []accounts.Principal
	// Revoke ends what it holds for those whom pick picks.
	Revoke(pick func(accounts.Principal) bool)
}

// Join has somebody told, as long as the hub runs, when a session has ended for which it holds something.
func (h *Hub) Join(other Holder) {
	h.watching.Lock()
	defer h.watching.Unlock()
	h.holders = append(h.holders, other)
}

// Principals implements Holder.
func (h *Hub) Principals() (found []accounts.Principal) {
	for _, p := range h.partitions {
		p.subscriptions(func(s *Subscription) bool {
			found = append(found, s.want.Who)
			return false
		})
	}
	return found
}

// Revoke implements Holder: the subscriptions end with a Reset of the reason NoAccess.
func (h *Hub) Revoke(pick func(accounts.Principal) bool) {
	for _, p := range h.partitions {
		for _, s := range p.subscriptions(func(s *Subscription) bool { return pick(s.want.Who) }) {
			s.end(&Reset{Reason: NoAccess})
		}
	}
}

// look asks from time to time which sessions have ended.
func (h *Hub) look(ctx context.Context) error {
	ticker := time.NewTicker(h.Look)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := h.endSessions(ctx); err != nil && ctx.Err() == nil {
			h.Log.WarnContext(ctx, "asking which sessions have ended failed, asking again", "error", err)
		}
	}
}

// askedAtOnce bounds one question.
const askedAtOnce = 1000

func (h *Hub) endSessions(ctx context.Context) error {
	h.watching.Lock()
	holders := append([]Holder{h}, h.holders...)
	h.watching.Unlock()
	open := map[string]bool{}
	for _, holder := range holders {
		for _, p := range holder.Principals() {
			if p.Session != "" {
				open[p.Session] = true
			}
		}
	}
	asked := make([]string, 0, len(open))
	for session := range open {
		asked = append(asked, session)
	}
	ended := map[string]bool{}
	for some := range slices.Chunk(asked, askedAtOnce) {
		gone, err := h.Sessions.Ended(ctx, some)
		if err != nil {
			return err
		}
		for _, session := range gone {
			ended[session] = true
		}
	}
	if len(ended) == 0 {
		return nil
	}
	for _, holder := range holders {
		holder.Revoke(func(p accounts.Principal) bool { return ended[p.Session] })
	}
	return nil
}
