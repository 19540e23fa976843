package faults

import (
	"context"
	"time"
)

// brokers are the faults of Kafka itself.
func brokers(extent Extent) []Fault {
	away := 20 * time.Second
	if extent == Sample {
		away = 5 * time.Second
	}
	all := []Fault{
		{Name: "broker killed and started", Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
			return r.broker(ctx, r.Stage.Kafka.Kill, 0)
		}}},
		{Name: "broker restarted in good order", Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
			return r.broker(ctx, r.Stage.Kafka.Stop, 0)
		}}},
		{Name: "one of the brokers lost for " + seconds(away), Long: away, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
			return r.broker(ctx, r.Stage.Kafka.Kill, away)
		}}},
	}
	if extent == Sample {
		return all[1:]
	}
	return append(all, Fault{Name: "SIGSTOP 15 s broker", Long: 15 * time.Second, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
		n := 1 + r.Rand.IntN(r.Stage.Brokers)
		r.Log.Info("SIGSTOP", "broker", n)
		if err := r.Stage.Kafka.Pause(n); err != nil {
			return 0, err
		}
		if err := wait(ctx, 15*time.Second); err != nil {
			return 1, err
		}
		if err := r.Stage.Kafka.Resume(n); err != nil {
			return 1, err
		}
		return 1, r.healed(ctx)
	}}})
}

// broker ends one of the brokers, and starts it again after a while.
func (r *Ring) broker(ctx context.Context, end func(int) error, away time.Duration) (int, error) {
	n := 1 + r.Rand.IntN(r.Stage.Brokers)
	r.Log.Info("end a broker", "broker", n, "for", away)
	if err := end(n); err != nil {
		return 0, err
	}
	if err := wait(ctx, away); err != nil {
		return 1, err
	}
	if err := r.Stage.Kafka.StartBroker(ctx, n); err != nil {
		return 1, err
	}
	return 1, r.healed(ctx)
}
