package app

import (
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Asker sends commands, for benchmarks.
func (a *App) Asker() streams.Asker { return a.asker }

// Writing is how this process's writer is doing, by partition; nil where it has not that role.
func (a *App) Writing() []kafka.PartitionStats {
	if a.writer == nil {
		return nil
	}
	return a.writer.Stats()
}
