package live_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/streams"
)

func number(f frame, key string) uint64 {
	n, _ := f[key].(float64)
	return uint64(n)
}

// subscribe asks for a subscription, which must be had, and answers its head.
func (c *client) subscribe(id string, more frame) uint64 {
	c.t.Helper()
	f := frame{"type": "subscribe", "id": id}
	for k, v := range more {
		f[k] = v
	}
	c.send(f)
	said := c.expect("subscribed")
	if said.text("id") != id {
		c.t.Fatalf("got %v, want %s", said, id)
	}
	return number(said, "head")
}

// told is what a client has had of a subscription.
type told struct {
	id     string
	events []frame
	cursor uint64
	empty  int // frames that only moved the cursor
}

// take takes a frame, which must be one of the subscription's.
func (s *told) take(t testing.TB, f frame, cursor string) {
	t.Helper()
	if f.text("subscription") != s.id {
		t.Fatalf("got %v, want frames of %s", f, s.id)
	}
	var events []frame
	switch f.text("type") {
	case "event":
		events = []frame{f}
	case "events":
		for _, e := range f["events"].([]any) {
			events = append(events, frame(e.(map[string]any)))
		}
		if len(events) == 0 {
			s.empty++
		}
		defer func() {
			if at := number(f, "cursor"); at < s.cursor {
				t.Fatalf("the cursor went from %d to %d", s.cursor, at)
			} else {
				s.cursor = at
			}
		}()
	default:
		t.Fatalf("got %v, want events", f)
	}
	for _, e := range events {
		if at := number(e, cursor); at <= s.cursor {
			t.Fatalf("event %d came after %d", at, s.cursor)
		} else {
			s.cursor = at
		}
		s.events = append(s.events, e)
	}
}

// until takes frames until the subscription is at a cursor.
func (c *client) until(s *told, cursor string, at uint64) {
	c.t.Helper()
	for s.cursor < at {
		s.take(c.t, c.next(), cursor)
	}
}

// committed are the events of the log so far that fit.
func (r *ring) committed(fits func(streams.Recorded) bool) (all []streams.Recorded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if fits(s.Recorded) {
			all = append(all, s.Recorded)
		}
	}
	return all
}

// same compares what a client had with what was committed.
func (s *told) same(t testing.TB, want []streams.Recorded) {
	t.Helper()
	if len(s.events) != len(want) {
		t.Fatalf("%s had %d events, committed were %d", s.id, len(s.events), len(want))
	}
	for i, e := range s.events {
		w := want[i]
		if e.text("stream") != string(w.Stream) || number(e, "seq") != w.Version || number(e, "position") != w.Position ||
			e.text("event_type") != w.Type || e.text("hash") != fmt.Sprintf("%x", w.Hash) {
			t.Fatalf("%s: event %d is %v, committed was %s %d", s.id, i, e, w.Stream, w.Version)
		}
	}
}

// titled opens a thread and renames it a few times.
func (r *ring) titled(user, id string, times int) {
	r.t.Helper()
	c := &conversation{r: r, scope: domain.User(user), thread: id}
	c.must(thread.Open{On: thread.On{Thread: id}})
	for i := range times {
		c.rename(i)
	}
}

func (c *conversation) rename(n int) {
	c.r.t.Helper()
	c.must(thread.Rename{On: thread.On{Thread: c.thread}, Title: thread.Title{Text: fmt.Sprint("title ", n)}})
}

func of(scope domain.Scope, stream domain.Stream) func(streams.Recorded) bool {
	return func(r streams.Recorded) bool { return r.Scope == scope && (stream == "" || r.Stream == stream) }
}

