package threads_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/threads"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// TestPagesJoinToTheWholeList: whatever the page size, each thread comes once, the newest first, and only
// those of the scope. Several have the same time.
func TestPagesJoinToTheWholeList(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	m := threads.New(projections.NewDB(pool))
	logtest.Project(t, pool, log, m.Projector())
	for i := range 17 {
		log.SetTime(time.Unix(1_800_000_000+int64(i/3), 0))
		log.Append("user-ann", logtest.On(domain.Stream(fmt.Sprintf("thread-%02d", i)), thread.Opened{}, thread.Titled{})...)
		log.Append("user-bob", logtest.On(domain.Stream(fmt.Sprintf("thread-b%02d", i)), thread.Opened{})...)
	}
	logtest.Wait(t, pool, log, threads.Name)
	for size := 1; size <= 18; size++ {
		var got []string
		for cursor, pages := "", 0; ; pages++ {
			page, next, err := m.List(t.Context(), "user-ann", cursor, size)
			if err != nil || pages > 17 {
				t.Fatalf("page %d of %d: %v", pages, size, err)
			}
			for _, row := range page {
				if row.TitleVersion != 2 || row.TitlePosition == 0 || row.Head != 2 {
					t.Fatalf("row %+v", row)
				}
				got = append(got, row.ID)
			}
			if cursor = next; next == "" {
				break
			}
		}
		if len(got) != 17 || !slices.IsSortedFunc(got, func(a, b string) int { return -cmp(a, b) }) {
			t.Fatalf("pages of %d: %v", size, got)
		}
	}
	if _, _, err := m.List(t.Context(), "user-ann", "%%%", 1); !errors.Is(err, threads.ErrCursor) {
		t.Fatalf("a broken cursor: %v", err)
	}
	if _, err := m.Get(t.Context(), "user-bob", "01"); !errors.Is(err, projections.ErrNotFound) {
		t.Fatalf("somebody else's thread: %v", err)
	}
}

func cmp(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
