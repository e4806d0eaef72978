package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

// logging is what the operator says about the log.
type logging struct {
	Level slog.Level
	JSON  bool
	// Sample is the share of successful requests that the access log shows, from 0 to 1.
	Sample float64
}

// rawLogging is logging as the operator wrote it.
type rawLogging struct{ level, format, sample string }

// levels are the names of --log-level.
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

// announce writes a message that programs wait for: whatever the level is, and in the text format as it stands.
func (l logging) announce(w io.Writer, message string) {
	if !l.JSON {
		fmt.Fprintln(w, message)
		return
	}
	slog.New(slog.NewJSONHandler(w, nil)).Info(message)
}
