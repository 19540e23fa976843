// Package repair mends an installation whose log lost its end, as a broker may in a power failure: read models and writer
// states, which know more than the log has, are emptied, to be filled from it again, and what is lost is named. It never
// changes a record of the log, and never a key in the vault.
package repair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/cmd/cairn/backup"
	"github.com/cairnhq/cairn/cmd/cairn/survey"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/feed"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Installation is what is looked at. Nothing else may work on it.
type Installation struct {
	Kafka   kafka.Config
	ReadURL string
	Vault   *vault.Vault
}

// Ahead is a reader that knows of records which the log does not have.
type Ahead struct {
	Reader    string `json:"reader"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"` // what it would read next
	End       int64  `json:"end"`  // where the log ends
}

// String is it in words.
func (a Ahead) String() string {
	if a.Next > a.End {
		return fmt.Sprintf("partition %d ends at %d, but %s has read it to %d", a.Partition, a.End, a.Reader, a.Next)
	}
	return fmt.Sprintf("partition %d has other records before %d than those that %s has read", a.Partition, a.Next, a.Reader)
}

// Lost is an event that a read model has and the log has not, or has otherwise.
type Lost struct {
	Scope     string `json:"scope"`
	Stream    string `json:"stream"`
	Version   int64  `json:"version"`
	Position  int64  `json:"position"`
	Type      string `json:"type"`
	At        string `json:"at"`
	CommandID string `json:"command_id"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Findings are what is wrong.
type Findings struct {
	Ahead []Ahead
	Lost  []Lost
	// Decisions are the decided commands that are lost, rejections among them.
	Decisions int64
	// Passed are commands that the log has decided and the topic of commands no longer reaches, by partition: new ones would
	// be taken for them.
	Passed map[int32]int64

	log *survey.Log
}

// Nothing says that there is nothing to repair.
func (f Findings) Nothing() bool { return len(f.Ahead) == 0 && len(f.Passed) == 0 }

// Feeds are the topics that may carry lost events; nil where nothing is lost. Whoever publishes refuses them from then on.
// They are deleted together: each says from where on the others go on.
func (r *Repairer) Feeds(f Findings) []string {
	if len(f.Ahead) == 0 {
		return nil
	}
	var topics []string
	for _, name := range feed.Names() {
		topics = append(topics, r.Kafka.Topics.Feed(name))
	}
	return topics
}

// ErrRunning says that something works on the installation.
var ErrRunning = errors.New("something is connected to the database: stop every process of this installation first")

// ErrEmpty is a log with nothing in it beside read models that know of much.
var ErrEmpty = errors.New("the log has no commits at all: that is no lost end; restore a back-up (`cairn restore`)")

// Repairer looks, and mends what it found.
type Repairer struct {
	Installation
	progress *backup.Progress
	conn     *pgx.Conn
}

// Open connects. ErrRunning: something else is connected, too.
func Open(ctx context.Context, i Installation, progress *backup.Progress) (*Repairer, error) {
	conn, err := pgx.Connect(ctx, i.ReadURL)
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	r := &Repairer{Installation: i, progress: progress, conn: conn}
	if err := r.alone(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("repair: %w", err), conn.Close(ctx))
	}
	return r, nil
}

// alone waits a moment until nobody else is connected: what has just ended may not be gone yet.
func (r *Repairer) alone(ctx context.Context) error {
	patience := time.NewTimer(3 * time.Second)
	defer patience.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var others int
		if err := r.conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others); err != nil {
			return err
		}
		if others == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("%w (%d connections)", ErrRunning, others)
		case <-tick.C:
		}
	}
}

// Close lets go.
func (r *Repairer) Close(ctx context.Context) error { return r.conn.Close(context.WithoutCancel(ctx)) }

// Look reads the whole log and compares it with what the read models and the writer know. It changes nothing.
func (r *Repairer) Look(ctx context.Context) (Findings, error) {
	f, err := r.look(ctx)
	if err != nil {
		return f, fmt.Errorf("repair: %w", err)
	}
	return f, nil
}

func (r *Repairer) look(ctx context.Context) (Findings, error) {
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return Findings{}, err
	}
	voids, err := r.Vault.Voids(ctx, r.Kafka.Topics.CurrentEra())
	if err != nil {
		return Findings{}, err
	}
	f := Findings{Passed: map[int32]int64{}, log: survey.New(schema, voids)}
	stored, err := r.stored(ctx)
	if err != nil {
		return f, err
	}
	if err := r.current(stored); err != nil {
		return f, err
	}
	ends, commands, err := r.ends(ctx)
	if err != nil {
		return f, err
	}
	k, err := r.keep(ctx)
	if err != nil {
		return f, err
	}
	for p := range r.Kafka.Topics.N() {
		if err := r.scan(ctx, p, ends[p], &f, k, stored[p]); err != nil {
			return f, err
		}
		if f.log.At(p).Acceptance.Closed {
			return f, fmt.Errorf("partition %d of %s: %w (%s)", p, r.Kafka.Topics.Log(), backup.ErrClosed, useTheNewEra)
		}
		after := f.log.At(p).Acceptance.After
		if next := after.Offset + 1; after.Era == r.Kafka.Topics.CurrentEra() && commands[p] < next {
			f.Passed[p] = next
		}
	}
	if err := k.flush(ctx); err != nil {
		return f, err
	}
	if len(f.log.Defects) > 0 {
		return f, fmt.Errorf("the log is not what a writer may write, which a repair does not mend: %s", f.log.Defects[0])
	}
	if len(f.Ahead) == 0 {
		return f, nil
	}
	if f.log.Commits == 0 {
		return f, ErrEmpty
	}
	return f, k.compare(ctx, &f)
}

// useTheNewEra is what to do instead of repairing a log that was migrated.
const useTheNewEra = "use the settings of the new era, which `cairn log migrate` printed; if it did not finish, run it again"

// current refuses a log whose readers went on to a later era: they are not ahead of it, but of another one.
func (r *Repairer) current(stored map[int32][]checkpoint) error {
	for p, all := range stored {
		for _, c := range all {
			if err := r.Kafka.Topics.CheckEra(c.reader, p, c.Checkpoint); errors.Is(err, kafka.ErrMigrated) {
				return fmt.Errorf("%w: %s", err, useTheNewEra)
			}
		}
	}
	return nil
}

// checkpoint is a reader's, by name.
type checkpoint struct {
	reader string
	streams.Checkpoint
}

// stored are all checkpoints, by partition.
func (r *Repairer) stored(ctx context.Context) (map[int32][]checkpoint, error) {
	rows, err := r.conn.Query(ctx, `
		SELECT 'the writer', partition, next_offset, era, lead, writer, closed, after_era, command_offset FROM writer_checkpoints
		UNION ALL
		SELECT * FROM (SELECT DISTINCT ON (projection, partition) 'the read model ' || projection, partition, next_offset, era, lead, writer, closed, after_era, command_offset
			FROM projection_checkpoints ORDER BY projection, partition, next_offset DESC) furthest -- of its lanes and generations
		ORDER BY 1, 2`)
	if err != nil {
		return nil, err
	}
	all := map[int32][]checkpoint{}
	var c checkpoint
	var partition int32
	a := &c.Acceptance
	_, err = pgx.ForEachRow(rows, []any{&c.reader, &partition, &c.Next, &a.Era, &a.Lead, &a.Writer, &a.Closed, &a.After.Era, &a.After.Offset}, func() error {
		all[partition] = append(all[partition], c)
		return nil
	})
	return all, err
}

// ends are the next offsets of the log and of the commands.
func (r *Repairer) ends(ctx context.Context) (logs, commands map[int32]int64, err error) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.Kafka.Seeds...)}, r.Kafka.Options...)...)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	logs, commands = map[int32]int64{}, map[int32]int64{}
	for topic, into := range map[string]map[int32]int64{r.Kafka.Topics.Log(): logs, r.Kafka.Topics.Commands(): commands} {
		found, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
		if err == nil {
			err = found.Error()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("end of %s: %w", topic, err)
		}
		found.Each(func(o kadm.ListedOffset) { into[o.Partition] = o.Offset })
	}
	return logs, commands, nil
}

// scan reads a partition, and holds each checkpoint against what the log says at its place.
func (r *Repairer) scan(ctx context.Context, partition int32, end int64, f *Findings, k *kept, stored []checkpoint) error {
	at := map[int64][]checkpoint{}
	for _, c := range stored {
		at[c.Next] = append(at[c.Next], c)
	}
	check := func(next int64) {
		for _, c := range at[next] {
			if f.log.At(partition).Acceptance != c.Acceptance {
				f.Ahead = append(f.Ahead, Ahead{Reader: c.reader, Partition: partition, Next: c.Next, End: end})
			}
		}
		delete(at, next)
	}
	err := backup.Scan(ctx, r.Kafka, r.Kafka.Topics.Log(), partition, 0, end, func(record *kgo.Record) error {
		check(record.Offset)
		r.progress.Step(fmt.Sprintf("reading the log, partition %d of %d, records", partition+1, r.Kafka.Topics.N()), record.Offset, end)
		if commit := f.log.Add(record); commit != nil {
			return k.add(ctx, commit)
		}
		return nil
	})
	if err != nil {
		return err
	}
	check(end)
	for _, c := range stored {
		if c.Next > end {
			f.Ahead = append(f.Ahead, Ahead{Reader: c.reader, Partition: partition, Next: c.Next, End: end})
		}
	}
	return nil
}
