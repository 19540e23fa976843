package writerstates_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func TestStates(t *testing.T) {
	streamstest.States(t, func(t *testing.T) streams.States { return writerstates.New(pgtest.Read(t)) })
}