// TestASubscriptionBringsWhatWasCommitted: from wherever it begins, however its frames are made, while projectors stand still
// and writes go on, a client gets what was committed, in order and once; and after a cut it goes on from its cursor.
func TestASubscriptionBringsWhatWasCommitted(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	r := newRing(t, live.Timing{})
	scope := domain.User("ada")
	r.titled("ada", "one", 20)
	r.titled("ada", "two", 20)
	one := domain.NewStream("thread", "one")

	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range 120 {
			c := &conversation{r: r, scope: scope, thread: []string{"one", "two"}[i%2]}
			if err := c.ask(thread.Rename{On: thread.On{Thread: c.thread}, Title: thread.Title{Text: fmt.Sprint("more ", i)}}); err != nil {
				t.Error(err)
			}
			if i == 40 {
				r.stopProjecting()
			}
			if i == 90 {
				r.project()
			}
		}
	})
	written := make(chan struct{})
	go func() {
		defer close(written)
		writing.Wait()
	}()
	type follower struct {
		told
		c      *client
		hello  frame
		ask    frame
		cursor string
		from   uint64
	}
	var followers []*follower
	for i, ask := range []frame{
		{"stream": one, "after": 0}, {"stream": one, "after": 7}, {"scope": scope, "after": 0}, {"scope": scope, "after": 11, "stored": true},
		{"stream": one}, {"scope": scope},
	} {
		for j, batch := range []bool{false, true} {
			f := &follower{told: told{id: fmt.Sprintf("s%d", i)}, hello: frame{"batch": batch}, ask: ask, cursor: "seq"}
			if ask["scope"] != nil {
				f.cursor = "position"
			}
			f.c = r.device("ada", fmt.Sprintf("laptop-%d-%d", i, j), f.hello)
			head := f.c.subscribe(f.id, ask)
			if after, ok := ask["after"].(int); ok {
				f.from = uint64(after)
			} else {
				f.from = head
			}
			f.told.cursor = f.from
			followers = append(followers, f)
		}
	}
	for _, f := range followers { // each is cut somewhere, and goes on
		for range random.IntN(30) {
			came, ok := f.c.before(written) // who follows from now on may get fewer
			if !ok {
				break
			}
			f.take(t, came, f.cursor)
		}
		check(t, f.c.ws.Close())
		f.c = r.device("ada", "again "+f.id+fmt.Sprint(f.hello), f.hello)
		again := frame{"after": f.told.cursor}
		for k, v := range f.ask {
			if k != "after" {
				again[k] = v
			}
		}
		if n := len(f.events); n > 0 {
			again["after_hash"] = f.events[n-1].text("hash")
		}
		f.c.subscribe(f.id, again)
	}
	<-written
	r.rename("ada", "one", "the last")
	_, last := await(r, func(e thread.Titled) bool { return e.Title.Text == "the last" })
	for _, f := range followers {
		stream, at := domain.Stream(""), last.Position
		if f.cursor == "seq" {
			stream, at = one, last.Version
		}
		f.c.until(&f.told, f.cursor, at)
		upTo := f.told.cursor
		f.same(t, r.committed(func(e streams.Recorded) bool {
			place := e.Position
			if stream != "" {
				place = e.Version
			}
			return of(scope, stream)(e) && place > f.from && place <= upTo
		}))
		for _, e := range f.events {
			if stored, ok := e["stored"].(map[string]any); (f.ask["stored"] == true) != ok || ok && stored["at"] == nil {
				t.Fatalf("%s has stored %v", f.id, e["stored"])
			}
		}
	}
}

// before is the next frame, if one comes before something is done.
func (c *client) before(done <-chan struct{}) (f frame, ok bool) {
	c.t.Helper()
	select {
	case f, ok = <-c.frames:
		if !ok {
			c.t.Fatalf("the socket closed: %v", <-c.closed)
		}
		return f, true
	case <-done:
		return nil, false
	}
}

func (r *ring) rename(user, id, title string) {
	r.t.Helper()
	c := &conversation{r: r, scope: domain.User(user), thread: id}
	c.must(thread.Rename{On: thread.On{Thread: id}, Title: thread.Title{Text: title}})
}

func TestSubscriptions(t *testing.T) {
	r := newRing(t, live.Timing{})
	for name, test := range map[string]func(*ring, string){
		"wrong wishes are refused in words":            subscribedWrongly,
		"nothing comes after unsubscribed":             unsubscribed,
		"a cursor that can't be is a reset":            impossibleCursor,
		"a filter leaves out and the cursor moves":     filtered,
		"what streams comes live and then committed":   streamed,
		"a socket has so many and no more":             tooMany,
		"many subscriptions on a socket do not mix":    manyAtOnce,
		"somebody else's is not found":                 notTheirs,
		"who is revoked is put out, and nobody else":   revoked,
		"a subscription that is taken back at once":    takenBackAtOnce,
		"sealed content is open, and verifiable":       opened,
		"an erased account's subscriptions are ended ": erasedWhileFollowed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(r.in(t), "user"+strings.Map(letters, strings.ToLower(name)))
		})
	}
}

