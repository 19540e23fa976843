// Command cairn is the backend of AI-agent workspaces, in one binary: the server and its parts, the terminal
// client, and the operator's tools. It only parses its arguments; the work is done in the packages below it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/cairnhq/cairn/cmd/cairn/app"
)

// Version is set by the release build.
var version = "dev" //nolint:gochecknoglobals // the linker writes it

// cli is the whole command line.
type cli struct {
	app.Config `embed:""`
	JSON       bool `help:"Print JSON, one object a line, for programs." name:"json"`

	Dev         devCmd         `cmd:"" help:"Run everything in this process, with an embedded broker and database."`
	Serve       serveCmd       `cmd:"" help:"Run chosen roles against Kafka and Postgres."`
	Migrate     migrateCmd     `cmd:"" help:"Create topics and bring the databases up to date."`
	Chat        chatCmd        `cmd:"" help:"Chat in the terminal, as a real device with a local SQLite file."`
	Device      deviceCmd      `cmd:"" help:"Ask a device for rows, and have it write."`
	Events      eventsCmd      `cmd:"" help:"Read the log."`
	Log         logCmd         `cmd:"" help:"Move the log, and step over a record that no reader can take."`
	Projections projectionsCmd `cmd:"" help:"Look at the read models, rebuild, pause and mend them."`
	Effects     effectsCmd     `cmd:"" help:"Look at, pause and resume the effects."`
	Parked      parkedCmd      `cmd:"" help:"What could not be handled: look at it, try it again, or give it up."`
	Scope       scopeCmd       `cmd:"" help:"What is held of one user."`
	DB          dbCmd          `cmd:"" name:"db" help:"Ask the databases."`
	Account     accountCmd     `cmd:"" help:"Change and erase accounts."`
	Backup      backupCmd      `cmd:"" help:"Copy the log and the vault into a folder, while everything runs or while nothing does."`
	Restore     restoreCmd     `cmd:"" help:"Put a back-up into an empty place, with effects paused."`
	Repair      repairCmd      `cmd:"" help:"Mend an installation whose log lost its end, after a power failure."`
	Keys        keysCmd        `cmd:"" help:"Data keys of scopes."`
	Upgrade     upgradeCmd     `cmd:"" help:"How far an upgrade is, and its end."`
	Doctor      doctorCmd      `cmd:"" help:"Check everything the program needs, and say how to mend it."`
	Settings    configCmd      `cmd:"" name:"config" help:"List every setting, its value and its environment variable."`
	Bench       benchCmd       `cmd:"" help:"Measure."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// console is where a command reads and prints.
type console struct {
	in   io.Reader
	out  io.Writer
	err  io.Writer
	json bool
}

func main() {
	if os.Getenv("GOGC") == "" {
		// What lives long is small, what a command leaves behind is not: a fifth of the time went to collecting it.
		debug.SetGCPercent(400)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // who asks a second time wants it to end at once
	if err := run(ctx, os.Args[1:], console{in: os.Stdin, out: os.Stdout, err: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, "cairn:", oneLine(app.Advised(err)))
		stop()
		os.Exit(1)
	}
}

// oneLine is an error without the line breaks that joined ones and libraries put in.
func oneLine(err error) string {
	text := strings.ReplaceAll(err.Error(), ":\n", ": ")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " ")
}

func run(ctx context.Context, args []string, c console) error {
	var root cli
	exit := -1
	parser, err := kong.New(&root, kong.Name("cairn"),
		kong.Description("The backend of AI-agent workspaces: events on Kafka, read models in Postgres, devices on sockets."),
		kong.Writers(c.out, c.err), kong.UsageOnError(), kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}))
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 {
		return nil // --help was printed
	}
	if err != nil {
		for _, arg := range args {
			if n, bad := strconv.Atoi(arg); bad == nil && n < 0 { // the parser takes it for a flag
				return fmt.Errorf("%s: no number here is below 0 (see `cairn --help`)", arg)
			}
		}
		return fmt.Errorf("%w (see `cairn --help`)", err)
	}
	c.json = root.JSON
	parsed.BindTo(ctx, (*context.Context)(nil))
	return ended(ctx, parsed.Command(), parsed.Run(&root.Config, &c))
}

// ended is how a command ended, for who was told to end it too.
func ended(ctx context.Context, command string, err error) error {
	switch {
	case !errors.Is(err, context.Canceled) || ctx.Err() == nil:
		return err
	case endsWhenTold(command):
		return nil
	default:
		return fmt.Errorf("%s was broken off and is not complete: repeat it", command)
	}
}

// endsWhenTold reports whether being told to end is how a command ends. Every other one has not done then what it was for.
func endsWhenTold(command string) bool {
	for _, lasting := range []string{"dev", "serve", "chat", "events tail", "projections lag"} {
		if command == lasting || strings.HasPrefix(command, lasting+" ") {
			return true
		}
	}
	return false
}

type versionCmd struct{}

func (versionCmd) Run(c *console) error {
	if c.json {
		return printJSON(c.out, map[string]string{"version": version})
	}
	fmt.Fprintln(c.out, "cairn", version)
	return nil
}
