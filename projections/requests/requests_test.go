package requests_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/requests"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const ann = domain.Scope("user-ann")

func ask(id, action string, wait time.Duration) device.Request {
	return device.Request{RequestID: id, DeviceID: "laptop", Action: action, Table: "tasks", Wait: wait}
}

// TestARowSaysWhatBecameOfARequest: what was asked, when it was sent and when it ended, and where its content lies.
func TestARowSaysWhatBecameOfARequest(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	m := requests.New(projections.NewDB(pool))
	logtest.Project(t, pool, log, m.Projector())
	at := func(n int) time.Time {
		now := time.Unix(1_800_000_000+int64(n), 0).UTC()
		log.SetTime(now)
		return now
	}
	asked := at(0)
	log.Append(ann, logtest.On("device-laptop", device.Introduced{Protocol: 3}, device.DataRequested{Request: ask("q1", "select", time.Minute)},
		device.MutationRequested{Request: ask("q2", "insert", time.Hour)}, device.MutationRequested{Request: ask("q3", "delete", time.Hour)})...)
	offered := at(1)
	log.Append(ann, logtest.On("device-laptop", device.RequestOffered{RequestID: "q1"}, device.RequestOffered{RequestID: "q2", Started: true},
		device.RequestOffered{RequestID: "nobody"})...)
	ended := at(2)
	log.Append(ann, logtest.On("device-laptop", device.DataAnswered{RequestID: "q1"}, device.MutationFailed{RequestID: "q2", Reason: device.TimedOut},
		device.LateAnswerRecorded{RequestID: "q2"})...)
	log.Append("user-bob", logtest.On("device-laptop", device.MutationRequested{Request: ask("q9", "insert", time.Hour)})...)
	logtest.Wait(t, pool, log, requests.Name)
	want := []requests.Request{
		{Scope: ann, ID: "q3", Device: "laptop", Kind: requests.Mutation, Action: "delete", Table: "tasks", Status: requests.Waiting,
			RequestedAt: asked, WaitUntil: asked.Add(time.Hour), Position: 4, RequestVersion: 4},
		{Scope: ann, ID: "q2", Device: "laptop", Kind: requests.Mutation, Action: "insert", Table: "tasks", Status: requests.Failed, Reason: "deadline",
			RequestedAt: asked, WaitUntil: asked.Add(time.Hour), OfferedAt: &offered, EndedAt: &ended, Position: 3, RequestVersion: 3, ResultVersion: 9, LateVersion: 10},
	}
	got, err := m.ByDevice(t.Context(), ann, "laptop", requests.Mutation, 0, 10)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("%v (-want +got)\n%s", err, diff)
	}
	if got, err = m.ByDevice(t.Context(), ann, "laptop", requests.Mutation, 4, 10); err != nil || len(got) != 1 || got[0].ID != "q2" {
		t.Fatalf("the next page is %+v (%v)", got, err)
	}
	q1, err := m.Get(t.Context(), ann, "q1")
	if err != nil || q1.Kind != requests.Data || q1.Status != requests.Completed || q1.ResultVersion != 8 {
		t.Fatalf("got %+v (%v)", q1, err)
	}
	for _, id := range []string{"q9", "nobody"} {
		if _, err := m.Get(t.Context(), ann, id); !errors.Is(err, projections.ErrNotFound) {
			t.Fatalf("%s: %v", id, err)
		}
	}
}
