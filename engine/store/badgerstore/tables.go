package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// checkTables looks at the lengths that end every table of a database that is still closed. Badger trusts them, in
// goroutines of its own where its panic could not be caught. All else in a table has a checksum.
func checkTables(o badger.Options) error {
	f, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	manifest, read, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
	if err != nil {
		return err
	}
	if err := checkManifestEnd(o.Dir, int(read)); err != nil {
		return err
	}
	for id := range manifest.Tables {
		// A table may be gone: Badger says so itself, or another process is at work and Badger finds the lock.
		if err := checkFooter(table.NewFilename(id, o.Dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkFooter follows the lengths from the end: …, index, its length, checksum, its length.
func checkFooter(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	for _, what := range []string{"checksum", "index"} {
		var length [4]byte
		if _, err := f.ReadAt(length[:], max(0, end-4)); err != nil {
			return fmt.Errorf("table %s is cut short: %w", filepath.Base(name), err)
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		if end -= 4 + n; n == 0 || end < 0 {
			return fmt.Errorf("table %s is damaged: its %s cannot have %d bytes", filepath.Base(name), what, n)
		}
	}
	return nil
}

// checkManifestEnd looks at what follows the last whole record of a manifest. Badger takes it for a record that was not
// finished, cuts it off, and removes the tables that it named. A record whose length has a flipped bit looks the same.
func checkManifestEnd(dir string, at int) error {
	data, err := os.ReadFile(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return err
	}
	const head = 8 // length, checksum
	if at+head > len(data) {
		return nil
	}
	length, sum := binary.BigEndian.Uint32(data[at:]), binary.BigEndian.Uint32(data[at+4:])
	for bit := range 32 {
		n := int(length ^ 1<<bit)
		if n <= len(data)-at-head && crc32.Checksum(data[at+head:at+head+n], castagnoli) == sum {
			return fmt.Errorf("the manifest is damaged: bit %d of the length at byte %d is flipped", bit, at)
		}
	}
	return nil
}
