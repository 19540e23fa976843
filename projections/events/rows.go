package events

import (
	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

const fields = `scope, position, stream, version, id, type, schema, at, actor, data, sealed, key, seal_digest, hash,
	command_id, correlation_id, causation_id, era, partition, log_offset, log_index`

const insert = `INSERT INTO {events} (` + fields + `, run)
	SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::int[], $8::text[],
		$9::bytea[], $10::bytea[], $11::bytea[], $12::int[], $13::bytea[], $14::bytea[], $15::text[], $16::text[], $17::text[],
		$18::int[], $19::int[], $20::bigint[], $21::int[], $22::text[])`

// columns are rows turned on their side, for unnest.
type columns struct {
	scope               []string
	position            []int64
	stream              []string
	version             []int64
	id, typ             []string
	schema              []int32
	at                  []string
	actor, data, sealed [][]byte
	key                 []int32
	sealDigest, hash    [][]byte
	command             []string
	correlation         []string
	causation           []string
	era, partition      []int32
	offset              []int64
	index               []int32
	run                 []*string
}

func (c *columns) add(r streams.Recorded) {
	c.scope = append(c.scope, string(r.Scope))
	c.position = append(c.position, int64(r.Position))
	c.stream = append(c.stream, string(r.Stream))
	c.version = append(c.version, int64(r.Version))
	c.id = append(c.id, r.ID)
	c.typ = append(c.typ, r.Type)
	c.schema = append(c.schema, int32(r.Schema))
	c.at = append(c.at, r.At)
	c.actor = append(c.actor, present(r.Actor))
	c.data = append(c.data, present(r.Data))
	c.sealed = append(c.sealed, r.Sealed)
	c.key = append(c.key, int32(r.Key))
	c.sealDigest = append(c.sealDigest, r.SealDigest)
	c.hash = append(c.hash, present(r.Hash))
	c.command = append(c.command, projections.Text(r.CommandID))
	c.correlation = append(c.correlation, projections.Text(r.CorrelationID))
	c.causation = append(c.causation, projections.Text(r.CausationID))
	c.era = append(c.era, int32(r.Era))
	c.partition = append(c.partition, r.Place.Partition)
	c.offset = append(c.offset, r.Place.Offset)
	c.index = append(c.index, int32(r.Place.Index))
	c.run = append(c.run, runOf(r.Data))
}

// present is never NULL.
func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (c *columns) args() []any {
	return []any{
		c.scope, c.position, c.stream, c.version, c.id, c.typ, c.schema, c.at, c.actor, c.data, c.sealed, c.key, c.sealDigest, c.hash,
		c.command, c.correlation, c.causation, c.era, c.partition, c.offset, c.index, c.run,
	}
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
