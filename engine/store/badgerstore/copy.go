package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// ErrNoStore is returned for a folder without a store.
var ErrNoStore = errors.New("no store is in this folder")

// Copy is a store opened from a copy of its folder. The copy is recovered as needed; the original folder is not
// changed.
type Copy struct {
	*Store
	scratch string
	locks   []*os.File
}

// OpenCopy opens a copy of the store in a folder. Badger cannot open a folder read-only after a crash, so a copy is
// made: files that never change are linked, others copied, into a new folder next to it, which Close removes. Until
// then no other process can open the folder. It returns ErrLocked if another process has it open.
func OpenCopy(o Options) (_ *Copy, err error) {
	if !Exists(o.Dir) {
		return nil, ErrNoStore
	}
	if err := checkOwner(o.Dir); err != nil {
		return nil, err
	}
	c := &Copy{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.release())
		}
	}()
	for _, part := range databases {
		lock, err := lockFolder(filepath.Join(o.Dir, part))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, refuse(part, "the folder is missing")
		}
		if err != nil {
			return nil, err
		}
		c.locks = append(c.locks, lock)
	}
	if c.scratch, err = scratchFolder(o.Dir); err != nil {
		return nil, err
	}
	if err := copyStore(o.Dir, c.scratch); err != nil {
		return nil, fmt.Errorf("copying what the store has open: %w", err)
	}
	if list := filepath.Join(damagedFolder, findingsName); copyable(filepath.Join(o.Dir, list)) {
		if err := os.Mkdir(filepath.Join(c.scratch, damagedFolder), 0o700); err != nil {
			return nil, err
		}
		if err := copyFile(filepath.Join(o.Dir, list), filepath.Join(c.scratch, list)); err != nil {
			return nil, err
		}
	}
	o.Dir = c.scratch
	if c.Store, err = openTuned(o, lasting); err != nil {
		return nil, err
	}
	return c, nil
}

// lasting disables Badger's compaction, because it truncates the tables that it has finished with, and those are
// linked.
func lasting(o badger.Options) badger.Options {
	return o.WithNumCompactors(0).WithNumLevelZeroTables(1 << 20).WithNumLevelZeroTablesStall(1 << 21)
}

// Close removes the copy.
func (c *Copy) Close() error { return errors.Join(c.Store.Close(), c.release()) }

func (c *Copy) release() error {
	var err error
	if c.scratch != "" {
		err = os.RemoveAll(c.scratch)
	}
	for _, lock := range c.locks {
		err = errors.Join(err, lock.Close())
	}
	c.locks = nil
	return err
}

// scratchFolder creates a folder next to the store's, so that files can be linked, or else among temporary files.
func scratchFolder(dir string) (string, error) {
	if abs, err := filepath.Abs(dir); err == nil {
		if name, err := os.MkdirTemp(filepath.Dir(abs), ".mneme-copy-*"); err == nil {
			return name, nil
		}
	}
	return os.MkdirTemp("", "mneme-copy-*")
}

func copyable(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// copyStore copies the identity of the store and both databases.
func copyStore(from, to string) error {
	for _, name := range [...]string{identityName, beginningName} {
		if !exists(filepath.Join(from, name)) {
			continue
		}
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	for _, part := range databases {
		if err := copyFolder(filepath.Join(from, part), filepath.Join(to, part)); err != nil {
			return err
		}
	}
	return nil
}

func copyFolder(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if !entry.Type().IsRegular() || name == lockName || name == cleanName {
			continue
		}
		// Tables are written once; all other files are written to when the copy is open.
		if filepath.Ext(name) == ".sst" && os.Link(filepath.Join(from, name), filepath.Join(to, name)) == nil {
			continue
		}
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// lockName is the file in which Badger records who has a folder open.
const lockName = "LOCK"

// copyFile leaves out blocks of zeros, because logs are created long and are mostly empty.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var size int64
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(in, block)
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
}
