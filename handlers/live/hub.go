package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
)

// hub follows the end of every partition once, and the provisional frames once, for everybody here who
// watches. Who falls behind is told to read again; nobody is fed less and nobody makes another wait.
type hub struct {
	tailer streams.Tailer
	live   streams.Live
	log    *slog.Logger
	// observe sees every commit, in order, before who watches its streams.
	observe func(streams.Commit)
	metrics *metrics
	now     func() time.Time

	partitions []*partition

	mu      sync.Mutex
	watches map[runKey]map[*watch]struct{}
}

// runKey is what provisional frames are about.
type runKey struct {
	scope string
	run   string
}

func newHub(tailer streams.Tailer, live streams.Live, log *slog.Logger, observe func(streams.Commit)) *hub {
	h := &hub{tailer: tailer, live: live, log: log, observe: observe, watches: map[runKey]map[*watch]struct{}{}}
	for n := range tailer.Partitions() {
		h.partitions = append(h.partitions, &partition{
			number: n, ready: make(chan struct{}), reading: make(chan struct{}, 1),
			watches: map[streams.StreamKey]map[*watch]struct{}{},
		})
	}
	return h
}

// Run follows until ctx ends.
func (h *hub) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range h.partitions {
		group.Go(func() error { return h.follow(ctx, p) })
	}
	group.Go(func() error {
		return h.again(ctx, "following provisional frames", func(ctx context.Context) error {
			return h.live.Follow(ctx, h.frame)
		})
	})
	return group.Wait()
}

func (h *hub) follow(ctx context.Context, p *partition) error {
	err := h.again(ctx, "finding the end of the log", func(ctx context.Context) error {
		end, err := h.tailer.Live(ctx, p.number)
		if err == nil {
			p.begin(end)
		}
		return err
	})
	if err != nil {
		return err
	}
	return h.again(ctx, "following the log", func(ctx context.Context) error {
		return h.tailer.Tail(ctx, p.number, p.checkpoint(), func(_ context.Context, b streams.Batch) error {
			for _, c := range b.Commits {
				h.observe(c)
			}
			p.take(b, func(c *streams.Commit, watched int) { h.metrics.delivered(c, watched, h.now()) })
			return nil
		})
	})
}

// again does it until it succeeds or ctx ends; a fault is waited out.
func (h *hub) again(ctx context.Context, what string, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		h.log.WarnContext(ctx, what+" failed, trying again", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// frame hands a provisional frame to who watches its run.
func (h *hub) frame(f streams.LiveFrame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watches[runKey{string(f.Scope), f.RunID}] {
		w.push(arrival{frame: &f})
		h.metrics.deliveries.WithLabelValues("provisional").Inc()
	}
}

// watch begins to keep what comes of a thread and of a run, from now on, until leave is called.
func (h *hub) watch(ctx context.Context, key streams.StreamKey, run string) (*watch, error) {
	p := h.partitions[h.tailer.PartitionOf(key.Scope)]
	select {
	case <-p.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w := &watch{hub: h, partition: p, key: key, run: runKey{string(key.Scope), run}, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	add(h.watches, w.run, w)
	h.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	add(p.watches, key, w)
	w.mark = p.next.Next
	return w, nil
}

// between reads what the log has of the watched stream from a checkpoint to where the watch began.
func (h *hub) between(ctx context.Context, w *watch, from streams.Checkpoint) ([]*item, error) {
	if items, ok := w.partition.recent(w.key, from.Next, w.mark); ok {
		return items, nil
	}
	select { // one such read of a partition at a time
	case w.partition.reading <- struct{}{}:
		defer func() { <-w.partition.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var items []*item
	err := h.tailer.Tail(ctx, w.partition.number, from, func(_ context.Context, b streams.Batch) error {
		for _, c := range b.Commits {
			if c.Place.Offset < w.mark && c.Scope == w.key.Scope {
				items = append(items, itemsOf(c, w.key)...)
			}
		}
		if b.Next.Next >= w.mark {
			return errMet
		}
		return nil
	})
	if !errors.Is(err, errMet) {
		return nil, err
	}
	return items, nil
}

// errMet ends a read of the log where it meets the watch.
var errMet = errors.New("live: the read met the watch")

func add[K comparable](index map[K]map[*watch]struct{}, key K, w *watch) {
	if index[key] == nil {
		index[key] = map[*watch]struct{}{}
	}
	index[key][w] = struct{}{}
}

func remove[K comparable](index map[K]map[*watch]struct{}, key K, w *watch) {
	delete(index[key], w)
	if len(index[key]) == 0 {
		delete(index, key)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
