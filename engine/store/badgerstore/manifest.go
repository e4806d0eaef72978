package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/table"
)

// Badger's MANIFEST names the tables of a database. It is
//
//	magic (8 bytes), record…
//	record: length, CRC-32C, changes (a protocol buffer)
//
// in big-endian order. Badger treats data after the last complete record as unfinished, cuts it off, and deletes all
// tables that the remainder does not name.
const (
	manifestMagic = "Bdgr\x00\x00\x00\x08"
	recordHead    = 8 // length, checksum
)

// manifest is the content of a MANIFEST.
type manifest struct {
	tables    map[uint64]badger.TableManifest
	whole     []byte // up to the end of the last complete record
	tail      int    // bytes after it
	rewritten bool   // Badger rewrote it, so it does not begin like an earlier one
}

// readManifest reads a database's MANIFEST. It returns nil if there is none.
func readManifest(o badger.Options) (*manifest, error) {
	f, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return parseManifest(data, f, o)
}

func parseManifest(data []byte, f *os.File, o badger.Options) (*manifest, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	parsed, end, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
	if err != nil {
		return nil, err
	}
	if int(end) > len(data) { // it has grown since
		return nil, errGrown
	}
	m := &manifest{tables: parsed.Tables, whole: data[:end], tail: len(data) - int(end)}
	if first := m.whole[len(manifestMagic):]; len(first) >= 4 {
		m.rewritten = binary.BigEndian.Uint32(first) > 0
	}
	return m, checkManifestEnd(data, int(end))
}

// errGrown says that Badger wrote to the MANIFEST while it was read.
var errGrown = errors.New("the manifest has grown meanwhile")

// checkManifestEnd checks the data after the last complete record of a manifest. A record with a flipped bit in its
// length looks like an unfinished one.
func checkManifestEnd(data []byte, at int) error {
	if at+recordHead > len(data) {
		return nil
	}
	length, sum := binary.BigEndian.Uint32(data[at:]), binary.BigEndian.Uint32(data[at+4:])
	for bit := range 32 {
		n := int(length ^ 1<<bit)
		if n <= len(data)-at-recordHead && crc32.Checksum(data[at+recordHead:at+recordHead+n], castagnoli) == sum {
			return fmt.Errorf("bit %d of the length at byte %d is flipped", bit, at)
		}
	}
	return nil
}

// ids returns the numbers of the tables, in order.
func (m *manifest) ids() []uint64 { return slices.Sorted(maps.Keys(m.tables)) }

// files returns the tables that a manifest names, in the order of ids.
func (m *manifest) files(dir string) (files []tableFile) {
	for _, id := range m.ids() {
		files = append(files, tableFile{table.NewFilename(id, dir), m.tables[id].Compression})
	}
	return files
}

// encodeManifest returns a MANIFEST that names tables. It begins with an empty record, like Badger's own that were
// never rewritten.
func encodeManifest(tables []listedTable) []byte {
	out := []byte(manifestMagic)
	record := func(changes []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(changes)))
		out = binary.BigEndian.AppendUint32(out, crc32.Checksum(changes, castagnoli))
		out = append(out, changes...)
	}
	record(nil)
	var changes []byte
	for _, t := range tables {
		// Fields of ManifestChange: 1 is the number, 3 the level, 6 the compression. Without field 2 it creates a
		// table.
		var change []byte
		for _, field := range [...][2]uint64{{1, t.id}, {3, uint64(t.level)}, {6, uint64(t.compression)}} {
			if field[1] != 0 {
				change = binary.AppendUvarint(binary.AppendUvarint(change, field[0]<<3), field[1])
			}
		}
		changes = binary.AppendUvarint(append(changes, 1<<3|2), uint64(len(change)))
		changes = append(changes, change...)
	}
	record(changes)
	return out
}

// tableIndex is the index at the end of a table's file.
type tableIndex struct {
	size   int64
	newest uint64 // the largest version of its keys
	sum    uint32 // CRC-32C of the index
}

// errIndex says that the index of a table cannot be read. Without it the table cannot be read.
var errIndex = errors.New("its index is damaged")

// readIndex reads the index of a table.
func readIndex(name string) (t tableIndex, err error) {
	f, err := os.Open(name)
	if err != nil {
		return t, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	end := info.Size()
	part := func() ([]byte, error) {
		var length [4]byte
		if end < 4 {
			return nil, errIndex
		}
		if _, err := f.ReadAt(length[:], end-4); err != nil {
			return nil, err
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		if n == 0 || end-4-n < 0 {
			return nil, errIndex
		}
		data := make([]byte, n)
		_, err := f.ReadAt(data, end-4-n)
		end -= 4 + n
		return data, err
	}
	checksum, err := part()
	if err != nil {
		return t, err
	}
	index, err := part()
	if err != nil {
		return t, err
	}
	if !fits(index, checksum) {
		return t, errIndex
	}
	return tableIndex{size: info.Size(), newest: fb.GetRootAsTableIndex(bytes.Clone(index), 0).MaxVersion(),
		sum: crc32.Checksum(index, castagnoli)}, nil
}
