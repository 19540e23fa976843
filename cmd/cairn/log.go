package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/backup"
	"github.com/cairnhq/cairn/cmd/cairn/migrate"
	"github.com/cairnhq/cairn/streams/kafka"
)

type logCmd struct {
	Migrate logMigrateCmd `cmd:"" help:"Move the log to other brokers or to more partitions, into its next era. Everything else follows."`
	Void    logVoidCmd    `cmd:"" help:"Let a record that no reader can take count as one without events."`
}

// logMigrateCmd moves a Cairn to new topics.
type logMigrateCmd struct {
	ToBrokers     []string `help:"Brokers to move to (host:port,…). Empty: the same ones, under another prefix." name:"to-brokers"`
	ToLiveBrokers []string `help:"Brokers of the new ephemeral topics. Empty: the same." name:"to-live-brokers"`
	ToPartitions  int32    `help:"Partitions of the new log. 0: 32 on other brokers, as many as now on the same." name:"to-partitions"`
	ToReplication int16    `help:"Replication of the new topics. 0: 3 on other brokers, as now on the same." name:"to-replication"`
	ToPrefix      string   `help:"What the new topics' names begin with. Empty: as now on other brokers, with the era behind it on the same." name:"to-prefix"`
	ToDatabase    string   `help:"Empty Postgres database to copy the read models to. Empty: they stay where they are." name:"to-database-url"`
	ToVault       string   `help:"Empty Postgres database to copy the vault to." name:"to-vault-url"`
	Yes           bool     `help:"Do it. The old log is closed for good."`
}

// Run moves, and prints the settings to go on with.
func (l logMigrateCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if l.ToPartitions < 0 || l.ToReplication < 0 {
		return errors.New("--to-partitions and --to-replication must not be negative")
	}
	if err := app.CheckPrefix(l.ToPrefix); err != nil {
		return fmt.Errorf("--to-prefix: %w", err)
	}
	if (l.ToDatabase == "") != (l.ToVault == "") {
		return errors.New("give both --to-database-url and --to-vault-url, or neither")
	}
	if !l.Yes {
		return errors.New("this closes the old log for good, and everything that runs on it is answered no more: make a back-up with `cairn backup`, then repeat it with --yes")
	}
	log := app.NewLog(quietly(*config), c.err)
	installation, err := app.OpenAnywhere(ctx, *config, log)
	if err != nil {
		return err
	}
	defer installation.Close()
	master := installation.Master
	if master == nil {
		if master, err = config.Master(); err != nil {
			return err
		}
	}
	from := migrate.Installation{Kafka: installation.Kafka, ReadURL: installation.ReadURL, VaultURL: installation.VaultURL}
	to := l.place(from)
	if config.DatabaseURL == "" && to.ReadURL == from.ReadURL && len(l.ToBrokers) > 0 {
		return errors.New("the embedded databases go only with the embedded broker: give --to-database-url and --to-vault-url, two empty databases")
	}
	began := time.Now()
	var done kafka.Migrated
	if err := installation.Do(ctx, func(ctx context.Context) error {
		done, err = migrate.Run(ctx, migrate.Plan{
			From: from, To: to, Master: master, Projectors: app.Projectors, Now: time.Now, Log: log, Progress: backup.NewProgress(c.err),
		})
		return err
	}); err != nil {
		return l.advise(err, to)
	}
	return l.say(c, from, to, done, time.Since(began))
}

// place is where to move to.
func (l logMigrateCmd) place(from migrate.Installation) migrate.Installation {
	to := from
	topics := from.Kafka.Topics
	topics.Era = from.Kafka.Topics.CurrentEra() + 1
	if len(l.ToBrokers) > 0 {
		to.Kafka.Seeds, to.Kafka.LiveSeeds = l.ToBrokers, l.ToLiveBrokers
		known := kafka.KafkaTopics()
		topics.Partitions, topics.Replication, topics.InSync = known.Partitions, known.Replication, known.InSync
	} else {
		topics.Prefix = fmt.Sprintf("%s-era%d", strings.TrimSuffix(topics.Prefix, fmt.Sprintf("-era%d", topics.Era-1)), topics.Era)
	}
	if l.ToPartitions > 0 {
		topics.Partitions = l.ToPartitions
	}
	if l.ToReplication > 0 && l.ToReplication != topics.Replication {
		topics.Replication, topics.InSync = l.ToReplication, 0
	}
	if l.ToPrefix != "" {
		topics.Prefix = l.ToPrefix
	}
	to.Kafka.Topics = topics
	if l.ToDatabase != "" {
		to.ReadURL, to.VaultURL = l.ToDatabase, l.ToVault
	}
	return to
}

