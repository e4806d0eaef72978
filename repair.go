package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
)

// repairData repairs the damage that was found in the files of a data folder, so that the server can store again. No
// server may have the folder open. Files that were set aside are kept.
func repairData(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) (err error) {
	data := defaultData
	_, err = readOptions(flag.NewFlagSet("repair", flag.ContinueOnError), []option{
		{"data", "MNEME_DATA", "", &data, "`FOLDER` to repair"},
	}, args, env, stderr)
	if err != nil {
		return err
	}
	if err := checkFolder(data); err != nil {
		return err
	}
	db, err := badgerstore.Open(badgerstore.Options{Dir: data, Repair: true,
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return fmt.Errorf("opening %s: %w", data, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	list := db.Findings()
	if len(list) == 0 {
		fmt.Fprintf(stdout, "%s: nothing was found damaged in the logs; `mneme verify` looks at the rest\n", data)
		return nil
	}
	for _, f := range list {
		fmt.Fprintf(stdout, "  %s\n", describeDamage(f))
	}
	closed, err := engine.CloseNumbered(ctx, store.Seal(db), func(tenant string) bool {
		return slices.ContainsFunc(list, func(f badgerstore.Finding) bool { return f.Doubts(tenant) })
	})
	if err != nil {
		return fmt.Errorf("closing what may have lost something: %w", err)
	}
	if closed != (engine.Closed{}) {
		fmt.Fprintf(stdout, "acknowledged writes are lost; so that no number is given twice, %s\n", closed)
	}
	if err := db.Repaired(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: repaired; run `mneme verify` for what is missing\n", data)
	return nil
}

// checkFolder refuses a folder without a store, because opening it would create one.
func checkFolder(data string) error {
	if !badgerstore.Exists(data) {
		return fmt.Errorf("%s: %w", data, badgerstore.ErrNoStore)
	}
	return nil
}
