package app

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/cairnhq/cairn/streams/tracing"
)

// NewLog is the process's log: lines for people, or JSON, with the ids that a line's context knows.
func NewLog(c Config, out io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	if c.LogFormat == "json" {
		return slog.New(tracing.Handler(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level})))
	}
	color := false
	if f, ok := out.(*os.File); ok {
		color = term.IsTerminal(int(f.Fd()))
	}
	return slog.New(tracing.Handler(tint.NewTextHandler(out, &tint.Options{Level: level, TimeFormat: "15:04:05.000", NoColor: !color})))
}

// quiet is a log for libraries whose "info" is our "debug".
func quiet(log *slog.Logger) *slog.Logger { return slog.New(quietHandler{log.Handler()}) }

type quietHandler struct{ slog.Handler }

// Enabled moves the threshold up by one step.
func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, level-4)
}

// WithAttrs and WithGroup keep the threshold.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup see WithAttrs.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}
