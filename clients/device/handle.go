package device

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// handle takes one frame. An error ends the session.
func (d *Device) handle(ctx context.Context, s *socket, raw []byte, calls *sync.WaitGroup) error {
	frame := Frame{Raw: raw}
	if err := json.Unmarshal(raw, &frame); err != nil {
		return fmt.Errorf("device: a frame that is not JSON: %w", err)
	}
	if d.o.OnFrame != nil {
		d.o.OnFrame(frame)
	}
	switch frame.Type {
	case "hello":
		return d.connected(ctx, s)
	case "ping":
		return s.write(map[string]string{"type": "pong"})
	case "tool_call", "data_request", "mutation":
		call := Call{Type: frame.Type}
		if err := json.Unmarshal(raw, &call); err != nil {
			return s.write(result(frame.Type, frame.ID, failed(fmt.Errorf("the call can't be read: %w", err))))
		}
		if frame.Type == "tool_call" {
			d.show(frame)
		}
		// Not in the reader: a call may take long, and pings are answered meanwhile.
		calls.Go(func() { d.answer(ctx, s, call) })
	case "tool_result_ack":
		if !d.o.Forgetful {
			return d.o.Store.Acknowledge(ctx, frame.ID)
		}
	default:
		d.deliver(frame)
	}
	return nil
}

// answer does a call and sends the result. Where the socket is gone the journal keeps it.
func (d *Device) answer(ctx context.Context, s *socket, call Call) {
	if d.o.OnCall != nil {
		d.o.OnCall(call)
	}
	var fault Fault
	if d.o.Fault != nil {
		fault = d.o.Fault(call)
	}
	if fault.Hold != nil {
		select {
		case <-ctx.Done():
			return
		case <-fault.Hold:
		}
	}
	if fault.DieBefore {
		s.kill()
		return
	}
	if fault.Silent {
		return
	}
	answer, err := d.perform(ctx, call, fault)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		// The file failed: nothing is known to be done, and nothing was journaled.
		d.o.Log.Error("a call could not be done", "call", call.ID, "error", err)
		answer = failed(err)
	}
	if d.o.OnAnswer != nil {
		d.o.OnAnswer(call, answer)
	}
	d.send(s, call, answer, fault)
}

func (d *Device) perform(ctx context.Context, call Call, fault Fault) (answer Answer, err error) {
	if fault.Answer != nil {
		if d.o.Forgetful {
			return fault.Answer, nil
		}
		return fault.Answer, d.o.Store.Note(ctx, call.ID, fault.Answer)
	}
	repeated := false
	if d.o.Forgetful {
		answer, err = d.o.Store.Execute(ctx, call)
	} else {
		answer, repeated, err = d.o.Store.ExecuteOnce(ctx, call)
	}
	if err == nil && !repeated && d.o.OnDone != nil {
		d.o.OnDone(call)
	}
	return answer, err
}

func (d *Device) send(s *socket, call Call, answer Answer, fault Fault) {
	frame := result(call.Type, call.ID, traced(answer, call.Traceparent))
	switch {
	case fault.DieAfter:
		s.kill()
		return
	case fault.DieMid:
		s.half(frame)
		return
	case fault.Raw != nil:
		frame = fault.Raw
	}
	times := 1
	if fault.Twice {
		times = 2
	}
	for range times {
		// The call may have come by a socket that died: the newest one will do, and without one the journal
		// is sent at the next connect.
		current := d.current()
		if current == nil {
			current = s
		}
		if err := current.writeRaw(frame); err != nil {
			d.o.Log.Debug("a result waits for the next connect", "call", call.ID, "error", err)
		}
	}
}

// result is the frame that answers a call: the answer's fields, with type and id. A data_request is answered with a
// data_response, everything else with a tool_result; and so is, from the journal, what does not say what it was.
func result(call, id string, answer Answer) json.RawMessage {
	kind := "tool_result"
	if call == "data_request" {
		kind = "data_response"
	}
	name, _ := json.Marshal(id)
	head := fmt.Appendf(nil, `{"type":%q,"id":%s`, kind, name)
	body := bytes.TrimSpace(answer)
	if len(body) > 2 && body[0] == '{' {
		return append(append(head, ','), body[1:]...)
	}
	return append(head, '}')
}

// traced is an answer with the trace of its call. It is not part of what is journaled.
func traced(answer Answer, traceparent string) Answer {
	body := bytes.TrimSpace(answer)
	if traceparent == "" || len(body) == 0 || body[0] != '{' {
		return answer
	}
	trace, err := json.Marshal(traceparent)
	if err != nil {
		return answer
	}
	head := fmt.Appendf(nil, `{"traceparent":%s`, trace)
	if rest := bytes.TrimSpace(body[1:]); len(rest) > 1 {
		return append(append(head, ','), rest...)
	}
	return append(head, '}')
}

func failed(err error) Answer {
	answer, _ := json.Marshal(map[string]string{"error": err.Error()})
	return answer
}