func subscribedWrongly(r *ring, user string) {
	scope := string(domain.User(user))
	r.titled(user, "mine"+user, 1)
	c := r.device(user, "laptop", nil)
	for name, test := range map[string]struct {
		frame frame
		code  string
	}{
		"no id":                 {frame{"scope": scope}, "invalid"},
		"empty id":              {frame{"id": "", "scope": scope}, "invalid"},
		"NUL in the id":         {frame{"id": "a\x00", "scope": scope}, "invalid"},
		"long id":               {frame{"id": strings.Repeat("x", 201), "scope": scope}, "invalid"},
		"nothing":               {frame{"id": "a"}, "invalid"},
		"both":                  {frame{"id": "a", "scope": scope, "stream": "thread-x"}, "invalid"},
		"impossible stream":     {frame{"id": "a", "stream": "../x"}, "not_found"},
		"no such stream":        {frame{"id": "a", "stream": "thread-nowhere"}, "not_found"},
		"no such stream from 0": {frame{"id": "a", "stream": "thread-nowhere", "after": 0}, "not_found"},
		"impossible scope":      {frame{"id": "a", "scope": "everything"}, "not_found"},
		"other scope":           {frame{"id": "a", "scope": "user-somebody"}, "not_found"},
		"negative":              {frame{"id": "a", "scope": scope, "after": -1}, "malformed"},
		"fraction":              {frame{"id": "a", "scope": scope, "after": 1.5}, "malformed"},
		"too large":             {frame{"id": "a", "scope": scope, "after": 1e30}, "malformed"},
		"words":                 {frame{"id": "a", "scope": scope, "after": "7"}, "malformed"},
		"id of another type":    {frame{"id": 7, "scope": scope}, "malformed"},
		"hash of nothing":       {frame{"id": "a", "scope": scope, "after_hash": strings.Repeat("a", 64)}, "invalid"},
		"no hash":               {frame{"id": "a", "scope": scope, "after": 1, "after_hash": "nonsense"}, "invalid"},
		"filter of a stream":    {frame{"id": "a", "stream": "thread-mine" + user, "filter": frame{}}, "invalid"},
		"unknown type":          {frame{"id": "a", "scope": scope, "filter": frame{"types": []string{"thread.titled", "thread.sung"}}}, "invalid"},
		"too many types":        {frame{"id": "a", "scope": scope, "filter": frame{"types": make([]string, 65)}}, "invalid"},
		"long agent":            {frame{"id": "a", "scope": scope, "filter": frame{"agent_id": strings.Repeat("x", 201)}}, "invalid"},
	} {
		test.frame["type"] = "subscribe"
		c.send(test.frame)
		f := c.refused(test.code)
		if id, _ := test.frame["id"].(string); f.text("id") != id && name != "long id" {
			r.t.Errorf("%s: got %v", name, f)
		}
	}
	c.alive()
	for _, id := range []string{"a", "", strings.Repeat("x", 300)} {
		c.send(frame{"type": "unsubscribe", "id": id})
		c.refused("not_found")
	}
	c.send(frame{"type": "unsubscribe", "id": 7})
	c.refused("malformed")
	c.subscribe("a", frame{"scope": scope})
	c.send(frame{"type": "subscribe", "id": "a", "scope": scope})
	if f := c.refused("id_in_use"); f.text("id") != "a" {
		r.t.Errorf("got %v", f)
	}
	r.rename(user, "mine"+user, "x") // the first lives on
	for f := c.expect("event"); f.text("event_type") != "thread.titled"; f = c.expect("event") {
		if f.text("subscription") != "a" {
			r.t.Fatalf("got %v", f)
		}
	}
}

