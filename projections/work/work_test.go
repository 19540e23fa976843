package work_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/work"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func TestAWorkerIsDeadTenSecondsAfterItsLastTouch(t *testing.T) {
	pool := pgtest.Read(t)
	w := work.New(pool)
	alive := func() bool {
		t.Helper()
		alive, err := w.Alive(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		return alive
	}
	if alive() {
		t.Fatal("who was never touched lives")
	}
	if err := w.Touch(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	for shift, want := range map[time.Duration]bool{0: true, 8 * time.Second: true, 10 * time.Second: false} {
		pgtest.ShiftClock(t, pool, shift)
		if alive() != want {
			t.Fatalf("%v after its last touch: alive is %v", shift, !want)
		}
	}
	if err := w.Touch(t.Context(), "one"); err != nil || !alive() {
		t.Fatalf("touched again it does not live (%v)", err)
	}
	if err := w.Leave(t.Context(), "one"); err != nil || alive() {
		t.Fatalf("it left and lives (%v)", err)
	}
}

// TestAWorkerOfTheFutureIsDead: it died while the clock was ahead by an hour, and the clock was put right.
func TestAWorkerOfTheFutureIsDead(t *testing.T) {
	pool := pgtest.Read(t)
	w := work.New(pool)
	pgtest.ShiftClock(t, pool, time.Hour)
	for _, name := range []string{"died", "lives"} {
		if err := w.Touch(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.ShiftClock(t, pool, 0)
	if err := w.Touch(t.Context(), "lives"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"died": false, "lives": true} {
		if alive, err := w.Alive(t.Context(), name); err != nil || alive != want {
			t.Errorf("after the clock was put right: %s, alive is %v, %v", name, alive, err)
		}
	}
}

func TestPresenceFollowsTheNewestSocket(t *testing.T) {
	pool := pgtest.Read(t)
	w := work.New(pool)
	ctx := t.Context()
	check := func(what, device string, online bool) {
		t.Helper()
		found, err := w.Presence(ctx, "user-ann")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			if p.Device == device && p.Online != online {
				t.Fatalf("%s: %s online is %v", what, device, p.Online)
			}
		}
	}
	last := func(want string) {
		t.Helper()
		if device, ok, err := w.LastSeen(ctx, "user-ann"); err != nil || ok != (want != "") || device != want {
			t.Fatalf("seen last is %q (%v), wanted %q", device, err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	last("")
	must(w.Touch(ctx, "gateway"))
	must(w.Online(ctx, "user-ann", "laptop", "gateway", "s1", true))
	must(w.Online(ctx, "user-ann", "laptop", "gateway", "s2", true))
	must(w.Offline(ctx, "user-ann", "laptop", "s1"))
	check("an older socket closed", "laptop", true)
	must(w.Online(ctx, "user-ann", "phone", "gateway", "s3", false))
	last("phone")
	must(w.Offline(ctx, "user-ann", "phone", "s3"))
	check("its socket closed", "phone", false)
	last("laptop")
	pgtest.ShiftClock(t, pool, 11*time.Second)
	check("its gateway is dead", "laptop", false)
	last("phone")
}

// TestAProcessSaysWhichRevisionsItReads: one of a release that says nothing reads the first of each read model.
func TestAProcessSaysWhichRevisionsItReads(t *testing.T) {
	w := work.New(pgtest.Read(t))
	for _, p := range []work.Process{{ID: "old"}, {ID: "new", Revisions: map[string]int{"threads": 2}}} {
		if err := w.Announce(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	found, err := w.Processes(t.Context())
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	for _, p := range found {
		if !p.Reads("threads", 1) || !p.Reads("runs", 1) || p.Reads("runs", 2) || p.Reads("threads", 2) != (p.ID == "new") {
			t.Errorf("%+v", p)
		}
	}
}

// TestASocketIsOutdatedWhenItsDeviceHasANewerOne: and only then; a device that nobody knows of has none.
func TestASocketIsOutdatedWhenItsDeviceHasANewerOne(t *testing.T) {
	w := work.New(pgtest.Read(t))
	for _, socket := range []string{"old", "new"} {
		if err := w.Online(t.Context(), "user-ada", "laptop", "gateway", socket, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Online(t.Context(), "user-bob", "laptop", "gateway", "bobs", true); err != nil {
		t.Fatal(err)
	}
	old := work.Socket{Scope: "user-ada", Device: "laptop", ID: "old"}
	found, err := w.Outdated(t.Context(), []work.Socket{
		{Scope: "user-ada", Device: "laptop", ID: "new"}, {Scope: "user-bob", Device: "laptop", ID: "bobs"}, old, {Scope: "user-ada", Device: "phone", ID: "x"},
	})
	if err != nil || len(found) != 1 || found[0] != old {
		t.Fatalf("outdated are %v (%v)", found, err)
	}
	if found, err = w.Outdated(t.Context(), nil); err != nil || len(found) != 0 {
		t.Fatalf("of none outdated are %v (%v)", found, err)
	}
}
