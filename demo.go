package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/demo"
)

// fillDemo fills the project demo of a running server and prints where to look at it.
func fillDemo(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	r, err := readReach("demo", args, env, stderr)
	if err != nil {
		return err
	}
	made, err := demo.Fill(ctx, r.url, r.key, time.Now())
	if err != nil {
		return err
	}
	if made == (demo.Made{}) {
		fmt.Fprintf(stdout, "The project %s was there already; nothing was changed.\n", demo.Project)
	} else {
		fmt.Fprintf(stdout, "The project %s has %d sessions of %d turns, made from %d windows.\n", demo.Project,
			made.Sessions, made.Turns, made.Windows)
	}
	link, err := r.consoleLink(ctx)
	if err != nil { // the server may have no console
		return nil
	}
	_, err = fmt.Fprintf(stdout, "Look at it in the console. This link signs you in once, within a minute:\n\n  %s\n\n", link)
	return err
}

// fillOwn fills the project demo of this server. A failure does not stop the server.
func fillOwn(ctx context.Context, url, keyFile string, log *slog.Logger) {
	key, err := os.ReadFile(keyFile)
	if err == nil {
		var made demo.Made
		if made, err = demo.Fill(ctx, url, strings.TrimSpace(string(key)), time.Now()); err == nil {
			log.Info("the project demo is filled", "sessions", made.Sessions, "turns", made.Turns, "windows", made.Windows)
		}
	}
	if err != nil && ctx.Err() == nil {
		log.Error("the project demo was not filled", "error", err)
	}
}
