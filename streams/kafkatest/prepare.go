package kafkatest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Ports are taken from below the range that systems give to outgoing connections: a client that calls a dead broker
// again and again would else sooner or later be given that very port, and call itself.
const portsFrom, portsTo = 15000, 32000

// prepare chooses the brokers' ports, writes their properties and formats their folders.
func (c *Cluster) prepare(ctx context.Context) error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return fmt.Errorf("kafkatest: %w", err)
	}
	cluster := base64.RawURLEncoding.EncodeToString(id)
	ports, err := freePorts(2 * c.config.Brokers)
	if err != nil {
		return err
	}
	var voters []string
	for i := range c.config.Brokers {
		n := &node{number: i + 1, port: ports[2*i], controller: ports[2*i+1], dir: filepath.Join(c.config.Dir, fmt.Sprint(i+1)), log: c.config.Log}
		c.nodes = append(c.nodes, n)
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", n.number, n.controller))
	}
	formats, ctx := errgroup.WithContext(ctx)
	for _, n := range c.nodes {
		if err := n.write(c.properties(n, strings.Join(voters, ","))); err != nil {
			return err
		}
		formats.Go(func() error { return c.format(ctx, n, cluster) })
	}
	return formats.Wait()
}

// properties are a broker's settings: Kafka's defaults, but for what makes it small, and its start and its
// topics' ends quick.
func (c *Cluster) properties(n *node, voters string) map[string]string {
	replication, inSync := "1", "1"
	if c.config.Brokers == 3 {
		replication, inSync = "3", "2"
	}
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        fmt.Sprint(n.number),
		"controller.quorum.voters":       voters,
		"listeners":                      fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", n.port, n.controller),
		"advertised.listeners":           fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", n.port),
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "PLAINTEXT",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                       filepath.Join(n.dir, "data"),
		"auto.create.topics.enable":      "false",

		"default.replication.factor":                       replication,
		"min.insync.replicas":                              inSync,
		"offsets.topic.replication.factor":                 replication,
		"transaction.state.log.replication.factor":         replication,
		"transaction.state.log.min.isr":                    inSync,
		"share.coordinator.state.topic.replication.factor": replication,
		"share.coordinator.state.topic.min.isr":            inSync,
		"unclean.leader.election.enable":                   "false",
		// Three brokers that start on two busy cores would else elect without end.
		"controller.quorum.election.timeout.ms": "3000",
		"controller.quorum.fetch.timeout.ms":    "4000",
		// And one that has not been let in after a minute, Kafka's default, would end.
		"initial.broker.registration.timeout.ms": fmt.Sprint(startWithin.Milliseconds()),

		"offsets.topic.num.partitions":                                "3",
		"transaction.state.log.num.partitions":                        "3",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
		"group.initial.rebalance.delay.ms":                            "0",
		"num.network.threads":                                         "2",
		"num.io.threads":                                              "4",
		"background.threads":                                          "2",
		"log.cleaner.dedupe.buffer.size":                              "4194304",
		"log.index.size.max.bytes":                                    "1048576",
		"log.segment.delete.delay.ms":                                 "1000",
	}
	maps.Copy(p, c.config.Properties)
	return p
}

// write writes a broker's properties into its new folder.
func (n *node) write(properties map[string]string) error {
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return fmt.Errorf("kafkatest: %w", err)
	}
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&text, "%s=%s\n", k, properties[k])
	}
	if err := os.WriteFile(n.file("server.properties"), []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("kafkatest: %w", err)
	}
	return nil
}

// format writes the cluster's id and its first features into a broker's folder.
func (c *Cluster) format(ctx context.Context, n *node, cluster string) error {
	cmd := exec.CommandContext(ctx, "java", append(c.java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", n.file("server.properties"))...)
	cmd.Env = javaEnvironment()
	if out, err := cmd.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return errors.New("kafkatest: no java: run deploy/setup.sh kafka")
		}
		return fmt.Errorf("kafkatest: format broker %d: %w: %s", n.number, err, out)
	}
	return nil
}

// java are the options of every Java program that is started here. The first compiler only: brokers of tests do not
// live long enough for the second to pay.
func (c *Cluster) java() []string {
	options := []string{"-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"}
	return append(append(options, c.config.JVM...), "-cp", filepath.Join(c.config.Jars, "*"))
}

func (c *Cluster) command(n *node) *exec.Cmd {
	cmd := exec.Command("java", append(c.java(), "kafka.Kafka", n.file("server.properties"))...) //nolint:gosec // our own options
	cmd.Dir, cmd.Env = n.dir, javaEnvironment()
	return cmd
}

// javaEnvironment leaves out options that were meant for other Java programs.
func javaEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "JAVA_TOOL_OPTIONS=") || strings.HasPrefix(v, "JDK_JAVA_OPTIONS=") || strings.HasPrefix(v, "CLASSPATH=")
	})
}

// freePorts answers ports on which nobody listens now.
func freePorts(count int) ([]int, error) {
	var ports []int
	var last error
	for tries := 0; len(ports) < count && tries < 200; tries++ {
		r, err := rand.Int(rand.Reader, big.NewInt(portsTo-portsFrom))
		if err != nil {
			return nil, fmt.Errorf("kafkatest: %w", err)
		}
		port := portsFrom + int(r.Int64())
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		defer l.Close() // all at the end: no port twice
		ports = append(ports, port)
	}
	if len(ports) < count {
		return nil, fmt.Errorf("kafkatest: no free ports: %w", last)
	}
	return ports, nil
}
