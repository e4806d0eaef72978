package badgerstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// damagedFolder lies in the data folder. It keeps damaged files as they were found, and the list of what was found.
const damagedFolder = "damaged"

const findingsName = "findings.ndjson"

// Finding is one damage of the database's files. It is kept until somebody repairs the folder.
type Finding struct {
	At       time.Time `json:"at"`
	Database string    `json:"database"`         // main or loose
	File     string    `json:"file"`             // where it was found
	Kept     string    `json:"kept,omitempty"`   // the file as it was, in the folder `damaged`
	Offset   int       `json:"offset,omitempty"` // in the file
	Lost     bool      `json:"lost"`             // acknowledged commits are, else nothing is
	Spans    []Span    `json:"spans,omitempty"`  // where what is lost was stored; empty where that cannot be told
	What     string    `json:"what"`
}

// ledger is the durable list of findings of a data folder.
type ledger struct {
	dir  string
	now  func() time.Time
	log  *slog.Logger
	list []Finding
}

func openLedger(dir string, now func() time.Time, log *slog.Logger) (*ledger, error) {
	l := &ledger{dir: filepath.Join(dir, damagedFolder), now: now, log: log}
	raw, err := os.ReadFile(filepath.Join(l.dir, findingsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(raw) {
		var f Finding
		if json.Unmarshal(line, &f) != nil {
			// A line may be cut, or damaged itself. That somebody found something is certain.
			f = Finding{File: findingsName, Lost: true, What: "a line of the list of findings cannot be read"}
		}
		l.list = append(l.list, f)
	}
	for _, f := range l.list {
		l.say(f)
	}
	return l, nil
}

func (l *ledger) say(f Finding) {
	say := l.log.Warn
	if f.Lost {
		say = l.log.Error
	}
	say("damaged files were found: run `mneme verify`, then `mneme repair`", "database", f.Database, "file", f.File,
		"offset", f.Offset, "what", f.What, "kept", f.Kept)
}

// add makes a finding durable.
func (l *ledger) add(f Finding) error {
	f.At = l.now().UTC()
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(l.dir, findingsName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close(), syncFolder(l.dir)); err != nil {
		return err
	}
	l.list = append(l.list, f)
	l.say(f)
	return nil
}

// keep sets a copy of a file aside and gives its name there.
func (l *ledger) keep(database, name string) (string, error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return "", err
	}
	kept := fmt.Sprintf("%s-%s-%s", l.now().UTC().Format("20060102T150405.000000"), database, filepath.Base(name))
	if err := copyFile(name, filepath.Join(l.dir, kept)); err != nil {
		return "", errors.Join(err, os.Remove(filepath.Join(l.dir, kept)))
	}
	return kept, nil
}

// lost is the error that refuses writes where acknowledged commits are lost: what is written then could take their
// numbers once more. Unsynced records are not numbered by what they were before.
func (l *ledger) lost() error {
	if slices.ContainsFunc(l.list, func(f Finding) bool { return f.Lost && f.Database != "loose" }) {
		return store.ErrDamaged
	}
	return nil
}

// spans are where what is stored in a database is in doubt.
func (l *ledger) spans(database string) (all []Span) {
	for _, f := range l.list {
		if f.Database == database {
			all = append(all, f.Spans...)
		}
	}
	return all
}

// Doubts tells whether something that a tenant stored may be lost.
func (f Finding) Doubts(tenant string) bool {
	overlaps := func(s Span) bool { return s.overlaps(appendKey(nil, tenant, nil), prefixEnd(tenant)) }
	return f.Lost && f.Database != "loose" && (len(f.Spans) == 0 || slices.ContainsFunc(f.Spans, overlaps))
}

// close ends the list: the folder is repaired. The list and what was kept stay under another name.
func (l *ledger) close() error {
	if len(l.list) == 0 {
		return nil
	}
	name := "repaired-" + l.now().UTC().Format("20060102T150405.000000") + ".ndjson"
	if err := os.Rename(filepath.Join(l.dir, findingsName), filepath.Join(l.dir, name)); err != nil {
		return err
	}
	l.list = nil
	return syncFolder(l.dir)
}

// checkup is what is found out about a database before Badger opens it.
type checkup struct {
	database  string
	dir       string
	ledger    *ledger
	committed committed
	last      uint64   // the newest commit in the logs, 0 where there is none
	torn      []string // logs with a torn end that were set aside
	unread    []tableFile
}

// examine reads the files of a database that is closed, corrects what can be corrected, and takes out what cannot. later
// allows it to leave tables for readLater.
func examine(o badger.Options, l *ledger, later bool) (_ *checkup, err error) {
	dir := o.Dir
	c := &checkup{database: filepath.Base(dir), dir: dir, ledger: l}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	// Badger takes this lock itself when it opens the folder, so that it must be free then.
	lock, err := lockFolder(dir)
	switch {
	case err == nil:
		defer lock.Close()
	case !errors.Is(err, errors.ErrUnsupported):
		return nil, err
	}
	c.committed, err = readCommitted(dir)
	if errors.Is(err, errCommitted) {
		err = l.add(Finding{Database: c.database, File: committedName, What: "the number of the newest commit cannot " +
			"be read, so that it cannot be told whether the last commits are there"})
	}
	if err != nil {
		return nil, err
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*"+wal.Extension))
	if err != nil {
		return nil, err
	}
	slices.Sort(logs)
	for _, name := range logs {
		if info, err := os.Stat(name); err != nil {
			return nil, err
		} else if info.Size() == 0 { // See nextLog: Badger cannot open it.
			if err := os.Remove(name); err != nil {
				return nil, err
			}
			continue
		}
		if err := c.examineLog(name); err != nil {
			return nil, fmt.Errorf("reading %s: %w", filepath.Base(name), err)
		}
	}
	return c, c.examineTables(o, later)
}

func (c *checkup) examineLog(name string) error {
	data, err := wal.Read(name)
	if err != nil {
		return err
	}
	s := wal.Scan(data, c.last, commitMark)
	if n := len(s.Whole); n > 0 {
		c.last = s.Whole[n-1].Version
	}
	if s.Torn > 0 && c.last > 0 && c.committed.version > c.last && c.trusted() {
		s.Flawed(s.Torn, true, "what was written last is damaged: commits %d to %d are lost", c.last+1,
			c.committed.version)
	}
	if len(s.Flaws) == 0 && s.Torn == 0 {
		return nil
	}
	kept, err := c.ledger.keep(c.database, name)
	if err != nil {
		return fmt.Errorf("setting the damaged file aside: %w", err)
	}
	if len(s.Flaws) == 0 {
		// A process that is killed leaves such a log. Once Badger is open, compare tells whether a commit is missing.
		c.torn = append(c.torn, kept)
	}
	for _, f := range s.Flaws {
		err := c.ledger.add(Finding{Database: c.database, File: filepath.Base(name), Kept: kept, Offset: f.Offset,
			Lost: f.Lost, What: f.What})
		if err != nil {
			return err
		}
	}
	return replace(name, s.Salvaged())
}

// trusted tells whether a commit that is noted must be there. Unsynced commits may be missing once the machine has
// been started again.
func (c *checkup) trusted() bool { return c.database == "main" || c.committed.boot == bootID() }

// compare holds what Badger found against what was committed.
func (c *checkup) compare(version uint64) (err error) {
	if c.committed.version <= version || !c.trusted() {
		for _, kept := range c.torn {
			err = errors.Join(err, os.Remove(filepath.Join(c.ledger.dir, kept)))
		}
		return err
	}
	for _, f := range c.ledger.list {
		if f.Lost && f.Database == c.database {
			return nil // It is told already.
		}
	}
	return c.ledger.add(Finding{Database: c.database, File: "*" + wal.Extension, Kept: strings.Join(c.torn, ", "),
		Lost: true, What: fmt.Sprintf("commits %d to %d are missing", version+1, c.committed.version)})
}

// replace gives a file other content at once.
func replace(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".salvaged-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(name))
}
