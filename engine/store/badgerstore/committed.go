package badgerstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// commitMark is a key that no tenant has, see lengthBase. Each commit writes it. Its value is the version of the
// previous commit, so that a missing commit is noticed. In the loose database the value also has the newest version
// of the main one, so that copies of the two from different times are noticed.
var commitMark = []byte{lengthBase - 1, 'c', 'o', 'm', 'm', 'i', 't'}

func (d *database) mark(version uint64) []byte {
	mark := binary.BigEndian.AppendUint64(nil, version)
	if d.main != nil {
		mark = binary.BigEndian.AppendUint64(mark, d.main.current())
	}
	return mark
}

// mainSeen returns the version of the main database that the newest commit of the loose one names, or 0 if it names
// none.
func (d *database) mainSeen() (version uint64, err error) {
	defer recoverDamage(&err)
	txn := d.db.NewTransactionAt(d.snapshots.current(), false)
	defer txn.Discard()
	item, err := txn.Get(commitMark)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, errUnreadable
	}
	err = item.Value(func(v []byte) error {
		if len(v) >= 16 {
			version = binary.BigEndian.Uint64(v[8:])
		}
		return nil
	})
	return version, err
}

// committedName is a file next to Badger's. It holds the version of the newest acknowledged commit. It is written
// after each commit and not synced, so it is ahead of the log only if the log lost something.
const committedName = "COMMITTED"

const committedSize = 8 + bootSize + crc32.Size

// committed is the content of the file: a version, and the boot of the machine in which it was written.
type committed struct {
	version uint64
	boot    [bootSize]byte
}

var errCommitted = errors.New("damaged")

// readCommitted reads a database's file. The version is 0 if there is none.
func readCommitted(dir string) (c committed, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, committedName))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(raw) == 0 {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if len(raw) != committedSize ||
		crc32.Checksum(raw[:8+bootSize], castagnoli) != binary.BigEndian.Uint32(raw[8+bootSize:]) {
		return c, errCommitted
	}
	c.version = binary.BigEndian.Uint64(raw)
	copy(c.boot[:], raw[8:])
	return c, nil
}

// committedFile stores the version of the newest commit.
type committedFile struct {
	file *os.File
	boot [bootSize]byte
}

// openCommitted opens a database's file for writing. An empty file gets the version.
func openCommitted(dir string, version uint64) (*committedFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, committedName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	c := &committedFile{file: f, boot: bootID()}
	if said, err := readCommitted(dir); err != nil || said.version == 0 {
		if err := c.write(version); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return c, nil
}

func (c *committedFile) write(version uint64) error {
	var raw [committedSize]byte
	binary.BigEndian.PutUint64(raw[:], version)
	copy(raw[8:], c.boot[:])
	binary.BigEndian.PutUint32(raw[8+bootSize:], crc32.Checksum(raw[:8+bootSize], castagnoli))
	_, err := c.file.WriteAt(raw[:], 0)
	return err
}

// bootSize is the length of a boot id.
const bootSize = 16

// bootID returns the id of this boot of the machine, or zero if unknown. After another boot, unsynced writes may be
// missing.
func bootID() (id [bootSize]byte) {
	if raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		copy(id[:], raw)
	}
	return id
}
