package export

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/feed"
)

// Row is an event as a row of Parquet. What an event does not have is null.
type Row struct {
	ID            string    `parquet:"id"`
	Type          string    `parquet:"type,dict"` // with its major version: thread.run_started.v1
	Time          time.Time `parquet:"time,timestamp(microsecond)"`
	Scope         string    `parquet:"scope,dict"`
	Stream        string    `parquet:"stream,dict"`
	Version       int64     `parquet:"version"`  // place in the stream
	Position      int64     `parquet:"position"` // place in the scope
	SchemaVersion int32     `parquet:"schema_version"`
	Actor         string    `parquet:"actor,dict"`
	Device        *string   `parquet:"device,optional,dict"`
	Agent         *string   `parquet:"agent,optional,dict"`
	Run           *string   `parquet:"run,optional,dict"`
	CorrelationID *string   `parquet:"correlation_id,optional"`
	CausationID   *string   `parquet:"causation_id,optional"`
	CommandID     string    `parquet:"command_id"`
	Data          string    `parquet:"data,json"`
	SealedBytes   *int64    `parquet:"sealed_bytes,optional"`
	SealDigest    *string   `parquet:"seal_digest,optional"` // base64
	LogEra        int32     `parquet:"log_era"`
	LogPartition  int32     `parquet:"log_partition"`
	LogOffset     int64     `parquet:"log_offset"`
	LogIndex      int32     `parquet:"log_index"`
}

// rowGroup is how many rows are kept in memory.
const rowGroup = 50_000

type columns struct {
	out  *parquet.GenericWriter[Row]
	rows int
}

// Parquet writes rows, compressed with zstd.
func Parquet(to io.Writer) Sink {
	return &columns{out: parquet.NewGenericWriter[Row](to, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("cairn", "1", ""))}
}

// Write implements Sink.
func (c *columns) Write(e feed.Event) error {
	row, err := rowOf(e)
	if err != nil {
		return err
	}
	if _, err := c.out.Write([]Row{row}); err != nil {
		return err
	}
	if c.rows++; c.rows%rowGroup == 0 {
		return c.out.Flush()
	}
	return nil
}

// Close implements Sink.
func (c *columns) Close() error { return c.out.Close() }

func rowOf(e feed.Event) (Row, error) {
	values := make(map[string]string, len(e.Attributes))
	for _, a := range e.Attributes {
		values[a.Name] = a.Value
	}
	var wrong error
	number := func(name string) int64 {
		n, err := strconv.ParseInt(values[name], 10, 64)
		if err != nil {
			wrong = fmt.Errorf("attribute %s: %w", name, err)
		}
		return n
	}
	at, err := time.Parse(streams.TimeLayout, values["time"])
	if err != nil {
		return Row{}, fmt.Errorf("attribute time: %w", err)
	}
	row := Row{
		ID: values["id"], Type: values["type"], Time: at, Scope: strings.TrimPrefix(values["source"], feed.Source("")), Stream: values["subject"],
		Version: number("streamversion"), Position: number("position"), SchemaVersion: int32(number("schemaversion")),
		Actor: values["actor"], Device: optional(values["device"]), Agent: optional(values["agent"]), Run: optional(values["run"]),
		CorrelationID: optional(values["correlationid"]), CausationID: optional(values["causationid"]), CommandID: values["commandid"],
		Data: string(e.Data), SealDigest: optional(values["sealdigest"]),
		LogEra: int32(number("logera")), LogPartition: int32(number("logpartition")), LogOffset: number("logoffset"), LogIndex: int32(number("logindex")),
	}
	if values["sealedbytes"] != "" {
		n := number("sealedbytes")
		row.SealedBytes = &n
	}
	return row, wrong
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
