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

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// damagedFolder is a folder in the data folder. It holds the original damaged files and the list of findings.
const damagedFolder = "damaged"

const findingsName = "findings.ndjson"

// Finding is one damage of the database's files. It is kept until the folder is repaired.
type Finding struct {
	At       time.Time `json:"at"`
	Database string    `json:"database"`         // main or loose
	File     string    `json:"file"`             // where it was found
	Kept     string    `json:"kept,omitempty"`   // the original file, in the folder `damaged`
	Offset   int       `json:"offset,omitempty"` // in the file
	Lost     bool      `json:"lost"`             // acknowledged commits are lost
	Spans    []Span    `json:"spans,omitempty"`  // where the lost data was stored; empty if unknown
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
			// A line may be cut, or damaged itself. It is certain that there was a finding.
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

// add stores a finding durably.
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

// keep copies a file to the folder of damaged files and returns its name there.
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

// lost returns the error for writes if acknowledged commits are lost: new writes could reuse their numbers. The
// numbers of unsynced records do not depend on earlier records.
func (l *ledger) lost() error {
	if slices.ContainsFunc(l.list, func(f Finding) bool { return f.Lost && f.Database != "loose" }) {
		return store.ErrDamaged
	}
	return nil
}

// spans returns the key ranges of a database whose content is in doubt.
func (l *ledger) spans(database string) (all []Span) {
	for _, f := range l.list {
		if f.Database == database {
			all = append(all, f.Spans...)
		}
	}
	return all
}

// Doubts reports whether data of a tenant may be lost.
func (f Finding) Doubts(tenant string) bool {
	overlaps := func(s Span) bool { return s.overlaps(appendKey(nil, tenant, nil), prefixEnd(tenant)) }
	return f.Lost && f.Database != "loose" && (len(f.Spans) == 0 || slices.ContainsFunc(f.Spans, overlaps))
}

// close ends the list, because the folder is repaired. The list and the kept files remain under another name.
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

// compare compares what Badger found with what was committed.
func (c *checkup) compare(version uint64) (err error) {
	if c.committed.version <= version || !c.trusted() {
		for _, kept := range c.torn {
			err = errors.Join(err, os.Remove(filepath.Join(c.ledger.dir, kept)))
		}
		return err
	}
	for _, f := range c.ledger.list {
		if f.Lost && f.Database == c.database {
			return nil // already reported
		}
	}
	return c.ledger.add(Finding{Database: c.database, File: "*" + wal.Extension, Kept: strings.Join(c.torn, ", "),
		Lost: true, What: fmt.Sprintf("commits %d to %d are missing", version+1, c.committed.version)})
}

// replace replaces the content of a file atomically.
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
