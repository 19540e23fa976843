package fanout_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/projections/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }
