package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/bench"
	"github.com/cairnhq/cairn/cmd/cairn/chat"
	"github.com/cairnhq/cairn/streams/kafka"
)

// chatCmd is the terminal client.
type chatCmd struct {
	Message  string `arg:"" optional:"" help:"One message; without it, a conversation."`
	URL      string `help:"Of the backend. Default: what runs here." env:"CAIRN_URL"`
	Email    string `help:"Log in as."`
	Register string `help:"Make an account with this e-mail, and log in." placeholder:"EMAIL"`
	Password string `help:"Asked for when it is needed and not set." env:"CAIRN_PASSWORD"`
	DB       string `help:"The device's SQLite file." default:"~/.cairn/device.db" type:"path"`
	Thread   string `help:"Go on with this thread."`
	Timezone string `help:"IANA name; default: the machine's."`
}

// Run chats.
func (t chatCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	url := t.URL
	if url == "" {
		_, found, err := config.Attach()
		if err != nil {
			return fmt.Errorf("%w (or say where it is with --url)", err)
		}
		url = found
	}
	email, register := t.Email, t.Register != ""
	if register {
		email = t.Register
	}
	if err := os.MkdirAll(filepath.Dir(t.DB), 0o700); err != nil {
		return fmt.Errorf("make the device's folder: %w", err)
	}
	password := t.Password
	if email != "" && password == "" {
		var err error
		if password, err = askPassword(c); err != nil {
			return err
		}
	}
	zone := t.Timezone
	if zone == "" {
		zone = localZone()
	}
	return chat.Run(ctx, chat.Options{
		URL: url, Email: email, Password: password, Register: register, TokenFile: t.DB + ".session", DB: t.DB,
		Timezone: zone, Thread: t.Thread, Message: t.Message, JSON: c.json, In: c.in, Out: c.out,
	})
}

func askPassword(c *console) (string, error) {
	f, ok := c.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return "", errors.New("no password: set CAIRN_PASSWORD")
	}
	fmt.Fprint(c.err, "Password: ")
	text, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(c.err)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return string(text), nil
}

type benchCmd struct {
	Write   benchWriteCmd   `cmd:"" help:"Asks a second and their latency, against appending the same commits directly."`
	Chat    benchChatCmd    `cmd:"" help:"What the ring adds to a model's first words, and to a run with one tool call."`
	Rebuild benchRebuildCmd `cmd:"" help:"What people notice while all read models are rebuilt, by a rebuilder that is killed twice."`
	Replay  benchReplayCmd  `cmd:"" help:"Read models filled from the log: one and all, live and in bulk, against decoding and raw COPY."`
	Live    benchLiveCmd    `cmd:"" help:"How soon what was acknowledged is there to read, at 500 and 5,000 events a second, and the highest rate."`
	Growth  benchGrowthCmd  `cmd:"" help:"An ask on a thread of 100,000 events, and a start with 1,000,000 in the log."`
	Fanout  benchFanoutCmd  `cmd:"" help:"Deliveries to 1, 1,000 and 5,000 sockets: how many, how soon, and what an idle one costs, against centrifuge."`
	Catchup benchCatchupCmd `cmd:"" help:"1,000 clients that come back at once, 1,000 events behind: until all are level, and what the others saw, against centrifuge."`

	FanoutServe benchFanoutServeCmd `cmd:"" hidden:""`
}

type benchWriteCmd struct{}

// Run measures on the embedded broker, or on the cluster that --brokers names, in topics of its own.
func (benchWriteCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	report, err := benchWrite(ctx, config, bench.Options{Progress: c.err})
	if err != nil {
		return err
	}
	return show(c, report)
}

func benchWrite(ctx context.Context, config *app.Config, options bench.Options) (bench.Report, error) {
	if config.Embedded() {
		return bench.Write(ctx, options)
	}
	binary, err := os.Executable()
	if err != nil {
		return bench.Report{}, fmt.Errorf("find this program: %w", err)
	}
	topics := kafka.KafkaTopics()
	if config.Partitions > 0 {
		topics.Partitions = config.Partitions
	}
	topics.Replication, topics.InSync = config.Replication, 0
	return bench.WriteOnKafka(ctx, bench.KafkaOptions{Options: options, Brokers: config.Brokers, Topics: topics, Binary: binary})
}

type benchChatCmd struct{}

// Run measures.
func (benchChatCmd) Run(ctx context.Context, c *console) error {
	report, err := bench.Chat(ctx, bench.ChatOptions{Progress: c.err})
	if err != nil {
		return err
	}
	return show(c, report)
}

type benchGrowthCmd struct {
	Events int `help:"Events in the log; -1: only reads are measured." default:"1000000"`
	Reads  int `help:"Events in the database in which the tail of a thread, the runs of an agent and a catch-up are read, beside one with 10,000." default:"1000000"`
}

// Run measures.
func (b benchGrowthCmd) Run(ctx context.Context, c *console) error {
	report, err := bench.Growth(ctx, bench.GrowthOptions{Events: b.Events, Reads: b.Reads, Progress: c.err})
	if err != nil {
		return err
	}
	return show(c, report)
}

func show(c *console, report bench.Report) error {
	if c.json {
		return printJSON(c.out, report)
	}
	report.Table(c.out)
	return nil
}
