package badgerstore

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// RefusedError reports that a data folder is not as the last process left it, so that opening it would lose
// acknowledged writes.
type RefusedError struct {
	File   string // in the data folder
	What   string
	Remedy string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s; %s", e.File, e.What, e.Remedy) }

// refuse returns the error of a check that runs before anything is changed.
func refuse(file, format string, args ...any) error {
	return &RefusedError{File: file, What: fmt.Sprintf(format, args...), Remedy: "nothing was changed. Run `mneme repair " +
		"--data FOLDER`, which makes the manifest again if that loses nothing; otherwise restore a backup"}
}

// checkup is what is known about a database before Badger opens it.
type checkup struct {
	o         badger.Options
	database  string
	dir       string
	ledger    *ledger
	log       *slog.Logger
	committed committed
	manifest  *manifest // nil: the database does not exist yet
	listing   *listing  // nil: it cannot be read
	notes     []Finding // to be added to the ledger
	newest    uint64    // the largest version in the named tables
	last      uint64    // the largest version in tables and logs
	unnamed   []unnamedTable
	flawed    []flawedLog
	empty     []string // logs without a byte
	gap       bool     // commits before those in the logs are in no named table
	torn      []string // logs with a torn end that were set aside
	unread    []tableFile
}

// unnamedTable is a table that the manifest does not name. A process that is killed while it writes tables may leave
// some.
type unnamedTable struct {
	name   string
	id     uint64
	newest uint64 // 0: its index cannot be read
}

type flawedLog struct {
	name string
	scan *wal.Log
}

// inspect runs all checks of a closed database, and changes nothing. made says that the store was opened before.
func inspect(o badger.Options, l *ledger, log *slog.Logger, made bool) (*checkup, error) {
	c := &checkup{o: o, database: filepath.Base(o.Dir), dir: o.Dir, ledger: l, log: log}
	var err error
	c.committed, err = readCommitted(c.dir)
	if errors.Is(err, errCommitted) {
		c.note(committedName, "the number of the newest commit cannot be read, so that it cannot be told whether the "+
			"last commits are there")
		err = nil
	}
	if err != nil {
		return nil, err
	}
	c.manifest, err = readManifest(o)
	if err != nil {
		return c, c.refuse(badger.ManifestFilename, "it is damaged: %v", err)
	}
	if c.manifest == nil {
		return c, c.checkAbsence(made)
	}
	if err := c.checkListing(made); err != nil {
		return c, err
	}
	if err := c.checkTables(c.manifest); err != nil {
		return c, err
	}
	if err := c.scanLogs(); err != nil {
		return c, err
	}
	return c, c.checkContiguity()
}

func (c *checkup) note(file, what string) {
	c.notes = append(c.notes, Finding{Database: c.database, File: file, What: what})
}

func (c *checkup) refuse(file, format string, args ...any) error {
	return refuse(filepath.Join(c.database, file), format, args...)
}

// checkAbsence refuses a database without a manifest if there is evidence of an earlier one.
func (c *checkup) checkAbsence(made bool) error {
	if made {
		return c.refuse(badger.ManifestFilename, "it is missing, and the store was opened before")
	}
	for _, pattern := range [...]string{"*.sst", "*" + wal.Extension, committedName, listingName} {
		names, err := filepath.Glob(filepath.Join(c.dir, pattern))
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return c.refuse(badger.ManifestFilename, "it is missing, but %s exists", filepath.Base(names[0]))
		}
	}
	return nil
}

// checkListing compares the manifest with what TABLES says about its beginning.
func (c *checkup) checkListing(made bool) error {
	var err error
	c.listing, err = readListing(c.dir)
	if errors.Is(err, errListing) {
		if made {
			c.note(listingName, "it is missing or damaged, so that the manifest cannot be held against it")
		}
		return nil
	}
	if err != nil {
		return err
	}
	if l := c.listing; int64(len(c.manifest.whole)) >= l.length &&
		crc32.Checksum(c.manifest.whole[:l.length], castagnoli) == l.sum {
		return nil
	}
	if c.manifest.rewritten {
		c.listing = nil // Badger rewrote the manifest right before the process died
		return nil
	}
	return c.refuse(badger.ManifestFilename, "it does not begin with the %d bytes that it had: it was cut, replaced or is "+
		"older than the tables", c.listing.length)
}

// checkTables reads the index of each table that a manifest names, and finds those that it does not name.
func (c *checkup) checkTables(m *manifest) error {
	listed := map[uint64]listedTable{}
	if c.listing != nil {
		for _, t := range c.listing.tables {
			listed[t.id] = t
		}
	}
	c.newest = 0
	for _, id := range m.ids() {
		name := table.NewFilename(id, c.dir)
		t, err := readIndex(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return c.refuse(filepath.Base(name), "the manifest names this table, and it is missing")
		case errors.Is(err, errIndex):
			return c.refuse(filepath.Base(name), "the table is damaged: %v", err)
		case err != nil:
			return err
		}
		if l, known := listed[id]; known && l.tableIndex != t {
			return c.refuse(filepath.Base(name), "the table is another one than TABLES says")
		}
		c.newest = max(c.newest, t.newest)
	}
	var err error
	c.unnamed, err = unnamedTables(c.dir, m)
	return err
}

