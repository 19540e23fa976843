package kafkatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// startWithin is how long a broker may take until it serves. Three of them on two busy cores take their time.
const startWithin = 4 * time.Minute

// Config says which cluster to start.
type Config struct {
	// Dir is where brokers keep their data and their output (Dir/1/broker.log). It must be empty or not exist,
	// and is left as it is by Close.
	Dir string
	// Brokers is 1 or 3; zero: 1.
	Brokers int
	// Jars is the folder with Kafka's jars. Empty: CAIRN_KAFKA_JARS, or .kafka/jars of the checkout that the
	// working directory is in, where deploy/kafka-test.sh puts them.
	Jars string
	// Properties are added to each broker's, and win over those of this package.
	Properties map[string]string
	// JVM are added to each broker's Java options, after those of this package.
	JVM []string
	Log *slog.Logger
}

// Cluster is a running cluster. Brokers are numbered from 1.
type Cluster struct {
	config Config
	nodes  []*node
}

// Start starts a cluster and waits until each broker serves and sees all the others. ctx bounds the start only.
func Start(ctx context.Context, config Config) (_ *Cluster, err error) {
	config.Brokers = cmp.Or(config.Brokers, 1)
	config.Log = cmp.Or(config.Log, slog.New(slog.DiscardHandler))
	if config.Brokers != 1 && config.Brokers != 3 {
		return nil, fmt.Errorf("kafkatest: %d brokers: 1 or 3", config.Brokers)
	}
	if config.Dir, err = filepath.Abs(config.Dir); err != nil {
		return nil, fmt.Errorf("kafkatest: %w", err)
	}
	if config.Jars, err = findJars(config.Jars); err != nil {
		return nil, err
	}
	began := time.Now()
	c := &Cluster{config: config}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	all, ctx := errgroup.WithContext(ctx)
	for i := range c.nodes {
		all.Go(func() error { return c.StartBroker(ctx, i+1) })
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	config.Log.Info("kafka started", "brokers", config.Brokers, "seeds", c.Seeds(), "took", time.Since(began).Round(time.Millisecond))
	return c, nil
}

// Seeds are the brokers' addresses, in their order.
func (c *Cluster) Seeds() []string {
	seeds := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		seeds[i] = n.address()
	}
	return seeds
}

// StartBroker starts a broker that does not run, on its data and its old address, and waits until it serves and sees
// as many brokers as run.
func (c *Cluster) StartBroker(ctx context.Context, number int) error {
	n, err := c.node(number)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if err := n.start(c.command(n)); err != nil {
		return err
	}
	return n.ready(ctx)
}

// Kill ends a broker at once, as a power cut would (but what it wrote is kept by the machine), and waits until it
// is gone.
func (c *Cluster) Kill(number int) error {
	n, err := c.node(number)
	if err != nil {
		return err
	}
	return n.kill()
}

// Stop ends a broker the orderly way: it hands its partitions over first. One that has not ended after a minute
// is killed, which is an error.
func (c *Cluster) Stop(number int) error {
	n, err := c.node(number)
	if err != nil {
		return err
	}
	return n.stop(time.Minute)
}

// Pause stops a broker's clock: it keeps its connections and answers nothing.
func (c *Cluster) Pause(number int) error {
	n, err := c.node(number)
	if err != nil {
		return err
	}
	return n.pause()
}

// Resume lets a paused broker go on.
func (c *Cluster) Resume(number int) error {
	n, err := c.node(number)
	if err != nil {
		return err
	}
	return n.resume()
}

// Close kills what still runs. The data is of no use to anybody.
func (c *Cluster) Close() error {
	var faults []error
	for _, n := range c.nodes {
		faults = append(faults, n.kill())
	}
	return errors.Join(faults...)
}

func (c *Cluster) node(number int) (*node, error) {
	if number < 1 || number > len(c.nodes) {
		return nil, fmt.Errorf("kafkatest: no broker %d: there are %d, from 1", number, len(c.nodes))
	}
	return c.nodes[number-1], nil
}

// findJars answers the folder with the jars, or how to fetch them.
func findJars(given string) (string, error) {
	jars := cmp.Or(given, os.Getenv("CAIRN_KAFKA_JARS"))
	if jars == "" {
		root, err := os.Getwd()
		if err != nil {
			return "", fmt.Errorf("kafkatest: %w", err)
		}
		for !exists(filepath.Join(root, "go.mod")) && root != filepath.Dir(root) {
			root = filepath.Dir(root)
		}
		jars = filepath.Join(root, ".kafka", "jars")
	}
	found, err := filepath.Glob(filepath.Join(jars, "kafka_2.13-*.jar"))
	if err == nil && len(found) == 0 {
		err = errors.New("run deploy/kafka-test.sh, which fetches them")
	}
	if err != nil {
		return "", fmt.Errorf("kafkatest: no jars of Kafka in %s: %w", jars, err)
	}
	return filepath.Abs(jars)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