// advise says what to do about an error.
func (l logMigrateCmd) advise(err error, to migrate.Installation) error {
	switch {
	case errors.Is(err, kafka.ErrNotEmpty):
		return fmt.Errorf("%w (delete the topics %s.*, or choose other names with --to-prefix)", err, to.Kafka.Topics.Prefix)
	case errors.Is(err, migrate.ErrUsed):
		return fmt.Errorf("%w (create two new databases for --to-database-url and --to-vault-url)", err)
	case errors.Is(err, migrate.ErrDone):
		return fmt.Errorf("%w (start the servers with the settings that the migration printed)", err)
	default:
		return err
	}
}

func (l logMigrateCmd) say(c *console, from, to migrate.Installation, done kafka.Migrated, took time.Duration) error {
	topics := to.Kafka.Topics
	settings := [][2]string{
		{"CAIRN_ERA", fmt.Sprint(topics.Era)}, {"CAIRN_PARTITIONS", fmt.Sprint(topics.N())}, {"CAIRN_TOPIC_PREFIX", topics.Prefix},
	}
	if len(l.ToBrokers) > 0 {
		settings = append(settings, [2]string{"CAIRN_BROKERS", strings.Join(to.Kafka.Seeds, ",")},
			[2]string{"CAIRN_LIVE_BROKERS", strings.Join(to.Kafka.LiveSeeds, ",")}, [2]string{"CAIRN_REPLICATION", fmt.Sprint(max(1, topics.Replication))})
	}
	if to.ReadURL != from.ReadURL {
		settings = append(settings, [2]string{"CAIRN_DATABASE_URL", to.ReadURL}, [2]string{"CAIRN_VAULT_URL", to.VaultURL})
	}
	if c.json {
		set := map[string]string{}
		for _, s := range settings {
			set[s[0]] = s[1]
		}
		return printJSON(c.out, map[string]any{
			"commits": done.Commits, "events": done.Events, "undecided_commands": done.Commands, "parked": done.Parked, "voids": len(done.Voids),
			"partitions": topics.N(), "era": topics.Era, "seconds": took.Seconds(), "settings": set,
		})
	}
	fmt.Fprintf(c.out, "%d commits with %d events, %d undecided commands and %d parked ones are in %d partitions of era %d, read again and equal; it took %.1f s.\n",
		done.Commits, done.Events, done.Commands, done.Parked, topics.N(), topics.Era, took.Seconds())
	fmt.Fprintln(c.out, "End what still runs on the old log, and start every process with these settings (a topics file: with this era, prefix and partitions):")
	fmt.Fprintln(c.out)
	for _, s := range settings {
		if s[1] != "" || os.Getenv(s[0]) != "" {
			fmt.Fprintf(c.out, "  %s=%s\n", s[0], s[1])
		}
	}
	fmt.Fprintln(c.out)
	fmt.Fprintln(c.out, "and the same master key. The old topics were not changed but for their end: delete them when you need them no more.")
	return nil
}

type logVoidCmd struct {
	Partition int32  `arg:"" help:"Its partition."`
	Offset    int64  `arg:"" help:"Its offset in the log."`
	Reason    string `help:"Why. It is kept in the vault." required:""`
	Yes       bool   `help:"Do it. It can't be undone."`
}

// Run voids it.
func (v logVoidCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if strings.TrimSpace(v.Reason) == "" {
		return errors.New("--reason must say why")
	}
	if !v.Yes {
		return errors.New("what the record says is lost, and this can't be undone: repeat it with --yes")
	}
	return operating(ctx, config, func(o *app.Operator) error {
		done, err := o.Void(ctx, v.Partition, v.Offset, v.Reason)
		if err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, done)
		}
		fmt.Fprintf(c.out, "The record at offset %d of partition %d (scope %s, command %s) counts as one without events. Every reader that stands before it goes on within seconds.\n",
			done.Offset, done.Partition, done.Scope, done.CommandID)
		if len(done.Passed) > 0 {
			fmt.Fprintf(c.out, "These read models had taken it before, and must be rebuilt: %s.\n", strings.Join(done.Passed, ", "))
		}
		return nil
	})
}
