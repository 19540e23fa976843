package projections_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
)

// compiled are all revisions of all models.
func compiled(pool *pgxpool.Pool) []projections.Projector {
	db := projections.NewDB(pool)
	return append(models(pool), runs.New(db).Previous(), openeffects.New(db).Previous())
}

// TestTheFirstGenerationIsMadeOnce: by whichever of the processes that start at once, in the newest revision.
func TestTheFirstGenerationIsMadeOnce(t *testing.T) {
	pool := pgtest.Read(t)
	group, ctx := errgroup.WithContext(t.Context())
	for range 5 {
		group.Go(func() error {
			return projections.Ensure(ctx, pool, append(models(pool), tally{"tally", 1}, tally{"tally", 2}), 2)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	all, err := projections.Generations(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	newest := map[string]int{"tally": 2}
	for _, p := range models(pool) {
		newest[p.Name()] = p.Revision()
	}
	for _, g := range all {
		if !g.Live || g.State != projections.Feeding || g.Lanes != 2 || g.Revision != newest[g.Projection] {
			t.Errorf("%s: %+v", g, g)
		}
		delete(newest, g.Projection)
	}
	if len(newest) > 0 {
		t.Errorf("%v have no generation", slices.Collect(maps.Keys(newest)))
	}
}

// TestAGenerationThatWasFedIsNotReplaced: an installation of an earlier revision keeps its rows until it is rebuilt.
func TestAGenerationThatWasFedIsNotReplaced(t *testing.T) {
	pool, m := pgtest.Read(t), tally{"tally", 1}
	if err := m.begin(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if err := projections.Ensure(t.Context(), pool, []projections.Projector{tally{"tally", 2}}, 4); err != nil {
		t.Fatal(err)
	}
	g, err := projections.LiveGeneration(t.Context(), pool, m.name)
	if err != nil || g.Number != 1 || g.Revision != 1 || g.Lanes != 1 {
		t.Fatalf("it is %+v now (%v)", g, err)
	}
}

// TestIndexesAreMadeOnce: also when whoever made them was killed, and is asked again.
func TestIndexesAreMadeOnce(t *testing.T) {
	pool, m := pgtest.Read(t), tally{"tally", 1}
	if err := m.begin(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	g, err := projections.CreateGeneration(t.Context(), pool, m)
	if err != nil {
		t.Fatal(err)
	}
	if g.Number != 2 || g.State != projections.Filling || len(indexes(t, pool, "tally_2")) != 0 {
		t.Fatalf("made was %+v with %v", g, indexes(t, pool, "tally_2"))
	}
	for range 2 {
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return projections.MakeKey(t.Context(), tx, g) }); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := projections.BuildIndexes(t.Context(), pool, g); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(normal(indexes(t, pool, "tally_1"), "_1"), normal(indexes(t, pool, "tally_2"), "_2")); diff != "" {
		t.Fatal(diff)
	}
}

func indexes(t *testing.T, pool *pgxpool.Pool, table string) []string {
	return texts(t, pool, `SELECT indexdef FROM pg_indexes WHERE tablename = $1 ORDER BY 1`, table)
}

func texts(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func normal(lines []string, number string) []string {
	numbered := regexp.MustCompile(number + `\b|` + number + `_`)
	for i := range lines {
		lines[i] = numbered.ReplaceAllString(lines[i], "_N ")
	}
	return lines
}

// TestShapesAreThoseOfTheDatabase: the tables that a rebuild makes are those that the migrations made, column by column and
// index by index; and every model has a file that says so.
func TestShapesAreThoseOfTheDatabase(t *testing.T) {
	pool := pgtest.Read(t)
	look := func(table, number string) []string {
		return append(texts(t, pool, `SELECT attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull || ' ' || attcollation::regcollation
			FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum`, table), normal(indexes(t, pool, table), number)...)
	}
	younger := requests.New(projections.NewDB(pool)).Projector() // than the registry: no migration made its tables
	if err := projections.Ensure(t.Context(), pool, []projections.Projector{younger}, 1); err != nil {
		t.Fatal(err)
	}
	first := map[string][]string{}
	for _, p := range compiled(pool) {
		if p.Revision() != 1 {
			continue
		}
		first[p.Name()] = look(p.Name()+"_1", "_1")
		g, err := projections.CreateGeneration(t.Context(), pool, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := projections.BuildIndexes(t.Context(), pool, g); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first[p.Name()], look(g.Table(p.Name()), "_2")); diff != "" || len(g.Tables) == 0 {
			t.Errorf("%s (-migrated +made):\n%s", g, diff)
		}
	}
	if len(first) != len(models(pool)) {
		t.Errorf("revision 1 was looked at of %v only", slices.Sorted(maps.Keys(first)))
	}
	for _, p := range compiled(pool) {
		if text, ok, err := migrations.Model(p.Name(), p.Revision()); err != nil || !ok || !strings.Contains(text, "-- key") {
			t.Errorf("revision %d of %s has no file of its tables (%v)", p.Revision(), p.Name(), err)
		}
	}
}

// TestAViewShowsTheLiveGeneration: whole, also where the two have not the same columns.
func TestAViewShowsTheLiveGeneration(t *testing.T) {
	pool, m, g := pairs(t)
	execute(t, pool, `ALTER TABLE tally_2 ADD COLUMN more text DEFAULT 'more'`)
	next, err := projections.CreateGeneration(t.Context(), pool, tally{m.name, 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, live := range []int{1, g.Number, next.Number} {
		execute(t, pool, fmt.Sprintf(`UPDATE projections SET generation = %d WHERE name = 'tally'`, live))
		made := texts(t, pool, `SELECT DISTINCT made_by::text FROM tally`)
		if want := []string{fmt.Sprint(live)}; live != next.Number && !slices.Equal(made, want) || live == next.Number && len(made) != 0 {
			t.Errorf("while generation %d is read the view shows those of %v", live, made)
		}
	}
}

// TestTheReleaseBeforeGoesOn: a database that it filled is migrated, its rows are read, and its models are fed on from where
// they stand.
func TestTheReleaseBeforeGoesOn(t *testing.T) {
	log := logtest.New(2)
	for i := range 20 {
		chat(log, domain.Scope(fmt.Sprintf("user-%d", i%5)), "thread-a", fmt.Sprint("run", i))
	}
	filled := pgtest.Read(t)
	stop := start(t, filled, log, models(filled))
	wait(t, filled, log)
	stop()

	pool := before(t, filled, 10)
	for table, columns := range map[string]string{
		"events": "", "threads": "", "devices": "", "erasures": "", "timers": "", "runs": "", "open_effects": "",
		"projection_checkpoints": "projection, generation, partition, lane, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at",
	} {
		carry(t, filled, pool, table, columns)
	}
	execute(t, pool, `UPDATE projection_checkpoints SET generation = 1`, `INSERT INTO projections SELECT DISTINCT projection, 1 FROM projection_checkpoints`)
	if err := migrations.Up(t.Context(), pool.Config().ConnString(), migrations.Read); err != nil {
		t.Fatal(err)
	}
	pool.Reset()
	page, _, err := threads.New(projections.NewDB(pool)).List(t.Context(), "user-1", "", 10)
	if err != nil || len(page) != 1 {
		t.Fatalf("%d threads are read (%v)", len(page), err)
	}
	for i := range 20 {
		chat(log, domain.Scope(fmt.Sprintf("user-%d", i%5)), "thread-b", fmt.Sprint("later", i))
	}
	stop = start(t, pool, log, compiled(pool))
	wait(t, pool, log)
	stop()
	all, err := projections.Generations(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		if g.Number != 1 || g.Revision != 1 || !g.Live {
			t.Errorf("%s: %+v", g, g)
		}
	}
	same := []string{"events", "threads", "devices", "erasures", "timers"} // the others' newest revision has more columns
	equal(t, "tables", dump(t.Context(), t, pool, same...), only(expected(t, log), same))
}

func only(dumped string, tables []string) string {
	var out strings.Builder
	for line := range strings.Lines(dumped) {
		if table, _, _ := strings.Cut(line, " "); slices.Contains(tables, table) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// before is a database of read models as an earlier migration left it, on the same server.
func before(t *testing.T, like *pgxpool.Pool, version int64) *pgxpool.Pool {
	t.Helper()
	config := like.Config()
	name := config.ConnConfig.Database + "_old"
	execute(t, like, "CREATE DATABASE "+name)
	t.Cleanup(func() { _, _ = like.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)") })
	dsn := strings.Replace(config.ConnString(), config.ConnConfig.Database, name, 1)
	if err := migrations.UpTo(t.Context(), dsn, migrations.Read, version); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// carry copies a table's rows into another database, in the columns that it has there.
func carry(t *testing.T, from, to *pgxpool.Pool, table, columns string) {
	t.Helper()
	if columns == "" {
		columns = strings.Join(texts(t, to, `SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum`, table), ", ")
	}
	source, err := from.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer source.Release()
	target, err := to.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer target.Release()
	r, w := io.Pipe()
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error {
		_, err := source.Conn().PgConn().CopyTo(ctx, w, fmt.Sprintf("COPY (SELECT %s FROM %s) TO STDOUT (FORMAT binary)", columns, table))
		return errors.Join(err, w.CloseWithError(err))
	})
	group.Go(func() error {
		_, err := target.Conn().PgConn().CopyFrom(ctx, r, fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary)", table, columns))
		return errors.Join(err, r.CloseWithError(err))
	})
	if err := group.Wait(); err != nil {
		t.Fatalf("%s: %v", table, err)
	}
}
