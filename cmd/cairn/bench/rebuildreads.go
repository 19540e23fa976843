package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cairnhq/cairn/streams"
)

// read asks for something and checks the answer: against what was acknowledged, against what an earlier answer showed
// (nothing goes back, as it would where a generation that is behind was read), and, of what is past, against the first
// answer, byte for byte.
func (c *crowd) read(ctx context.Context) error {
	p := c.anybody()
	switch kind := rand.IntN(100); {
	case kind < 35:
		return c.readThread(ctx, p)
	case kind < 50:
		return c.readList(ctx, p)
	case kind < 65:
		return c.readTail(ctx, p)
	case kind < 80:
		return c.readPast(ctx, p, p.pastTimeline())
	case kind < 90:
		return c.readPast(ctx, p, p.pastRun())
	case kind < 95:
		return c.readPast(ctx, p, p.pastEvents())
	default:
		return c.readEffects(ctx, p)
	}
}

// pastTimeline is a place in what never changes: among few, so that most are asked for more than once.
func (p *person) pastTimeline() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	const page = 50
	for range 10 { // a long one: on a short one's page new entries show
		if t := p.threads[rand.IntN(min(10, len(p.threads)))]; t.past >= 2*page {
			return fmt.Sprintf("/api/v1/threads/%s/timeline?direction=after&limit=%d&seq=%d", t.id, page, page*rand.IntN(int(t.past/page)-1))
		}
	}
	return "/api/v1/runs/" + p.runs[0]
}

func (p *person) pastEvents() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all uint64
	for _, t := range p.threads {
		all += t.past
	}
	return "/api/v1/events?limit=50&after=" + strconv.Itoa(50*rand.IntN(max(1, min(100, int(all/50)-1))))
}

func (p *person) pastRun() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "/api/v1/runs/" + p.runs[rand.IntN(min(50, len(p.runs)))]
}

// readPast reads what does not change any more.
func (c *crowd) readPast(ctx context.Context, p *person, path string) error {
	raw, _, err := c.do(ctx, p, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	raw = unmoving(raw)
	if first, known := c.fixed.LoadOrStore(p.email+path, raw); known && !bytes.Equal(first.([]byte), raw) {
		return wrong("%s was %s, and is now %s", path, first, raw)
	}
	return nil
}

// unmoving is an answer without what it says of the present.
func unmoving(raw []byte) []byte {
	var answer map[string]json.RawMessage
	if json.Unmarshal(raw, &answer) != nil {
		return raw
	}
	for _, moving := range []string{"window", "head", "has_newer"} {
		delete(answer, moving)
	}
	still, err := json.Marshal(answer)
	if err != nil {
		return raw
	}
	return still
}

// floor is the least that an answer has to show of a thread, and whether the read asks for that state.
func (t *spoken) floor(waits bool) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if waits {
		return max(t.seen, t.acked)
	}
	return t.seen
}

// showed checks a title that an answer showed, where the least was known before it was asked for.
func (t *spoken) showed(title *string, least int) error {
	n := -1
	if title != nil {
		var err error
		if n, err = strconv.Atoi(*title); err != nil {
			return wrong("thread %s has the title %q", t.id, *title)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < least || n > t.sent {
		return wrong("thread %s shows title %d: at least %d was there, and %d is the newest that was sent", t.id, n, least, t.sent)
	}
	t.seen, t.there = max(t.seen, n), true
	return nil
}

// waiting is a query that asks for all that is acknowledged, every second time.
func (p *person) waiting() (waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.position != streams.Position{} && rand.IntN(2) == 0
}

func (p *person) newest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "min_position=" + url.QueryEscape(p.position.String())
}

func (c *crowd) readThread(ctx context.Context, p *person) error {
	t, waits, path := p.written(), p.waiting(), ""
	if rand.IntN(2) == 0 {
		t = p.thread()
	}
	least := t.floor(waits)
	if path = "/api/v1/threads/" + t.id; waits {
		path += "?" + p.newest()
	} else if !t.known() {
		return c.readList(ctx, p) // it may not be there yet
	}
	raw, _, err := c.do(ctx, p, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	var thread struct {
		ID      string
		Title   *string
		Version uint64
	}
	if err := json.Unmarshal(raw, &thread); err != nil || thread.ID != t.id || thread.Version < t.past {
		return wrong("%s answers %s", path, raw)
	}
	return t.showed(thread.Title, least)
}

func (t *spoken) known() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.there
}

// readList reads all threads of a person: each is there once.
func (c *crowd) readList(ctx context.Context, p *person) error {
	waits := p.waiting()
	p.mu.Lock()
	all := append([]*spoken(nil), p.threads...)
	p.mu.Unlock()
	least, expected := map[string]int{}, map[string]bool{}
	for _, t := range all {
		least[t.id] = t.floor(waits)
		expected[t.id] = waits || t.known()
	}
	path := "/api/v1/threads?limit=200"
	if waits {
		path += "&" + p.newest()
	}
	raw, _, err := c.do(ctx, p, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	var list struct {
		Data []struct {
			ID    string
			Title *string
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return wrong("%s answers %s", path, raw)
	}
	shown := map[string]*string{}
	for _, t := range list.Data {
		if _, twice := shown[t.ID]; twice {
			return wrong("%s lists thread %s twice", path, t.ID)
		}
		shown[t.ID] = t.Title
	}
	for _, t := range all {
		title, there := shown[t.id]
		if !there && expected[t.id] {
			return wrong("%s does not list thread %s", path, t.id)
		}
		if there {
			if err := t.showed(title, least[t.id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// readTail reads the newest entries of a thread: they have no hole, and end at its head.
func (c *crowd) readTail(ctx context.Context, p *person) error {
	t := p.written()
	path := "/api/v1/threads/" + t.id + "/timeline?limit=50"
	raw, _, err := c.do(ctx, p, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	var tail struct {
		Entries []struct{ Seq uint64 }
		Window  struct {
			Max uint64 `json:"max_seq"`
		}
	}
	if err := json.Unmarshal(raw, &tail); err != nil || len(tail.Entries) == 0 {
		return wrong("%s answers %s", path, raw)
	}
	for i, e := range tail.Entries {
		if e.Seq != tail.Entries[0].Seq+uint64(i) {
			return wrong("%s has a hole at %d", path, e.Seq)
		}
	}
	if last := tail.Entries[len(tail.Entries)-1].Seq; last < t.past || last != tail.Window.Max {
		return wrong("%s ends at %d, and the thread at %d; it had %d at first", path, last, tail.Window.Max, t.past)
	}
	return nil
}

// readEffects reads what is open: nothing is, for a cancelled run leaves nothing behind.
func (c *crowd) readEffects(ctx context.Context, p *person) error {
	raw, _, err := c.do(ctx, p, http.MethodGet, "/api/v1/effects", nil)
	if err != nil {
		return err
	}
	var open struct{ Data []json.RawMessage }
	if err := json.Unmarshal(raw, &open); err != nil || len(open.Data) > 0 {
		return wrong("/api/v1/effects answers %s", raw)
	}
	return nil
}
