package thread_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
)

// calling is a run whose first turn asked for these calls.
func calling(plans ...thread.Plan) []thread.Command {
	return []thread.Command{post("r", first), route("r", "task_agent"), answer("r", 1, 1, "", plans...)}
}

func then(given []thread.Command, more ...thread.Command) []thread.Command {
	return append(given[:len(given):len(given)], more...)
}

func with[C any](c C, change func(*C)) C { change(&c); return c }

func TestDecide(t *testing.T) {
	busy := []thread.Command{post("r", first)}
	asked := []thread.Command{post("r", first), route("r", "task_agent")}
	offered := then(calling(list), offer("r.1.0", 1))
	started := then(calling(insert), with(offer("r.1.0", 1), func(c *thread.OfferCall) { c.Started = true }))
	stored := then(calling(insert), offer("r.1.0", 1), result("r.1.0", 1))
	unindexed := then(stored, with(advance("r.1.0", 2, nil), func(c *thread.AdvanceCall) { c.NotIndexed = true }))
	failing := func(n int, class thread.FailureClass) []thread.Command {
		given := asked
		for i := 1; i <= n; i++ {
			given = then(given, failTurn("r", 1, i, class), fire(fmt.Sprintf("retry:r:1:%d", i+1)))
		}
		return given
	}
	var full []thread.Command
	full = append(full, busy...)
	for i := range thread.MaxQueued {
		full = append(full, post(fmt.Sprintf("q%d", i)))
	}
	rounds := asked
	for turn := 1; turn <= thread.MaxRounds; turn++ {
		rounds = then(rounds, answer("r", turn, 1, "", wrong))
	}
	start := func(run string) []string { return []string{"RunStarted " + run, "RouteRequested 1"} }

	for name, c := range map[string]struct {
		given []thread.Command
		when  thread.Command
		then  []string
		code  string
	}{
		"open":                            {nil, thread.Open{On: on}, []string{"Opened"}, ""},
		"open again changes nothing":      {busy, thread.Open{On: on}, nil, ""},
		"open under a bad id":             {nil, thread.Open{On: thread.On{Thread: "T!"}}, nil, domain.CodeInvalid},
		"nothing before the thread":       {nil, thread.Cancel{On: on, RunID: "r"}, nil, domain.CodeNotFound},
		"a timer before the thread":       {nil, fire("retry:r:1:2"), nil, domain.CodeNotFound},
		"the awaited device comes":        {calling(list, insert), resume("r", "d1"), []string{"RunResumed r.1.0.1 r.1.1.1"}, ""},
		"one of two steps is offered":     {then(calling(list, insert), offer("r.1.0", 1)), resume("r", "d1"), []string{"RunResumed r.1.1.1"}, ""},
		"a device comes, none waits":      {offered, resume("r", "d1"), nil, ""},
		"another device comes":            {calling(list), resume("r", "d2"), nil, ""},
		"a device comes, another run":     {calling(list), resume("q", "d1"), nil, ""},
		"no device comes":                 {calling(list), resume("r", ""), nil, ""},
		"rename":                          {busy, thread.Rename{On: on, Title: thread.Title{Text: "Milk"}}, []string{"Titled"}, ""},
		"rename to nothing":               {busy, thread.Rename{On: on, Title: thread.Title{Text: "  "}}, nil, domain.CodeInvalid},
		"rename to a novel":               {busy, thread.Rename{On: on, Title: thread.Title{Text: strings.Repeat("é", 201)}}, nil, domain.CodeInvalid},
		"the first message":               {nil, post("r", first), append([]string{"Opened", "MessagePosted"}, start("r")...), ""},
		"a new thread that exists":        {busy, post("s", first), nil, domain.CodeConflict},
		"a message to no thread":          {nil, post("r"), nil, domain.CodeNotFound},
		"a message to an empty thread":    {[]thread.Command{thread.Open{On: on}}, post("r"), append([]string{"MessagePosted"}, start("r")...), ""},
		"an empty message":                {busy, post("s", func(c *thread.PostMessage) { c.Content.Text = " \n" }), nil, domain.CodeInvalid},
		"a message that is no text":       {busy, post("s", func(c *thread.PostMessage) { c.Content.Text = "\xff" }), nil, domain.CodeInvalid},
		"a message of 1 MiB":              {busy, post("s", func(c *thread.PostMessage) { c.Content.Text = strings.Repeat("a", 1<<20) }), []string{"MessagePosted queued"}, ""},
		"a message that is too large":     {busy, post("s", func(c *thread.PostMessage) { c.Content.Text = strings.Repeat("a", 1<<20+1) }), nil, domain.CodeTooLarge},
		"a history that is too large":     {busy, post("s", func(c *thread.PostMessage) { c.Content.History = []thread.Said{{Content: strings.Repeat("a", 1<<20)}} }), nil, domain.CodeTooLarge},
		"a run id with a dot":             {busy, post("s.1"), nil, domain.CodeInvalid},
		"a run id in use":                 {busy, post("r"), nil, domain.CodeConflict},
		"a run id that waits":             {then(busy, post("s")), post("s"), nil, domain.CodeConflict},
		"an unknown channel":              {busy, post("s", func(c *thread.PostMessage) { c.Channel = "fax" }), nil, domain.CodeInvalid},
		"an unknown on_busy":              {busy, post("s", func(c *thread.PostMessage) { c.OnBusy = "shout" }), nil, domain.CodeInvalid},
		"an unknown focus":                {busy, post("s", func(c *thread.PostMessage) { c.Focus = &thread.Focus{Type: "user"} }), nil, domain.CodeInvalid},
		"busy: queue":                     {busy, post("s"), []string{"MessagePosted queued"}, ""},
		"busy: refuse":                    {busy, post("s", refuse), nil, thread.CodeBusy},
		"busy: interrupt":                 {busy, post("s", interrupt), append([]string{"RunCancelled r by interrupt", "MessagePosted"}, start("s")...), ""},
		"idle: interrupt":                 {then(asked, answer("r", 1, 1, "hi")), post("s", interrupt), append([]string{"MessagePosted"}, start("s")...), ""},
		"the queue is full":               {full, post("s"), nil, thread.CodeQueueFull},
		"interrupt with a full queue":     {full, post("s", interrupt), append([]string{"RunCancelled r by interrupt", "MessagePosted"}, start("s")...), ""},
		"cancel":                          {busy, thread.Cancel{On: on, RunID: "r"}, []string{"RunCancelled r by user"}, ""},
		"cancel starts the next":          {then(busy, post("s"), post("u")), thread.Cancel{On: on, RunID: "r"}, append([]string{"RunCancelled r by user"}, start("s")...), ""},
		"cancel a queued run":             {then(busy, post("s")), thread.Cancel{On: on, RunID: "s"}, []string{"RunCancelled s by user"}, ""},
		"cancel a queued run twice":       {then(busy, post("s"), thread.Cancel{On: on, RunID: "s"}), thread.Cancel{On: on, RunID: "s"}, nil, thread.CodeRunEnded},
		"a cancelled run's id again":      {then(busy, post("s"), thread.Cancel{On: on, RunID: "s"}), post("s"), nil, domain.CodeConflict},
		"cancel what ended":               {then(asked, answer("r", 1, 1, "hi")), thread.Cancel{On: on, RunID: "r"}, nil, thread.CodeRunEnded},
		"cancel what never was":           {busy, thread.Cancel{On: on, RunID: "x"}, nil, domain.CodeNotFound},
		"route":                           {busy, route("r", "note_agent"), []string{"RouteDecided note_agent", "TurnRequested 1.1"}, ""},
		"route to nobody":                 {busy, route("r", ""), []string{"RouteDecided task_agent fallback", "TurnRequested 1.1"}, ""},
		"route twice":                     {asked, route("r", "note_agent"), nil, ""},
		"route of another run":            {busy, route("x", "note_agent"), nil, ""},
		"route fails":                     {busy, thread.FailRoute{On: on, RunID: "r", Attempt: 1, Class: thread.Unavailable}, []string{"RouteFailed unavailable 500ms"}, ""},
		"route again":                     {then(busy, thread.FailRoute{On: on, RunID: "r", Attempt: 1, Class: thread.Unavailable}), fire("retry:r:0:2"), []string{"RouteRequested 2"}, ""},
		"route is refused":                {busy, thread.FailRoute{On: on, RunID: "r", Attempt: 1, Class: thread.Refused}, []string{"RouteFailed refused 0s", "RouteDecided task_agent fallback", "TurnRequested 1.1"}, ""},
		"route takes too long":            {busy, fire("turn:r.route.1"), []string{"RouteFailed deadline 0s", "RouteDecided task_agent fallback", "TurnRequested 1.1"}, ""},
		"an answer":                       {asked, answer("r", 1, 1, "hi"), []string{"TurnCompleted 0 calls", "RunCompleted"}, ""},
		"an answer starts the next":       {then(asked, post("s")), answer("r", 1, 1, "hi"), append([]string{"TurnCompleted 0 calls", "RunCompleted"}, start("s")...), ""},
		"a second answer":                 {then(asked, answer("r", 1, 1, "hi")), answer("r", 1, 1, "ho"), nil, ""},
		"an answer of an old attempt":     {failing(1, thread.Unavailable), answer("r", 1, 1, "hi"), nil, ""},
		"an answer while waiting":         {then(asked, failTurn("r", 1, 1, thread.Unavailable)), answer("r", 1, 1, "hi"), nil, ""},
		"no finish reason":                {asked, with(answer("r", 1, 1, "hi"), func(c *thread.CompleteTurn) { c.FinishReason = "" }), []string{"TurnFailed truncated 500ms"}, ""},
		"nothing said":                    {asked, answer("r", 1, 1, ""), []string{"TurnFailed malformed 500ms"}, ""},
		"calls without plans":             {asked, with(answer("r", 1, 1, "", list), func(c *thread.CompleteTurn) { c.Plans = nil }), []string{"TurnFailed malformed 500ms"}, ""},
		"the second failure":              {failing(1, thread.Malformed), failTurn("r", 1, 2, thread.RateLimited), []string{"TurnFailed rate_limited 1s"}, ""},
		"the provider wants more time":    {asked, with(failTurn("r", 1, 1, thread.RateLimited), func(c *thread.FailTurn) { c.RetryAfter = time.Minute }), []string{"TurnFailed rate_limited 1m0s"}, ""},
		"the provider wants less":         {failing(3, thread.RateLimited), with(failTurn("r", 1, 4, thread.RateLimited), func(c *thread.FailTurn) { c.RetryAfter = time.Second }), []string{"TurnFailed rate_limited 4s"}, ""},
		"the provider wants a day":        {asked, with(failTurn("r", 1, 1, thread.RateLimited), func(c *thread.FailTurn) { c.RetryAfter = 24 * time.Hour }), []string{"TurnFailed rate_limited 0s", "RunFailed rate_limited: the model's provider limits the rate, and asks to wait 24h0m0s"}, ""},
		"the fifth failure":               {then(failing(4, thread.Unavailable), post("s")), failTurn("r", 1, 5, thread.Unavailable), append([]string{"TurnFailed unavailable 0s", "RunFailed unavailable: the model could not be reached, after 5 attempts"}, start("s")...), ""},
		"a failure of no use to repeat":   {asked, failTurn("r", 1, 1, thread.ContextLimit), []string{"TurnFailed context_limit 0s", "RunFailed context_limit: the conversation is longer than the model can read"}, ""},
		"try again":                       {then(asked, failTurn("r", 1, 1, thread.Unavailable)), fire("retry:r:1:2"), []string{"TurnRequested 1.2"}, ""},
		"try again too early in the list": {then(asked, failTurn("r", 1, 1, thread.Unavailable)), fire("retry:r:1:3"), nil, ""},
		"the deadline":                    {asked, fire("turn:r.turn.1.1"), []string{"TurnFailed deadline 500ms"}, ""},
		"the deadline again":              {then(asked, fire("turn:r.turn.1.1"), fire("retry:r:1:2")), fire("turn:r.turn.1.2"), []string{"TurnFailed deadline 0s", "RunFailed deadline: the model did not answer in time, after 2 attempts"}, ""},
		"a deadline that is over":         {failing(1, thread.Unavailable), fire("turn:r.turn.1.1"), nil, ""},
		"nonsense fires":                  {asked, fire("retry:"), nil, ""},
		"calls":                           {asked, answer("r", 1, 1, "so", list, search), []string{"TurnCompleted 2 calls", "ToolCallRequested r.1.0.1 device", "ToolCallRequested r.1.1.1 server"}, ""},
		"a call answered at once":         {asked, answer("r", 1, 1, "", wrong, list), []string{"TurnCompleted 2 calls", "ToolCallRequested r.1.0.1 none", "ToolCallFailed r.1.0.1 invalid_call", "ToolCallRequested r.1.1.1 device"}, ""},
		"all answered at once":            {asked, answer("r", 1, 1, "", wrong), []string{"TurnCompleted 1 calls", "ToolCallRequested r.1.0.1 none", "ToolCallFailed r.1.0.1 invalid_call", "TurnRequested 2.1"}, ""},
		"no device":                       {[]thread.Command{post("r", first, deviceless), route("r", "a")}, answer("r", 1, 1, "", list), []string{"TurnCompleted 1 calls", "ToolCallRequested r.1.0.1 device", "ToolCallFailed r.1.0.1 no_device", "TurnRequested 2.1"}, ""},
		"the last round":                  {then(asked, rounds[2:6]...), answer("r", 5, 1, "", wrong), []string{"TurnCompleted 1 calls", "ToolCallRequested r.5.0.1 none", "ToolCallFailed r.5.0.1 invalid_call", "TurnRequested 6.1 no tools"}, ""},
		"tools after the last round":      {rounds, answer("r", 6, 1, "", list), []string{"TurnFailed malformed 500ms"}, ""},
		"text and tools after it":         {rounds, answer("r", 6, 1, "hi", list), []string{"TurnCompleted 0 calls", "RunCompleted"}, ""},
		"a retry after it":                {then(rounds, failTurn("r", 6, 1, thread.Unavailable)), fire("retry:r:6:2"), []string{"TurnRequested 6.2 no tools"}, ""},
		"offer":                           {calling(list), offer("r.1.0", 1), []string{"ToolCallOffered r.1.0.1"}, ""},
		"offer again":                     {offered, offer("r.1.0", 1), nil, ""},
		"offer what was begun":            {started, offer("r.1.0", 1), nil, thread.CodeStarted},
		"offer what ended":                {then(offered, result("r.1.0", 1)), offer("r.1.0", 1), nil, thread.CodeCallEnded},
		"offer what never was":            {offered, offer("r.1.1", 1), nil, domain.CodeNotFound},
		"offer to another device":         {offered, with(offer("r.1.0", 1), func(c *thread.OfferCall) { c.DeviceID = "d2" }), nil, thread.CodeWrongDevice},
		"offer a server step":             {calling(search), offer("r.1.0", 1), nil, domain.CodeNotFound},
		"a result":                        {offered, result("r.1.0", 1), []string{"ToolCallCompleted r.1.0.1", "TurnRequested 2.1"}, ""},
		"a result, and others are open":   {calling(list, list), result("r.1.0", 1), []string{"ToolCallCompleted r.1.0.1"}, ""},
		"a second result":                 {then(offered, result("r.1.0", 1)), result("r.1.0", 1), []string{"LateResultRecorded"}, ""},
		"a result after the end":          {then(offered, thread.Cancel{On: on, RunID: "r"}), result("r.1.0", 1), []string{"LateResultRecorded"}, ""},
		"a late one of another device":    {then(offered, thread.Cancel{On: on, RunID: "r"}), with(result("r.1.0", 1), func(c *thread.RecordResult) { c.DeviceID = "d2" }), nil, thread.CodeWrongDevice},
		"a result for an unknown call":    {offered, result("r.1.7", 1), nil, domain.CodeNotFound},
		"a result for an unknown run":     {offered, result("x.1.0", 1), nil, domain.CodeNotFound},
		"a result of another device":      {offered, with(result("r.1.0", 1), func(c *thread.RecordResult) { c.DeviceID = "d2" }), nil, thread.CodeWrongDevice},
		"a result with an error":          {offered, with(result("r.1.0", 1), func(c *thread.RecordResult) { c.Failure = thread.DeviceError }), []string{"ToolCallFailed r.1.0.1 device_error", "TurnRequested 2.1"}, ""},
		"a result with a strange failure": {offered, with(result("r.1.0", 1), func(c *thread.RecordResult) { c.Failure = thread.NoDevice }), nil, domain.CodeInvalid},
		"a result that is too large":      {offered, with(result("r.1.0", 1), func(c *thread.RecordResult) { c.Result.Text = strings.Repeat("a", 1<<20) }), []string{"ToolCallFailed r.1.0.1 result_too_large", "TurnRequested 2.1"}, ""},
		"no answer in 30 s":               {offered, fire("offer:r.1.0.1"), []string{"ToolCallFailed r.1.0.1 deadline", "TurnRequested 2.1"}, ""},
		"no device in 24 h":               {calling(list), fire("wait:r.1.0.1"), []string{"ToolCallFailed r.1.0.1 device_offline", "TurnRequested 2.1"}, ""},
		"the wait of an offered call":     {offered, fire("wait:r.1.0.1"), nil, ""},
		"the device died":                 {started, thread.FailStep{On: on, CallID: "r.1.0", Step: 1, Reason: thread.OutcomeUnknown}, []string{"ToolCallFailed r.1.0.1 outcome_unknown", "TurnRequested 2.1"}, ""},
		"unknown, and never begun":        {offered, thread.FailStep{On: on, CallID: "r.1.0", Step: 1, Reason: thread.OutcomeUnknown}, nil, thread.CodeNotStarted},
		"unknown, and over":               {then(offered, result("r.1.0", 1)), thread.FailStep{On: on, CallID: "r.1.0", Step: 1, Reason: thread.OutcomeUnknown}, nil, ""},
		"a step fails strangely":          {offered, thread.FailStep{On: on, CallID: "r.1.0", Step: 1, Reason: thread.TimedOut}, nil, domain.CodeInvalid},
		"a search embeds first":           {calling(search), advance("r.1.0", 1, &vector), []string{"ToolStepCompleted r.1.0.1", "ToolStepRequested r.1.0.2 device"}, ""},
		"a search finds":                  {then(calling(search), advance("r.1.0", 1, &vector)), result("r.1.0", 2), []string{"ToolCallCompleted r.1.0.2", "TurnRequested 2.1"}, ""},
		"a search that can't embed":       {calling(search), thread.FailStep{On: on, CallID: "r.1.0", Step: 1, Reason: thread.ServerError}, []string{"ToolCallFailed r.1.0.1 server_error", "TurnRequested 2.1"}, ""},
		"a server step answers":           {calling(search), advance("r.1.0", 1, nil), []string{"ToolCallCompleted r.1.0.1", "TurnRequested 2.1"}, ""},
		"a server step answers again":     {then(calling(search), advance("r.1.0", 1, nil)), advance("r.1.0", 1, nil), nil, ""},
		"a search without a device":       {[]thread.Command{post("r", first, deviceless), route("r", "a"), answer("r", 1, 1, "", search)}, advance("r.1.0", 1, &vector), []string{"ToolCallFailed r.1.0.1 no_device", "TurnRequested 2.1"}, ""},
		"a worker's deadline":             {calling(search), fire("step:r.1.0.1"), []string{"ToolCallFailed r.1.0.1 server_error", "TurnRequested 2.1"}, ""},
		"a note is stored":                {then(calling(insert), offer("r.1.0", 1)), result("r.1.0", 1), []string{"ToolStepCompleted r.1.0.1", "ToolStepRequested r.1.0.2 server"}, ""},
		"a note is not stored":            {then(calling(insert), offer("r.1.0", 1)), with(result("r.1.0", 1), func(c *thread.RecordResult) { c.Failure = thread.DeviceError }), []string{"ToolCallFailed r.1.0.1 device_error", "TurnRequested 2.1"}, ""},
		"a note is embedded":              {stored, advance("r.1.0", 2, &upsert), []string{"ToolStepCompleted r.1.0.2", "ToolStepRequested r.1.0.3 device"}, ""},
		"a note is indexed":               {then(stored, advance("r.1.0", 2, &upsert)), result("r.1.0", 3), []string{"ToolCallCompleted r.1.0.3", "TurnRequested 2.1"}, ""},
		"a note can't be embedded":        {stored, unindexed[len(unindexed)-1], []string{"ToolCallCompleted r.1.0.2 not indexed", "TurnRequested 2.1"}, ""},
		"a worker fails to index":         {stored, thread.FailStep{On: on, CallID: "r.1.0", Step: 2, Reason: thread.ServerError}, []string{"ToolCallCompleted r.1.0.2 not indexed", "TurnRequested 2.1"}, ""},
		"a device fails to index":         {then(stored, advance("r.1.0", 2, &upsert)), with(result("r.1.0", 3), func(c *thread.RecordResult) { c.Failure = thread.DeviceError }), []string{"ToolCallCompleted r.1.0.3 not indexed", "TurnRequested 2.1"}, ""},
		"cancelled before it was indexed": {stored, thread.Cancel{On: on, RunID: "r"}, []string{"IndexingFailed r.1.0.2 run_ended 1m0s", "RunCancelled r by user"}, ""},
		"index again":                     {unindexed, fire("index:r.1.0.3"), []string{"ToolStepRequested r.1.0.3 server background"}, ""},
		"index again, twice":              {then(unindexed, fire("index:r.1.0.3")), fire("index:r.1.0.3"), nil, ""},
		"index again, too early":          {unindexed, fire("index:r.1.0.5"), nil, ""},
		"indexing fails again":            {then(unindexed, fire("index:r.1.0.3")), thread.FailStep{On: on, CallID: "r.1.0", Step: 3, Reason: thread.ServerError}, []string{"IndexingFailed r.1.0.3 server_error 5m0s"}, ""},
		"embedded in the background":      {then(unindexed, fire("index:r.1.0.3")), advance("r.1.0", 3, &upsert), []string{"ToolStepCompleted r.1.0.3", "ToolStepRequested r.1.0.4 device background"}, ""},
		"indexed in the background":       {then(unindexed, fire("index:r.1.0.3"), advance("r.1.0", 3, &upsert), offer("r.1.0", 4)), result("r.1.0", 4), []string{"ToolStepCompleted r.1.0.4", "IndexingEnded true"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for i, c := range c.given {
				if _, no, err := w.do(c); err != nil || no != nil {
					t.Fatalf("given %d, %T: %v %v", i, c, no, err)
				}
				w.state = w.fork().state // as a writer that took over finds it
			}
			got, no, err := w.do(c.when)
			if err != nil {
				t.Fatal(err)
			}
			code := ""
			if no != nil {
				code = no.Code
			}
			if code != c.code {
				t.Errorf("refused with %q, want %q", code, c.code)
			}
			if diff := cmp.Diff(c.then, kinds(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestIndexingIsGivenUp: 1 min, 5 min, 30 min, 2 h, 12 h, and then no more.
func TestIndexingIsGivenUp(t *testing.T) {
	w := newWorld()
	for _, c := range then(calling(insert), result("r.1.0", 1), thread.FailStep{On: on, CallID: "r.1.0", Step: 2, Reason: thread.ServerError}) {
		if _, no, err := w.do(c); no != nil || err != nil {
			t.Fatal(no, err)
		}
	}
	var waits []time.Duration
	for step := 3; ; step++ {
		timer, ok := w.timers["index:"+thread.StepID("r.1.0", step)]
		if !ok {
			break
		}
		waits = append(waits, timer.After)
		for _, c := range []thread.Command{fire(timer.ID), thread.FailStep{On: on, CallID: "r.1.0", Step: step, Reason: thread.ServerError}} {
			if _, no, err := w.do(c); no != nil || err != nil {
				t.Fatal(no, err)
			}
		}
	}
	want := []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	if last := kind(w.events[len(w.events)-1]); last != "IndexingEnded false" {
		t.Errorf("ended with %s", last)
	}
}

// TestTheBackgroundOutlivesTheRun: the end of a run ends neither the indexing of its notes nor its deadlines.
func TestTheBackgroundOutlivesTheRun(t *testing.T) {
	w := newWorld()
	for _, c := range then(calling(insert), result("r.1.0", 1), thread.FailStep{On: on, CallID: "r.1.0", Step: 2, Reason: thread.ServerError},
		fire("index:r.1.0.3"), advance("r.1.0", 3, &upsert), offer("r.1.0", 4), answer("r", 2, 1, "done")) {
		if _, no, err := w.do(c); no != nil || err != nil {
			t.Fatal(no, err)
		}
	}
	if diff := cmp.Diff([]string{"r.1.0.4"}, sorted(w.effects)) + cmp.Diff([]string{"offer:r.1.0.4"}, sorted(w.timers)); diff != "" {
		t.Errorf("open after the run (-want +got):\n%s", diff)
	}
}

// TestAMessageKnowsItsPlace: a run names the version of the message that it answers, also after waiting.
func TestAMessageKnowsItsPlace(t *testing.T) {
	w := newWorld()
	for _, c := range []thread.Command{post("r", first), post("s"), thread.Cancel{On: on, RunID: "r"}} {
		if _, no, err := w.do(c); no != nil || err != nil {
			t.Fatal(no, err)
		}
	}
	for _, e := range w.events {
		started, ok := e.(thread.RunStarted)
		if !ok {
			continue
		}
		message, ok := w.events[started.MessageVersion-1].(thread.MessagePosted)
		if !ok || message.RunID != started.RunID || message.DeviceID != started.DeviceID {
			t.Errorf("run %s answers version %d, which is %s", started.RunID, started.MessageVersion, kind(w.events[started.MessageVersion-1]))
		}
	}
}

// TestTooManyCalls: what is over MaxCalls is dropped with a warning; the rest is done.
func TestTooManyCalls(t *testing.T) {
	w := newWorld()
	plans := make([]thread.Plan, thread.MaxCalls+3)
	for i := range plans {
		plans[i] = list
	}
	for _, c := range calling(plans...) {
		if _, no, err := w.do(c); no != nil || err != nil {
			t.Fatal(no, err)
		}
	}
	if len(w.effects) != thread.MaxCalls {
		t.Errorf("%d effects are open", len(w.effects))
	}
	for _, e := range w.events {
		if e, ok := e.(thread.TurnCompleted); ok && (len(e.Warnings) != 1 || len(e.Content.Calls) != thread.MaxCalls || e.Content.Calls[1].CallID != "r.1.1") {
			t.Errorf("turn %+v", e)
		}
	}
}
