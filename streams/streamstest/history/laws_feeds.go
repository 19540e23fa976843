package history

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// wanted is an event that a feed must carry.
type wanted struct {
	event *streams.Recorded
	entry *Entry
	feed  string
	nth   int // of its line
	seen  bool
	// void: what was published before an operator voided it stays, and need not be there.
	void bool
}

// feedOf says again what docs/analytics.md says: which feed carries the streams of a kind. Empty: none.
func feedOf(stream domain.Stream) string {
	return map[string]string{
		"account": "accounts", "organisation": "accounts", "device": "accounts", "connection": "connections", "document": "documents",
		"memory": "memory", "thread": "threads", "conversation": "threads", "workspace": "workspaces", "agent": "workspaces", "playbook": "workspaces",
	}[stream.Kind()]
}

// wanted are the events that count and are published, by their ids and in order.
func (c *check) wanted() (map[string]*wanted, []*wanted) {
	all, lines := map[string]*wanted{}, map[string]int{}
	var order []*wanted
	c.log.each(func(e *Entry) bool {
		for i := range e.Commit.Events {
			v := &e.Commit.Events[i]
			feed := feedOf(v.Stream)
			if feed == "" || all[v.ID] != nil { // of two events with one id the log is told
				continue
			}
			line := fmt.Sprint(feed, "/", e.Partition)
			w := &wanted{event: v, entry: e, feed: feed, nth: lines[line], void: c.voided(e)}
			all[v.ID], order = w, append(order, w)
			lines[line]++
		}
		return true
	})
	return all, order
}

// feeds: each event of a published kind that counts stands in its feed once, in the order of its partition of the log, and
// is what the log says without what is sealed. It holds for a log that was not moved since it was published.
func (c *check) feeds() {
	all, order := c.wanted()
	reached := map[string]int{} // by line: one more than the last
	for _, line := range c.Feeds.Lines {
		name := fmt.Sprint(line.Feed, "/", line.Partition)
		for i := range line.Records {
			r := &line.Records[i]
			c.Verdict.Published++
			w := all[r.attribute("id")]
			switch {
			case w == nil:
				c.foreign(line, r)
				continue
			case w.feed != line.Feed || w.entry.Partition != line.Partition:
				c.fault(FeedsCarry, "event %s stands in %s at offset %d, and belongs into %s/%d", w.event.ID, name, r.Offset, w.feed, w.entry.Partition)
				continue
			case w.seen:
				c.Verdict.Repeated++
				c.fault(FeedsCarry, "event %s stands in %s twice, the second time at offset %d", w.event.ID, name, r.Offset)
				continue
			case w.nth < reached[name]:
				c.fault(FeedsCarry, "event %s stands in %s at offset %d, behind one that the log has later", w.event.ID, name, r.Offset)
			}
			w.seen = true
			reached[name] = max(reached[name], w.nth+1)
			for _, why := range w.differs(r) {
				c.fault(FeedsCarry, "event %s in %s at offset %d: %s", w.event.ID, name, r.Offset, why)
			}
		}
	}
	for _, w := range order {
		name := fmt.Sprint(w.feed, "/", w.entry.Partition)
		if !w.seen && !w.void && (c.Rest == AtRest || w.nth < reached[name]) {
			c.fault(FeedsCarry, "event %s (%s of %s, offset %d) is not in %s", w.event.ID, w.event.Type, w.event.Scope, w.entry.Offset, name)
		}
	}
}

// foreign is a record of no event that counts.
func (c *check) foreign(line *FeedLine, r *FeedRecord) {
	partition, offset, ok := r.place()
	if !ok || int(partition) >= len(c.log.Partitions) || partition < 0 {
		c.fault(FeedsCarry, "%s/%d, offset %d is of no event", line.Feed, line.Partition, r.Offset)
		return
	}
	if partition == line.Partition && offset >= c.log.Ends[partition] {
		return // recorded after the log was read
	}
	for i := range c.log.Partitions[partition] {
		if e := &c.log.Partitions[partition][i]; e.Offset == offset && !e.Counts {
			c.fault(FeedsCarry, "%s/%d, offset %d carries event %s of the log's offset %d, which does not count", line.Feed, line.Partition, r.Offset, r.attribute("id"), offset)
			return
		}
	}
	c.fault(FeedsCarry, "%s/%d, offset %d carries event %s, which the log does not have", line.Feed, line.Partition, r.Offset, r.attribute("id"))
}