func unnamedTables(dir string, m *manifest) (all []unnamedTable, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		id, ok := table.ParseFileID(name)
		if !ok {
			continue
		}
		if _, named := m.tables[id]; named {
			continue
		}
		t, err := readIndex(name)
		if err != nil && !errors.Is(err, errIndex) {
			return nil, err
		}
		all = append(all, unnamedTable{name, id, t.newest})
	}
	return all, nil
}

// scanLogs reads all logs.
func (c *checkup) scanLogs() error {
	logs, err := filepath.Glob(filepath.Join(c.dir, "*"+wal.Extension))
	if err != nil {
		return err
	}
	slices.Sort(logs)
	c.last = c.newest
	c.flawed = nil
	c.empty = nil
	c.gap = false
	for _, name := range logs {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.Size() == 0 {
			c.empty = append(c.empty, name)
			continue
		}
		data, err := wal.Read(name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", filepath.Base(name), err)
		}
		s := wal.Scan(data, c.last, commitMark)
		if n := len(s.Whole); n > 0 {
			c.last = max(c.last, s.Whole[n-1].Version)
		}
		if s.Torn > 0 && c.last > 0 && c.committed.version > c.last && c.trusted() {
			s.Flawed(s.Torn, true, "what was written last is damaged: commits %d to %d are lost", c.last+1,
				c.committed.version)
		}
		c.gap = c.gap || slices.ContainsFunc(s.Flaws, func(f wal.Flaw) bool { return f.Gap })
		if len(s.Flaws) > 0 || s.Torn > 0 {
			c.flawed = append(c.flawed, flawedLog{name, s})
		}
	}
	return nil
}

// checkContiguity refuses a database if its named tables and logs lack commits that are in tables without a name, or
// in tables that the end of the manifest may have named. A killed process leaves tables without a name, but their
// content is also in the logs, or in the tables that they were made of. Unsynced commits may be missing after a
// restart of the machine.
func (c *checkup) checkContiguity() error {
	if c.restarted() {
		return nil
	}
	var newer unnamedTable
	for _, t := range c.unnamed {
		if t.newest > newer.newest {
			newer = t
		}
	}
	switch {
	case newer.newest > c.last:
		return c.refuse(badger.ManifestFilename, "it is older than the tables: commits up to %d are in %s, which it does not "+
			"name, and those in the tables and logs that belong to it end with %d", newer.newest,
			filepath.Base(newer.name), c.last)
	case c.gap && newer.newest > c.newest:
		return c.refuse(badger.ManifestFilename, "it is older than the tables: it does not name %s, and commits after %d "+
			"are missing without it", filepath.Base(newer.name), c.newest)
	case c.gap && c.manifest.tail > 0:
		return c.refuse(badger.ManifestFilename, "it is truncated: the %d bytes at its end are not a complete record, and commits after "+
			"%d are missing", c.manifest.tail, c.newest)
	}
	return nil
}

// restarted reports whether the machine was restarted after the database accepted its last unsynced commit.
func (c *checkup) restarted() bool { return c.database == "loose" && c.committed.boot != bootID() }

// trusted reports whether a recorded commit must be present.
func (c *checkup) trusted() bool { return !c.restarted() }

// correct repairs what can be repaired in a database that passed its checks, and removes what cannot. later allows it
// to leave tables for readLater.
func (c *checkup) correct(later bool) error {
	for _, f := range c.notes {
		if err := c.ledger.add(f); err != nil {
			return err
		}
	}
	for _, name := range c.empty { // Badger cannot open an empty log, see logBlocks
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	if c.manifest == nil {
		return nil
	}
	if c.manifest.tail > 0 {
		c.log.Info("the manifest ends with a record that was not finished: what it was to name is in the logs",
			"database", c.database, "bytes", c.manifest.tail)
	}
	switch {
	case c.gap:
		if err := c.setAside(c.unnamed); err != nil {
			return err
		}
	case len(c.unnamed) > 0:
		c.log.Info("tables that were not finished are removed: what is in them is in the logs or in other tables",
			"database", c.database, "tables", len(c.unnamed))
	}
	for _, l := range c.flawed {
		if err := c.correctLog(l); err != nil {
			return fmt.Errorf("correcting %s: %w", filepath.Base(l.name), err)
		}
	}
	return c.examineTables(later)
}

// setAside moves tables to the folder of damaged files.
func (c *checkup) setAside(tables []unnamedTable) error {
	for _, t := range tables {
		if _, err := c.ledger.keep(c.database, t.name); err != nil {
			return fmt.Errorf("setting a table aside: %w", err)
		}
		if err := os.Remove(t.name); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkup) correctLog(l flawedLog) error {
	kept, err := c.ledger.keep(c.database, l.name)
	if err != nil {
		return fmt.Errorf("setting the damaged file aside: %w", err)
	}
	if len(l.scan.Flaws) == 0 {
		// A killed process leaves such a log. After Badger has opened, compare tells whether a commit is missing.
		c.torn = append(c.torn, kept)
	}
	for _, f := range l.scan.Flaws {
		err := c.ledger.add(Finding{Database: c.database, File: filepath.Base(l.name), Kept: kept, Offset: f.Offset,
			Lost: f.Lost, What: f.What})
		if err != nil {
			return err
		}
	}
	return replace(l.name, l.scan.Salvaged())
}
