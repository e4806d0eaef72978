package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
)

// listingName is a file next to Badger's MANIFEST. It holds the length of the MANIFEST, its checksum, and a
// description of each table. A MANIFEST only grows, so what TABLES says about its first bytes remains true: TABLES
// may be older than the MANIFEST, never newer. It detects a MANIFEST that was cut, replaced or taken from an older
// copy, and a lost one can be recreated from it.
const listingName = "TABLES"

// listing is the content of TABLES.
type listing struct {
	length int64  // of the MANIFEST
	sum    uint32 // CRC-32C of it
	tables []listedTable
}

type listedTable struct {
	id          uint64
	level       uint8
	compression options.CompressionType
	tableIndex
}

func (l *listing) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "manifest %d %08x\n", l.length, l.sum)
	for _, t := range l.tables {
		fmt.Fprintf(&b, "table %d %d %d %d %d %08x\n", t.id, t.level, t.compression, t.size, t.newest, t.tableIndex.sum)
	}
	return fmt.Appendf(b.Bytes(), "%08x\n", crc32.Checksum(b.Bytes(), castagnoli))
}

// errListing is returned if a database has no TABLES, or a damaged one.
var errListing = errors.New("TABLES is missing or damaged")

// readListing reads a database's TABLES.
func readListing(dir string) (*listing, error) {
	raw, err := os.ReadFile(filepath.Join(dir, listingName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errListing
	}
	if err != nil {
		return nil, err
	}
	const end = 9 // the checksum and a newline
	if len(raw) < end || fmt.Sprintf("%08x\n", crc32.Checksum(raw[:len(raw)-end], castagnoli)) != string(raw[len(raw)-end:]) {
		return nil, errListing
	}
	l := &listing{}
	r := bytes.NewReader(raw[:len(raw)-end])
	if _, err := fmt.Fscanf(r, "manifest %d %x\n", &l.length, &l.sum); err != nil {
		return nil, errListing
	}
	for r.Len() > 0 {
		var t listedTable
		_, err := fmt.Fscanf(r, "table %d %d %d %d %d %x\n", &t.id, &t.level, &t.compression, &t.size, &t.newest,
			&t.tableIndex.sum)
		if err != nil {
			return nil, errListing
		}
		l.tables = append(l.tables, t)
	}
	return l, nil
}

// lister keeps a database's TABLES up to date.
type lister struct {
	o       badger.Options
	log     *slog.Logger
	seen    os.FileInfo // the MANIFEST that TABLES describes
	indexes map[uint64]tableIndex
}

// listEvery is the interval at which a lister checks whether the MANIFEST has changed.
const listEvery = time.Second

// run updates TABLES until ctx ends.
func (l *lister) run(ctx context.Context) {
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	for failed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := l.update()
		if err != nil && !failed {
			l.log.Warn("the list of tables cannot be written; it is tried again each second", "error", err)
		}
		failed = err != nil
	}
}

// update replaces TABLES if the MANIFEST has changed. The MANIFEST is synced first, so that a power cut cannot leave it
// shorter than TABLES says.
func (l *lister) update() error {
	f, err := os.Open(filepath.Join(l.o.Dir, badger.ManifestFilename))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if l.seen != nil && os.SameFile(l.seen, info) && l.seen.Size() == info.Size() {
		return nil
	}
	if err := f.Sync(); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, info.Size()))
	if err != nil {
		return err
	}
	m, err := parseManifest(data, f, l.o)
	if errors.Is(err, errGrown) {
		return nil // until the next time
	}
	if err != nil {
		return err
	}
	list := &listing{length: int64(len(m.whole)), sum: crc32.Checksum(m.whole, castagnoli)}
	indexes := map[uint64]tableIndex{}
	for _, id := range m.ids() {
		t, known := l.indexes[id]
		if !known {
			t, err = readIndex(table.NewFilename(id, l.o.Dir))
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errIndex) { // it was compacted meanwhile
				continue
			}
			if err != nil {
				return err
			}
		}
		indexes[id] = t
		list.tables = append(list.tables, listedTable{id, m.tables[id].Level, m.tables[id].Compression, t})
	}
	if err := replace(filepath.Join(l.o.Dir, listingName), list.encode()); err != nil {
		return err
	}
	l.seen = info
	l.indexes = indexes
	return nil
}
