package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/backup"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/store/pgstore"
)

// restore creates a data folder from a backup, completely or not at all, or fills an empty shared database.
func restore(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) error {
	in, data, url := "", "", ""
	_, err := readOptions(flag.NewFlagSet("restore", flag.ContinueOnError), []option{
		{"in", "", "", &in, "`FILE` that `mneme backup` wrote"},
		{"data", "MNEME_DATA", "", &data, "`FOLDER` to make: absent, or empty"},
		{"store", "", "", &url, "`URL` of an empty PostgreSQL database to fill instead, while no server runs on it"},
	}, args, env, stderr)
	if err != nil {
		return err
	}
	if in == "" || data == "" && url == "" {
		return errors.New("say with --in which file to read, and with --data which folder to make (or with --store " +
			"which database to fill)")
	}
	file, err := os.Open(in)
	if err != nil {
		return err
	}
	defer file.Close()
	name, start := data, "--data on this folder"
	var sum backup.Summary
	if url != "" {
		name, start = "the database", "--store on this database"
		sum, err = restoreShared(ctx, file, url)
	} else {
		sum, err = restoreFolder(ctx, file, filepath.Clean(data))
	}
	if err != nil {
		return fmt.Errorf("restoring %s: %w", in, err)
	}
	fmt.Fprintf(stdout, "%s holds %s\n", name, describeBackup(sum))
	fmt.Fprint(stdout, "All API keys work as before; the operator's key is what the server is started with. The "+
		"backup has no\n"+
		"admin.key: it has only hashes of keys. Start the server with "+start+".\n")
	if sum.Damaged > 0 {
		fmt.Fprintf(stdout, "%d records were damaged when the backup was taken and are missing: see `mneme verify`.\n",
			sum.Damaged)
	}
	return nil
}

// restoreFolder fills a temporary folder next to the target and renames it when it is complete.
func restoreFolder(ctx context.Context, file io.Reader, data string) (sum backup.Summary, err error) {
	if err := checkEmpty(data); err != nil {
		return sum, err
	}
	parent := filepath.Dir(data)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return sum, err
	}
	beside, err := os.MkdirTemp(parent, ".mneme-restore-*")
	if err != nil {
		return sum, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(beside))
		}
	}()
	db, err := badgerstore.Open(badgerstore.Options{Dir: beside})
	if err != nil {
		return sum, err
	}
	sum, err = backup.Restore(ctx, store.Seal(db), file)
	if err = errors.Join(err, db.Close()); err != nil {
		return sum, err
	}
	if err := os.Remove(data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sum, fmt.Errorf("%w: name a folder that does not exist yet, for example inside it", err)
	}
	if err := os.Rename(beside, data); err != nil {
		return sum, err
	}
	return sum, syncFolder(parent)
}

// restoreShared fills an empty database. After an error the database may contain part of the backup. The operator
// must then drop it, because a database that is not empty is refused.
func restoreShared(ctx context.Context, file io.Reader, url string) (sum backup.Summary, err error) {
	db, err := pgstore.Open(ctx, pgstore.Options{URL: url})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	inUse := errors.New("the database already has Mneme's records: a backup is restored into an empty one (CREATE " +
		"DATABASE)")
	if err := db.Snapshot(ctx, func(string, store.Item) error { return inUse }); err != nil {
		return sum, err
	}
	if sum, err = backup.Restore(ctx, store.Seal(db), file); err != nil {
		err = fmt.Errorf("%w; if the database has a part of it now, drop it and create it again", err)
	}
	return sum, err
}

// checkEmpty refuses a folder that is not empty.
func checkEmpty(data string) error {
	entries, err := os.ReadDir(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty: a backup is restored into an empty folder", data)
	}
	return nil
}
