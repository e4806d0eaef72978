package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// Reading every table takes about a second per GB. A database that is closed cleanly leaves a mark with the state of
// its tables in the file system. If their state is unchanged, they are read after the database is open instead of
// before. Bit rot that the file system does not notice is then an error when it is read, and commits are refused once
// it is found, as while the server runs.

// cleanName is the name of the mark. It is removed before the database is opened.
const cleanName = "CLEAN"

// tableState returns the state of one table's file. Anything written to the file changes it.
func tableState(dir string, id uint64) (string, error) {
	name := table.NewFilename(id, dir)
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	changed, err := lastChange(info)
	return fmt.Sprintf("%s %d %d %s\n", filepath.Base(name), info.Size(), info.ModTime().UnixNano(), changed), err
}

// markOf returns the mark of a database with these tables.
func markOf(dir string, ids []uint64) ([]byte, error) {
	var b bytes.Buffer
	for _, id := range ids {
		state, err := tableState(dir, id)
		if err != nil {
			return nil, err
		}
		b.WriteString(state)
	}
	return fmt.Appendf(b.Bytes(), "%08x\n", crc32.Checksum(b.Bytes(), castagnoli)), nil
}

// markClean writes the mark of a cleanly closed database, unless the file system does not provide the data for it.
func markClean(o badger.Options) error {
	m, err := readManifest(o)
	if err != nil || m == nil {
		return err
	}
	mark, err := markOf(o.Dir, m.ids())
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	return replace(filepath.Join(o.Dir, cleanName), mark)
}

// takeMark removes the mark, and reports whether it matched the tables.
func takeMark(dir string, ids []uint64) (clean bool, err error) {
	name := filepath.Join(dir, cleanName)
	found, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := errors.Join(os.Remove(name), syncFolder(dir)); err != nil {
		return false, err
	}
	mark, err := markOf(dir, ids)
	return err == nil && bytes.Equal(found, mark), nil
}

// readPause is how long readLater waits after opening, so that the first readers are not delayed. Tests set it.
var readPause = time.Second

// readLater reads the tables that were not read before their store was opened, until ctx ends. It reports whether all
// were read and none is damaged. A table that a compaction replaces meanwhile was read by the compaction. Badger empties
// the file of such a table before it removes it, so only a table that is still in use can be damaged.
func (d *database) readLater(ctx context.Context, opened <-chan struct{}, unread []tableFile) bool {
	if len(unread) == 0 {
		return true
	}
	select {
	case <-opened:
	case <-ctx.Done():
		return false
	}
	select {
	case <-time.After(readPause):
	case <-ctx.Done():
		return false
	}
	var r tableReader
	for _, t := range unread {
		if ctx.Err() != nil {
			return false
		}
		if bad, err := r.read(t); bad != nil || err != nil {
			if !d.uses(t.name) {
				continue
			}
			d.failure.log.Error("a table is damaged", "file", filepath.Base(t.name), "error", err)
			failedBlocks.Add(1)
			_ = d.damaged() // logs what to do
			return false
		}
	}
	return true
}

// uses reports whether the table in a file of that name is part of the open database. Badger takes a table out of its
// levels before it touches the file.
func (d *database) uses(name string) bool {
	return slices.ContainsFunc(d.db.Tables(), func(t badger.TableInfo) bool {
		return table.NewFilename(t.ID, filepath.Dir(name)) == name
	})
}
