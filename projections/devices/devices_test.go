package devices_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/erasures"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// TestTheLastHelloCounts, and an account's erasure is listed.
func TestTheLastHelloCounts(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	m, gone := devices.New(projections.NewDB(pool)), erasures.New(projections.NewDB(pool))
	logtest.Project(t, pool, log, m.Projector(), gone.Projector())
	log.Append("user-ann", logtest.On("device-laptop", device.Introduced{Protocol: 2, Timezone: "UTC"})...)
	log.Append("user-ann", logtest.On("device-laptop", device.Introduced{Protocol: 3, Timezone: "Europe/Rome", Journal: true, Batch: true})...)
	log.Append("user-ann", logtest.On("device-phone", device.Introduced{Protocol: 3})...)
	log.Append("user-bob", logtest.On("account-bob", account.Registered{Tier: account.Free}, account.Erased{})...)
	logtest.Wait(t, pool, log, devices.Name, erasures.Name)
	d, err := m.Get(t.Context(), "user-ann", "laptop")
	if err != nil || d.Protocol != 3 || d.Timezone != "Europe/Rome" || !d.Journal || !d.Batch || d.Version != 2 || d.Position != 2 {
		t.Fatalf("the device is %+v (%v)", d, err)
	}
	if all, err := m.List(t.Context(), "user-ann"); err != nil || len(all) != 2 {
		t.Fatalf("the devices are %+v (%v)", all, err)
	}
	if _, err := m.Get(t.Context(), "user-bob", "laptop"); !errors.Is(err, projections.ErrNotFound) {
		t.Fatalf("somebody else's device: %v", err)
	}
	if erased, err := gone.List(t.Context()); err != nil || len(erased) != 1 || erased[0].Scope != "user-bob" || erased[0].Position != 2 {
		t.Fatalf("erased are %+v (%v)", erased, err)
	}
}
