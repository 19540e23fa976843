package projectionstest

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/erasures"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/projections/timers"
)

// Model is a read model and the tables that it fills.
type Model struct {
	Projector projections.Projector
	Tables    []string
}

// Models are all read models of the program, on a pool.
func Models(pool *pgxpool.Pool) []Model {
	db := projections.NewDB(pool)
	return []Model{
		{events.New(db).Projector(), []string{"events"}},
		{threads.New(db).Projector(), []string{"threads"}},
		{runs.New(db).Projector(), []string{"runs"}},
		{devices.New(db).Projector(), []string{"devices"}},
		{requests.New(db).Projector(), []string{"device_requests"}},
		{openeffects.New(db).Projector(), []string{"open_effects"}},
		{timers.New(db).Projector(), []string{"timers"}},
		{erasures.New(db).Projector(), []string{"erasures"}},
	}
}

// Projectors are those of Models, in the newest revisions.
func Projectors(pool *pgxpool.Pool) []projections.Projector {
	var all []projections.Projector
	for _, m := range Models(pool) {
		all = append(all, m.Projector)
	}
	return all
}

// Tables are all tables of Models: what can be thrown away and comes out equal.
func Tables() []string {
	var all []string
	for _, m := range Models(nil) {
		all = append(all, m.Tables...)
	}
	return all
}