func unsubscribed(r *ring, user string) {
	r.titled(user, "t"+user, 50)
	c := r.device(user, "laptop", frame{"batch": true})
	stream := domain.NewStream("thread", "t"+user)
	for round := range 5 {
		c.subscribe("s", frame{"stream": stream, "after": 0})
		r.rename(user, "t"+user, fmt.Sprint("round ", round))
		c.send(frame{"type": "unsubscribe", "id": "s"})
		for f := c.next(); f.text("type") != "unsubscribed"; f = c.next() {
			if f.text("subscription") != "s" {
				r.t.Fatalf("got %v", f)
			}
		}
		r.rename(user, "t"+user, fmt.Sprint("afterwards ", round))
		c.alive()
	}
}

func impossibleCursor(r *ring, user string) {
	r.titled(user, "t"+user, 3)
	c := r.device(user, "laptop", nil)
	stream := domain.NewStream("thread", "t"+user)
	c.subscribe("far", frame{"stream": stream, "after": 1000})
	f := c.expect("reset")
	if f.text("reason") != "beyond_head" || number(f, "head") != 4 || f.text("subscription") != "far" {
		r.t.Fatalf("got %v", f)
	}
	for at, reason := range map[int]string{2: "other_hash", 4: "other_hash", 0: "other_hash"} {
		c.subscribe("hash", frame{"stream": stream, "after": at, "after_hash": strings.Repeat("ab", 32)})
		if f = c.expect("reset"); f.text("reason") != reason || number(f, "head") != 4 || len(f.text("head_hash")) != 64 {
			r.t.Fatalf("at %d: got %v", at, f)
		}
	}
	// What it says is where one can go on.
	c.subscribe("hash", frame{"stream": stream, "after": number(f, "head"), "after_hash": f["head_hash"]})
	r.rename(user, "t"+user, "more")
	if e := c.expect("event"); number(e, "seq") != 5 {
		r.t.Fatalf("got %v", e)
	}
}

func filtered(r *ring, user string) {
	r.titled(user, "t"+user, 30)
	for _, batch := range []bool{true, false} {
		c := r.device(user, fmt.Sprint("laptop", batch), frame{"batch": batch})
		scope := domain.User(user)
		s := told{id: "s"}
		c.subscribe("s", frame{"scope": scope, "after": 0, "filter": frame{"types": []string{"thread.opened"}}})
		_, at := await(r, func(e thread.Titled) bool { return e.Title.Text == "title 29" })
		c.until(&s, "position", at.Position)
		if len(s.events) != 1 || s.events[0].text("event_type") != "thread.opened" {
			r.t.Fatalf("got %v", s.events)
		}
		r.rename(user, "t"+user, fmt.Sprint("new ", batch))
		_, at = await(r, func(e thread.Titled) bool { return e.Title.Text == fmt.Sprint("new ", batch) })
		c.until(&s, "position", at.Position) // by an empty frame, in a moment
		if len(s.events) != 1 || s.empty == 0 {
			r.t.Fatalf("got %v, %d empty", s.events, s.empty)
		}
	}
}

func streamed(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	asks := r.device(user, "phone", nil)
	asks.send(frame{"type": "home_request", "request_id": "r1", "message": "Hello"})
	asks.expect("stream_start")
	run := r.of(user, "r1")
	run.route("task_agent")
	await(r, func(e thread.TurnRequested) bool { return e.RunID == run.run })
	_, at := await(r, func(e thread.TurnRequested) bool { return e.RunID == run.run })
	c.subscribe("s", frame{"stream": at.Stream, "after": at.Version})
	run.say(1, 1, 1, 0, "Hel")
	f := c.expect("live")
	data, _ := f["data"].(map[string]any)
	if f.text("run_id") != run.run || f.text("kind") != "text" || data["text"] != "Hel" || number(f, "turn") != 1 {
		r.t.Fatalf("got %v", f)
	}
	run.turn(1, 1, "Hello there")
	for number(f, "seq") == 0 {
		if f = c.next(); f.text("type") == "live" {
			r.t.Fatalf("got %v again", f)
		}
	}
	if f.text("event_type") != "thread.turn_completed" || number(f, "seq") != at.Version+1 {
		r.t.Fatalf("got %v", f)
	}
}