// differs says what a record has that its event does not say, sealed bytes above all, or the other way round.
func (w *wanted) differs(r *FeedRecord) []string {
	var wrong []string
	want := w.headers()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if text, ok := r.Headers[name]; !ok || text != want[name] {
			wrong = append(wrong, fmt.Sprintf("%s is %q, and the log says %q", name, text, want[name]))
		}
	}
	for _, name := range []string{"ce_type", "ce_dataschema", "ce_schemaversion", "cairn_resume"} {
		if _, ok := r.Headers[name]; !ok {
			wrong = append(wrong, name+" is not there")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		if _, ok := want[name]; !ok && !w.allows(name, r) {
			wrong = append(wrong, fmt.Sprintf("%s is %q, and the log does not say so", name, r.Headers[name]))
		}
	}
	switch {
	case r.Twice != "":
		wrong = append(wrong, r.Twice+" stands there twice")
	case r.Key != string(w.event.Scope):
		wrong = append(wrong, fmt.Sprintf("its key is %q", r.Key))
	case w.schema(r) == w.event.Schema && !sameJSON(r.Value, w.data()), !json.Valid(r.Value):
		wrong = append(wrong, fmt.Sprintf("its data is %q, and the log says %q", r.Value, w.data()))
	case w.leaks(r):
		wrong = append(wrong, "it carries what is sealed")
	}
	return wrong
}

// headers are those whose text follows from the log.
func (w *wanted) headers() map[string]string {
	v, e := w.event, w.entry
	var actor domain.Actor
	_ = json.Unmarshal(v.Actor, &actor) // an actor that can't be read is nobody
	var about struct {
		Run string `json:"run_id"`
	}
	_ = json.Unmarshal(v.Data, &about) // data of another form names no run
	who := string(actor.Kind)
	if actor.ID != "" {
		who += ":" + actor.ID
	}
	if about.Run == "" {
		about.Run = actor.Run
	}
	all := map[string]string{
		"content-type": "application/json", "ce_specversion": "1.0", "ce_id": v.ID, "ce_source": "/scopes/" + string(v.Scope),
		"ce_subject": string(v.Stream), "ce_time": v.At, "ce_partitionkey": string(v.Scope), "ce_sequence": fmt.Sprintf("%020d", v.Version),
		"ce_streamversion": strconv.FormatUint(v.Version, 10), "ce_position": strconv.FormatUint(v.Position, 10),
		"ce_actor": who, "ce_device": actor.Device, "ce_agent": actor.Agent, "ce_run": about.Run,
		"ce_correlationid": v.CorrelationID, "ce_causationid": v.CausationID, "ce_commandid": v.CommandID,
		"ce_logera": strconv.Itoa(v.Era), "ce_logpartition": strconv.Itoa(int(e.Partition)),
		"ce_logoffset": strconv.FormatInt(e.Offset, 10), "ce_logindex": strconv.Itoa(v.Place.Index),
		"traceparent": e.Commit.Trace,
	}
	if sealed := w.sealed(); len(sealed) > 0 {
		all["ce_sealedbytes"] = strconv.Itoa(len(sealed))
		all["ce_sealdigest"] = base64.StdEncoding.EncodeToString(v.SealDigest)
	}
	maps.DeleteFunc(all, func(_, text string) bool { return text == "" })
	return all
}

// allows says whether a header whose text the log does not give alone has one that it may have.
func (w *wanted) allows(name string, r *FeedRecord) bool {
	text := r.Headers[name]
	switch name {
	case "ce_type":
		_, ok := w.major(text)
		return ok
	case "ce_dataschema":
		major, ok := w.major(r.attribute("type"))
		return ok && strings.HasSuffix(text, "/"+w.event.Type+"/v"+major+".json")
	case "ce_schemaversion":
		return w.schema(r) >= w.event.Schema
	case "cairn_resume": // a checkpoint: the next offset, then what the acceptance rule remembers
		f := strings.SplitN(text, " ", 6)
		next, err := strconv.ParseInt(f[0], 10, 64)
		return err == nil && len(f) == 6 && next <= w.entry.Offset
	}
	return false
}

// major is the version of the type in which an event is published, such as the 1 of "thread.titled.v1".
func (w *wanted) major(text string) (string, bool) {
	major, ok := strings.CutPrefix(text, w.event.Type+".v")
	n, err := strconv.Atoi(major)
	return major, ok && err == nil && n > 0
}

func (w *wanted) schema(r *FeedRecord) int {
	n, err := strconv.Atoi(r.attribute("schemaversion"))
	if err != nil {
		return -1
	}
	return n
}

// data is the clear data; an event without any is published with an empty object.
func (w *wanted) data() []byte {
	if len(w.event.Data) == 0 {
		return []byte("{}")
	}
	return w.event.Data
}

func (w *wanted) sealed() []byte { return w.entry.sealed[w.event.Place.Index] }

// leaks reports whether a record holds sealed bytes, as they are or as the log writes them.
func (w *wanted) leaks(r *FeedRecord) bool {
	sealed := w.sealed()
	if len(sealed) == 0 {
		return false
	}
	text := base64.StdEncoding.EncodeToString(sealed)
	holds := func(b []byte) bool { return bytes.Contains(b, sealed) || bytes.Contains(b, []byte(text)) }
	for _, value := range r.Headers {
		if holds([]byte(value)) {
			return true
		}
	}
	return holds(r.Value)
}
