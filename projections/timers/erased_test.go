package timers_test

import (
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/timers"
)

// Nobody is woken in a scope that was erased.
func TestAnErasedScopeIsNotWoken(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	model := timers.New(projections.NewDB(pool))
	logtest.Project(t, pool, log, model.Projector())
	log.Append(ann, logtest.Post("thread-a", "before", "laptop")...)
	logtest.Wait(t, pool, log, timers.Name)
	log.Append(ann, logtest.Post("thread-b", "with", "laptop")...)
	log.Append(ann, logtest.On("account-ann", account.Erased{})...)
	log.Append("user-bob", logtest.Post("thread-a", "bobs", "laptop")...)
	logtest.Wait(t, pool, log, timers.Name)
	pgtest.ShiftClock(t, pool, 48*time.Hour)
	caughtUp(t, pool)
	due, err := model.Due(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(due) != 1 || due[0].Scope != "user-bob" {
		t.Fatalf("due are %+v", due)
	}
}