func tooMany(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	scope := domain.User(user)
	for i := range 257 {
		c.send(frame{"type": "subscribe", "id": fmt.Sprint(i), "scope": scope, "filter": frame{"types": []string{"thread.opened"}}})
	}
	had := 0
	for had < 256 {
		switch f := c.next(); f.text("type") {
		case "subscribed":
			had++
		case "error":
			if f.text("code") != "busy" || f.text("id") != "256" {
				r.t.Fatalf("got %v", f)
			}
		case "events":
		default:
			r.t.Fatalf("got %v", f)
		}
	}
	c.send(frame{"type": "unsubscribe", "id": "7"})
	c.expectLater("unsubscribed")
	c.send(frame{"type": "subscribe", "id": "256", "scope": scope})
	c.expectLater("subscribed")
}

func manyAtOnce(r *ring, user string) {
	const many = 40
	c := r.device(user, "laptop", frame{"batch": true})
	all := map[string]*told{}
	for i := range many {
		id := fmt.Sprintf("%s%d", user, i)
		r.titled(user, id, 2)
		all[id] = &told{id: id}
		c.send(frame{"type": "subscribe", "id": id, "stream": domain.NewStream("thread", id), "after": 0})
	}
	for i := range many {
		r.rename(user, fmt.Sprintf("%s%d", user, i), "third")
	}
	for done := 0; done < many; {
		f := c.next()
		if f.text("type") == "subscribed" {
			continue
		}
		s := all[f.text("subscription")]
		s.take(r.t, f, "seq")
		if s.cursor == 4 {
			done++
		}
	}
	for id, s := range all {
		mine := of(domain.User(user), domain.NewStream("thread", id))
		for len(r.committed(mine)) < 4 { // the socket can have it before the test
			runtime.Gosched()
		}
		s.same(r.t, r.committed(mine))
	}
}

func notTheirs(r *ring, user string) {
	r.titled(user, "t"+user, 1)
	c := r.device("thief"+user, "laptop", nil)
	stream := domain.NewStream("thread", "t"+user)
	for _, ask := range []frame{{"stream": stream, "after": 0}, {"stream": stream}, {"scope": domain.User(user), "after": 0}, {"scope": domain.User(user)}} {
		ask["type"], ask["id"] = "subscribe", "s"
		c.send(ask)
		c.refused("not_found")
	}
	r.rename(user, "t"+user, "secret")
	c.alive()
}

func revoked(r *ring, user string) {
	goes, stays := r.device(user, "laptop", nil), r.device("other"+user, "laptop", nil)
	goes.subscribe("s", frame{"scope": domain.User(user)})
	r.gateway.Revoke(func(p accounts.Principal) bool { return p.UserID == user })
	goes.gone(1008)
	stays.alive()
}

func takenBackAtOnce(r *ring, user string) {
	r.titled(user, "t"+user, 5)
	c := r.device(user, "laptop", nil)
	for range 50 {
		c.send(frame{"type": "subscribe", "id": "s", "stream": domain.NewStream("thread", "t"+user), "after": 0})
		c.send(frame{"type": "unsubscribe", "id": "s"})
	}
	for ended := 0; ended < 50; {
		switch f := c.next(); f.text("type") {
		case "unsubscribed":
			ended++
		case "subscribed", "event":
		default:
			r.t.Fatalf("got %v", f)
		}
	}
	c.alive()
}

func opened(r *ring, user string) {
	r.titled(user, "t"+user, 1)
	c := r.device(user, "laptop", nil)
	c.subscribe("s", frame{"stream": domain.NewStream("thread", "t"+user), "after": 1, "stored": true})
	f := c.expect("event")
	data, _ := f["data"].(map[string]any)
	stored, _ := f["stored"].(map[string]any)
	if data["content"] == nil || !strings.Contains(fmt.Sprint(data["content"]), "title 0") || f.text("salt") == "" || f.text("seal_digest") == "" ||
		!strings.Contains(fmt.Sprint(stored["text"]), "title 0") {
		r.t.Fatalf("got %v", f)
	}
}

func erasedWhileFollowed(r *ring, user string) {
	c, other := r.device(user, "laptop", nil), r.device("other"+user, "laptop", nil)
	c.subscribe("s", frame{"scope": domain.User(user)})
	r.erase(user)
	c.gone(1008)
	other.alive()
}
