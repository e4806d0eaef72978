package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// rebuild recreates the manifest of a refused database: from TABLES, if that is intact and each of its tables is
// unchanged, and from newer tables. It never names an older table, because a compaction may have finished with it,
// and data deleted since would come back. It sets the old manifest and all other tables aside.
func (c *checkup) rebuild(refused error) error {
	cannot := func(why error) error {
		return fmt.Errorf("%w. The manifest cannot be made again: %w", refused, why)
	}
	list, err := readListing(c.dir)
	if err != nil {
		return cannot(err)
	}
	m := &manifest{tables: map[uint64]badger.TableManifest{}}
	name := func(t listedTable) {
		m.tables[t.id] = badger.TableManifest{Level: t.level, Compression: t.compression}
	}
	newest := uint64(0)
	for _, t := range list.tables {
		name(t)
		newest = max(newest, t.newest)
	}
	others, err := unnamedTables(c.dir, m)
	if err != nil {
		return err
	}
	tables := slices.Clone(list.tables)
	slices.SortFunc(others, func(a, b unnamedTable) int { return int(a.id) - int(b.id) })
	for _, t := range others {
		if t.newest > newest {
			young := listedTable{id: t.id, compression: c.o.Compression, tableIndex: tableIndex{newest: t.newest}}
			name(young)
			tables = append(tables, young)
		}
	}
	c.listing = list
	c.manifest = m
	if err := c.checkTables(m); err != nil {
		return cannot(err)
	}
	if err := c.scanLogs(); err != nil {
		return err
	}
	if c.gap || c.committed.version > c.last && c.trusted() {
		return cannot(fmt.Errorf("commits after %d would be missing", c.last))
	}
	return c.putManifest(tables)
}

// putManifest replaces the manifest by one that names tables.
func (c *checkup) putManifest(tables []listedTable) error {
	if err := c.setAside(c.unnamed); err != nil {
		return err
	}
	path := filepath.Join(c.dir, badger.ManifestFilename)
	kept, err := c.ledger.keep(c.database, path)
	if errors.Is(err, fs.ErrNotExist) {
		kept, err = "", nil
	}
	if err != nil {
		return err
	}
	if err := replace(path, encodeManifest(tables)); err != nil {
		return err
	}
	// The list would not match the new manifest.
	l := lister{o: c.o, log: c.log}
	if err := l.update(); err != nil {
		return err
	}
	return c.ledger.add(Finding{Database: c.database, File: badger.ManifestFilename, Kept: kept,
		What: fmt.Sprintf("it was made again from TABLES and %d newer tables: nothing is lost", len(tables)-len(c.listing.tables))})
}
