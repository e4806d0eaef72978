package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

// logging configures the log.
type logging struct {
	Level slog.Level
	JSON  bool
	// Sample is the share of successful requests in the access log, from 0 to 1.
	Sample float64
}

// rawLogging is the configuration of the log as the operator wrote it.
type rawLogging struct{ level, format, sample string }

// levels maps the values of --log-level.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (r rawLogging) read() (logging, error) {
	level, ok := levels[r.level]
	if !ok {
		return logging{}, errors.New("log_level must be debug, info, warn or error")
	}
	if r.format != "text" && r.format != "json" {
		return logging{}, errors.New("log_format must be text or json")
	}
	sample, err := strconv.ParseFloat(r.sample, 64)
	if err != nil || !(sample >= 0 && sample <= 1) {
		return logging{}, errors.New("log_sample must be a number from 0 to 1")
	}
	return logging{Level: level, JSON: r.format == "json", Sample: sample}, nil
}

// logger returns a logger that writes to w.
func (l logging) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.Level}
	if l.JSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// announce writes a message that other programs wait for. It ignores the log level, and the text format is the plain
// message.
func (l logging) announce(w io.Writer, message string) {
	if !l.JSON {
		fmt.Fprintln(w, message)
		return
	}
	slog.New(slog.NewJSONHandler(w, nil)).Info(message)
}
