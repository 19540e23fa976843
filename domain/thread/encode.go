package thread

import "encoding/json"

// The stored form of a state. Raise the aggregate's fold number when it, or Evolve, changes.

type stateJSON struct {
	Version  uint64         `json:"v,omitempty"`
	Waiting  []waitingJSON  `json:"waiting,omitempty"`
	Run      *runJSON       `json:"run,omitempty"`
	Ended    []endedJSON    `json:"ended,omitempty"`
	Forgot   bool           `json:"forgot,omitempty"`
	Indexing []indexingJSON `json:"indexing,omitempty"`
}

type waitingJSON struct {
	Run     string  `json:"run"`
	Version uint64  `json:"v"`
	Channel Channel `json:"channel,omitempty"`
	Device  string  `json:"device,omitempty"`
	Zone    string  `json:"zone,omitempty"`
	Focus   *Focus  `json:"focus,omitempty"`
}

type runJSON struct {
	ID        string     `json:"id"`
	Device    string     `json:"device,omitempty"`
	Agent     string     `json:"agent,omitempty"`
	Stage     stage      `json:"stage"`
	Turn      int        `json:"turn,omitempty"`
	Attempt   int        `json:"attempt,omitempty"`
	Deadlines int        `json:"deadlines,omitempty"`
	NoTools   bool       `json:"no_tools,omitempty"`
	Rounds    int        `json:"rounds,omitempty"`
	Calls     []int      `json:"calls,omitempty"`
	Open      []callJSON `json:"open,omitempty"`
}

type callJSON struct {
	ID       string   `json:"id"`
	Tool     string   `json:"tool,omitempty"`
	Step     int      `json:"step"`
	Executor Executor `json:"executor,omitempty"`
	Then     string   `json:"then,omitempty"`
	Offered  bool     `json:"offered,omitempty"`
	Started  bool     `json:"started,omitempty"`
	Indexing bool     `json:"indexing,omitempty"`
}

type indexingJSON struct {
	Call    callJSON `json:"call"`
	Device  string   `json:"device,omitempty"`
	Attempt int      `json:"attempt"`
	Due     bool     `json:"due,omitempty"`
}

type endedJSON struct {
	ID     string `json:"id"`
	Device string `json:"device,omitempty"`
	Calls  []int  `json:"calls,omitempty"`
}

func callToJSON(c call) callJSON {
	return callJSON{
		ID: c.id, Tool: c.tool, Step: c.step.number, Executor: c.step.executor, Then: c.step.then,
		Offered: c.step.offered, Started: c.step.started, Indexing: c.indexing,
	}
}

func callFromJSON(c callJSON) call {
	return call{
		id: c.ID, tool: c.Tool, indexing: c.Indexing,
		step: step{number: c.Step, executor: c.Executor, then: c.Then, offered: c.Offered, started: c.Started},
	}
}

// each maps a list, and nothing to nothing.
func each[A, B any](list []A, f func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	mapped := make([]B, len(list))
	for i, x := range list {
		mapped[i] = f(x)
	}
	return mapped
}

// MarshalJSON is the stored form.
func (s State) MarshalJSON() ([]byte, error) {
	stored := stateJSON{
		Version: s.version, Forgot: s.forgot,
		Waiting: each(s.waiting, func(w waiting) waitingJSON {
			return waitingJSON{Run: w.run, Version: w.version, Channel: w.channel, Device: w.device, Zone: w.zone, Focus: w.focus}
		}),
		Ended: each(s.ended, func(e ended) endedJSON { return endedJSON{ID: e.id, Device: e.device, Calls: e.calls} }),
		Indexing: each(s.indexing, func(x indexing) indexingJSON {
			return indexingJSON{Call: callToJSON(x.call), Device: x.device, Attempt: x.attempt, Due: x.due}
		}),
	}
	if r := s.run; r != nil {
		stored.Run = &runJSON{
			ID: r.id, Device: r.device, Agent: r.agent, Stage: r.stage, Turn: r.turn, Attempt: r.attempt, Deadlines: r.deadlines,
			NoTools: r.noTools, Rounds: r.rounds, Calls: r.calls, Open: each(r.open, callToJSON),
		}
	}
	return json.Marshal(stored)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *State) UnmarshalJSON(b []byte) error {
	var stored stateJSON
	if err := json.Unmarshal(b, &stored); err != nil {
		return err
	}
	*s = State{
		version: stored.Version, forgot: stored.Forgot,
		waiting: each(stored.Waiting, func(w waitingJSON) waiting {
			return waiting{run: w.Run, version: w.Version, channel: w.Channel, device: w.Device, zone: w.Zone, focus: w.Focus}
		}),
		ended: each(stored.Ended, func(e endedJSON) ended { return ended{id: e.ID, device: e.Device, calls: e.Calls} }),
		indexing: each(stored.Indexing, func(x indexingJSON) indexing {
			return indexing{call: callFromJSON(x.Call), device: x.Device, attempt: x.Attempt, due: x.Due}
		}),
	}
	if r := stored.Run; r != nil {
		s.run = &run{
			id: r.ID, device: r.Device, agent: r.Agent, stage: r.Stage, turn: r.Turn, attempt: r.Attempt, deadlines: r.Deadlines,
			noTools: r.NoTools, rounds: r.Rounds, calls: r.Calls, open: each(r.Open, callFromJSON),
		}
	}
	return nil
}
