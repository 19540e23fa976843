package kafka

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// cohort is how many commands leave in one request at most.
	cohort = 512
	// longestGather bounds how long a command waits for company.
	longestGather = 4 * time.Millisecond
)

// lane sends the commands of one partition, one request at a time.
//
// What a write costs hardly depends on how many commands it holds, so many askers are served best when they
// leave together. Left alone they do the opposite: they fall apart into small groups that chase each other around the
// ring, each of which pays for two writes. So a lane gathers as many as are usually under way before it sends, but never
// longer than one request takes; a lone asker is as many as are under way, and waits for nothing.
type lane struct {
	client *kgo.Client
	queue  chan *outgoing
	// underWay are the commands that were handed to the lane and have no answer yet.
	underWay atomic.Int64
}

// outgoing is a command's record and who hears whether it was acknowledged.
type outgoing struct {
	record  *kgo.Record
	promise func(*kgo.Record, error)
}

func (c AskerConfig) newLane() (*lane, error) {
	client, err := c.client(
		// Ids make a repeated command harmless, so the producer needs no numbering.
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1), kgo.ManualFlushing(), kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordDeliveryTimeout(max(c.Wait, time.Second)), kgo.MaxBufferedRecords(1<<16),
	)
	if err != nil {
		return nil, err
	}
	return &lane{client: client, queue: make(chan *outgoing, 4*cohort)}, nil
}

// run sends what comes until ctx ends.
func (l *lane) run(ctx context.Context) error {
	usual, patience := 1.0, time.Duration(0)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var batch []*outgoing
	for {
		batch = batch[:0]
		select {
		case o := <-l.queue:
			batch = append(batch, o)
		case <-ctx.Done():
			return ctx.Err()
		}
		batch = l.gather(batch, min(cohort, int(math.Round(usual))), timer, patience)
		usual = (usual + float64(l.underWay.Load())) / 2
		began := time.Now()
		for _, o := range batch {
			l.client.Produce(ctx, o.record, o.promise)
		}
		if err := l.client.Flush(ctx); err != nil {
			return err
		}
		patience = min(longestGather, (patience+time.Since(began))/2)
	}
}

// gather takes what is there, and waits for more until enough are together or patience is at an end.
func (l *lane) gather(batch []*outgoing, enough int, timer *time.Timer, patience time.Duration) []*outgoing {
	waiting := false
	for len(batch) < cohort {
		select {
		case o := <-l.queue:
			batch = append(batch, o)
			continue
		default:
		}
		if len(batch) >= enough {
			break
		}
		if !waiting {
			timer.Reset(patience)
			waiting = true
		}
		select {
		case o := <-l.queue:
			batch = append(batch, o)
		case <-timer.C:
			return batch
		}
	}
	return batch
}
