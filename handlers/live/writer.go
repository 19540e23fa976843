package live

import (
	"fmt"
	"strings"
	"time"

	"github.com/olahol/melody"

	"github.com/cairnhq/cairn/handlers/fanout"
)

const (
	writeAtOnce = 128 << 10 // about how much leaves in one write
	pullAtOnce  = 32 << 10  // about how much of one subscription, while others wait

	// A cursor that moves although nothing is sent is told so often, or after so many events.
	cursorEvery = time.Second
	cursorAfter = 1024
)

// work begins to write, where nobody does.
func (s *session) work(start bool) {
	if start {
		s.gate.Go(s.write)
	}
}

// write writes until there is nothing to write.
func (s *session) write() {
	j := s.gateway.writes.take()
	defer s.gateway.writes.give(j)
	for {
		d, more := s.outbox.take(writeAtOnce)
		if !more {
			if d.last {
				s.farewell()
			}
			return
		}
		j.reset()
		if d.ping {
			j.ping()
		}
		for _, frame := range d.frames {
			j.payload(frame)
		}
		for sub := d.first; sub != nil; sub = s.outbox.pop() {
			s.pull(j, sub) // who is taken from the line is pulled: nobody wakes it again
			if j.bytes >= writeAtOnce {
				break
			}
		}
		if j.size == 0 {
			continue
		}
		if s.conn.write(j, s.slow) != nil {
			s.closeAll(s.outbox.stop())
			_ = s.conn.shut()
			close(s.told) // there is nobody to tell
			return
		}
		s.gateway.metrics.wrote(j)
	}
}

// pull adds what a subscription has.
func (s *session) pull(j *joined, sub *subscription) {
	p := sub.feed.Pull(pullAtOnce)
	if p.More {
		s.outbox.ready(sub) // this is the writer
	}
	s.pulled(j, sub, p)
	for i := range p.Live {
		j.payload(liveFrame(sub, &p.Live[i]))
	}
	if p.Reset != nil {
		j.payload(resetFrame(sub, p.Reset))
		s.gateway.metrics.resets.WithLabelValues(string(p.Reset.Reason)).Inc()
		s.outbox.drop(sub)
		sub.close()
	}
}

// pulled adds the events, and where the client is after them.
func (s *session) pulled(j *joined, sub *subscription, p fanout.Pulled) {
	if len(p.Events) == 0 {
		s.moved(j, sub, p)
		return
	}
	if sub.batch {
		j.events(sub.member, p.Cursor, sub.form, p.Events)
		j.at(sub, p.Cursor)
		sub.told = p.Cursor
		return
	}
	for _, e := range p.Events {
		j.event(sub.member, bytesOf(e, sub.form))
		sub.told = sub.place(e)
		j.at(sub, sub.told)
	}
	s.moved(j, sub, p)
}

// moved tells a cursor that moved over events which the filter left out: not each step, and not never.
func (s *session) moved(j *joined, sub *subscription, p fanout.Pulled) {
	if p.Cursor <= sub.told || p.More {
		sub.telling = false
		return
	}
	now := time.Now()
	if p.Cursor-sub.told < cursorAfter && now.Sub(sub.toldAt) < cursorEvery {
		if !sub.telling {
			sub.telling = true
			time.AfterFunc(cursorEvery, func() { s.work(s.outbox.ready(sub)) })
		}
		return
	}
	sub.told, sub.toldAt, sub.telling = p.Cursor, now, false
	j.events(sub.member, p.Cursor, sub.form, nil)
	j.at(sub, p.Cursor)
}

func liveFrame(sub *subscription, f *fanout.Frame) []byte {
	b := make([]byte, 0, 160+len(sub.member)+len(f.Text)+len(f.Data))
	b = append(append(b, `{"type":"live",`...), sub.member...)
	return append(f.AppendJSON(b), '}')
}

func resetFrame(sub *subscription, r *fanout.Reset) []byte {
	b := append(append(make([]byte, 0, 256), `{"type":"reset",`...), sub.member...)
	return append(r.AppendJSON(b), '}')
}

// slow is for a client that did not take what is being written.
func (s *session) slow() {
	s.gateway.Log.Debug("a client reads too slowly", "socket", s.id)
	s.close(closeSlow, s.resume("frames were not read in time"))
}

// unanswered is for a client that did not answer a ping. The reader waits until it was told, or can't be.
func (s *session) unanswered() {
	s.close(closeSlow, s.resume("a ping was not answered in time"))
	late := time.NewTimer(2 * s.gateway.Timing.Write)
	defer late.Stop()
	select {
	case <-s.told:
	case <-late.C:
	case <-s.ctx.Done():
	}
}

// resume says where a client goes on, as far as a close frame has room for it. It knows itself.
func (s *session) resume(why string) string {
	const begin, between = "slow: resume ", ", "
	var places []string
	size := len(begin)
	for _, sub := range s.outbox.places() {
		place := fmt.Sprintf("%s after %d", sub.id, sub.cursor.Load())
		if size += len(between) + len(place); size > maxReason {
			break
		}
		places = append(places, place)
	}
	if len(places) == 0 {
		return "slow: " + why + ", connect again and repeat what has no end yet"
	}
	return begin + strings.Join(places, between)
}

// maxReason is what the reason of a close frame may have in bytes (RFC 6455, section 5.5.1).
const maxReason = 123

// farewell writes the close frame, after all that was queued.
func (s *session) farewell() {
	defer close(s.told)
	why := s.reason.Load()
	if why == nil {
		why = &closing{melody.CloseNormalClosure, ""}
	}
	payload := melody.FormatCloseMessage(why.code, cutText(why.text, maxReason))
	// A socket that is closed already needs no words.
	_, _ = s.conn.Write(append([]byte{finalClose, byte(len(payload))}, payload...))
	linger := lingering
	if why.code == closeSlow { // it reads what is on its way, and answers pings of long ago: to a closed socket that would take back the rest
		linger = max(linger, s.gateway.Timing.Write)
	}
	_ = s.conn.finish(linger)
}

// cutText keeps text short, and whole at its end.
func cutText(text string, atMost int) string {
	if len(text) <= atMost {
		return text
	}
	return strings.ToValidUTF8(text[:atMost], "")
}
