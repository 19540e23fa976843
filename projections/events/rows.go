package events

import (
	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

const fields = `scope, position, stream, version, id, type, schema, at, actor, data, sealed, key, seal_digest, hash,
	command_id, correlation_id, causation_id, era, partition, log_offset, log_index`

// row is an event, and the run it belongs to.
type row struct {
	streams.Recorded
	run *string
}

func table() *projections.Appended[row] {
	return &projections.Appended[row]{Name: Name, Columns: []projections.Column[row]{
		projections.Col("scope", func(r *row) string { return string(r.Scope) }),
		projections.Col("position", func(r *row) int64 { return int64(r.Position) }),
		projections.Col("stream", func(r *row) string { return string(r.Stream) }),
		projections.Col("version", func(r *row) int64 { return int64(r.Version) }),
		projections.Col("id", func(r *row) string { return r.ID }),
		projections.Col("type", func(r *row) string { return r.Type }),
		projections.Col("schema", func(r *row) int32 { return int32(r.Schema) }),
		projections.Col("at", func(r *row) string { return r.At }),
		projections.Col("actor", func(r *row) []byte { return present(r.Actor) }),
		projections.Col("data", func(r *row) []byte { return present(r.Data) }),
		projections.Col("sealed", func(r *row) []byte { return r.Sealed }),
		projections.Col("key", func(r *row) int32 { return int32(r.Key) }),
		projections.Col("seal_digest", func(r *row) []byte { return r.SealDigest }),
		projections.Col("hash", func(r *row) []byte { return present(r.Hash) }),
		projections.Col("command_id", func(r *row) string { return projections.Text(r.CommandID) }),
		projections.Col("correlation_id", func(r *row) string { return projections.Text(r.CorrelationID) }),
		projections.Col("causation_id", func(r *row) string { return projections.Text(r.CausationID) }),
		projections.Col("era", func(r *row) int32 { return int32(r.Era) }),
		projections.Col("partition", func(r *row) int32 { return r.Place.Partition }),
		projections.Col("log_offset", func(r *row) int64 { return r.Place.Offset }),
		projections.Col("log_index", func(r *row) int32 { return int32(r.Place.Index) }),
		projections.Col("run", func(r *row) *string { return r.run }),
	}}
}

// present is never NULL.
func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func scan(row pgx.CollectableRow) (streams.Recorded, error) {
	var (
		r                 streams.Recorded
		version, position int64
		actor, data       []byte
		scope, stream     string
	)
	err := row.Scan(&scope, &position, &stream, &version, &r.ID, &r.Type, &r.Schema, &r.At, &actor, &data, &r.Sealed, &r.Key, &r.SealDigest, &r.Hash,
		&r.CommandID, &r.CorrelationID, &r.CausationID, &r.Era, &r.Place.Partition, &r.Place.Offset, &r.Place.Index)
	r.Scope, r.Stream = domain.Scope(scope), domain.Stream(stream)
	r.Version, r.Position = uint64(version), uint64(position)
	if len(actor) > 0 {
		r.Actor = actor
	}
	if len(data) > 0 {
		r.Data = data
	}
	return r, err
}
