package fanout

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"github.com/cairnhq/cairn/domain"
)

// knownRuns bounds the memory of who answers which run.
const knownRuns = 1 << 15

// agents remember which agent answers a run, and since which position of its scope that is known.
type agents struct {
	mu    sync.Mutex
	young map[runKey]answered
	old   map[runKey]answered // a generation: forgotten when young is full
}

type runKey struct {
	scope domain.Scope
	run   string
}

type answered struct {
	agent string // empty: nobody, as far as was asked
	since uint64
}

func newAgents() *agents { return &agents{young: map[runKey]answered{}} }

// learn takes from an event which agent answers its run, if it says so.
func (a *agents) learn(e *Event) {
	if !bytes.Contains(e.recorded.Data, []byte(`"agent`)) {
		return
	}
	var said struct {
		Run     string `json:"run_id"`
		Agent   string `json:"agent"`
		AgentID string `json:"agent_id"`
	}
	if json.Unmarshal(e.recorded.Data, &said) != nil || said.Run == "" {
		return
	}
	if said.AgentID != "" {
		said.Agent = said.AgentID
	}
	if said.Agent != "" {
		a.set(runKey{e.Scope, said.Run}, answered{said.Agent, e.Position})
	}
}

// set remembers the first that is said of a run.
func (a *agents) set(key runKey, said answered) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was, ok := a.lookup(key); ok && was.agent != "" && (said.agent == "" || was.since <= said.since) {
		return
	}
	if len(a.young) >= knownRuns/2 {
		a.old, a.young = a.young, map[runKey]answered{}
	}
	a.young[key] = said
}

func (a *agents) of(key runKey) (answered, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lookup(key)
}

func (a *agents) lookup(key runKey) (answered, bool) {
	if said, ok := a.young[key]; ok {
		return said, true
	}
	said, ok := a.old[key]
	return said, ok
}

// runOf is the run that an event belongs to, "" for none.
func (e *Event) runOf() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run != nil {
		return *e.run
	}
	var of struct {
		Run  string `json:"run_id"`
		Call string `json:"call_id"`
	}
	run := ""
	if data := e.recorded.Data; bytes.Contains(data, []byte(`"run_id"`)) || bytes.Contains(data, []byte(`"call_id"`)) {
		if json.Unmarshal(data, &of) == nil {
			if run = of.Run; run == "" {
				run, _, _ = strings.Cut(of.Call, ".")
			}
		}
	}
	e.run = &run
	return run
}
