package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/klauspost/compress/s2"

	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// A table is block…, index, its length, checksum, its length. Badger treats an unreadable block as the end of the
// table: a read returns an older state, and a compaction drops what follows and removes the table. So each table is
// read completely before Badger opens it. A block, once decompressed, is
//
//	entry…, where each begins, their number, checksum, its length
//	entry: bytes that its key shares with the first key of the block, length of the rest, rest, value
//
// and all numbers have four bytes, big-endian, except those of an entry and the offsets of entries.

// sparse is what is left of a table, and where the rest was.
type sparse struct {
	name    string
	entries []entry
	lost    []Span
	offset  int // of the first damaged block
}

type entry struct {
	key   []byte // including its version
	value y.ValueStruct
}

// Span is a range of stored keys. The records stored there may be older than what was acknowledged, or missing.
type Span struct {
	From []byte `json:"from"`
	To   []byte `json:"to,omitempty"` // the first key after it; empty if unknown
}

// overlaps reports whether any key of [from, to) is in the span.
func (s Span) overlaps(from, to []byte) bool {
	return bytes.Compare(s.From, to) < 0 && (len(s.To) == 0 || bytes.Compare(from, s.To) < 0)
}

// tableFile is a table of a database.
type tableFile struct {
	name        string
	compression options.CompressionType
}

// examineTables reads every table of a database that is still closed, and removes damaged blocks. If the previous
// process closed the database cleanly, and later allows it, it records the tables as unread instead.
func (c *checkup) examineTables(later bool) error {
	ids := c.manifest.ids()
	files := c.manifest.files(c.dir)
	clean, err := takeMark(c.dir, ids)
	if err != nil {
		return err
	}
	if clean && later {
		c.unread = files
		return nil
	}
	found, errs := make([]*sparse, len(ids)), make([]error, len(ids))
	var next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			var r tableReader
			for i := int(next.Add(1)) - 1; i < len(ids); i = int(next.Add(1)) - 1 {
				found[i], errs[i] = r.read(files[i])
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, t := range found {
		if t == nil {
			continue
		}
		// TABLES is wrong once a table is replaced. It is written again when the database is open.
		if err := os.Remove(filepath.Join(c.dir, listingName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		kept, err := c.ledger.keep(c.database, t.name)
		if err != nil {
			return fmt.Errorf("setting the damaged file aside: %w", err)
		}
		if err := c.ledger.add(Finding{Database: c.database, File: filepath.Base(t.name), Kept: kept, Offset: t.offset,
			Lost: true, Spans: t.lost, What: fmt.Sprintf("%d damaged blocks are cut out: what was written to them last "+
				"is lost", len(t.lost))}); err != nil {
			return err
		}
		if err := replace(t.name, t.rebuilt(c.o, files[i].compression)); err != nil {
			return err
		}
	}
	return nil
}

// tableReader reads one table after another, reusing its memory.
type tableReader struct {
	file  bytes.Buffer
	block []byte
}

// read reads a table. If blocks are damaged, it returns the remaining content. Without its index, a table cannot be
// read.
func (r *tableReader) read(of tableFile) (*sparse, error) {
	name, compression := of.name, of.compression
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a compaction has removed it, see readLater
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r.file.Reset()
	if _, err := r.file.ReadFrom(f); err != nil {
		return nil, err
	}
	data := r.file.Bytes()
	end := len(data)
	parts := [2][]byte{} // checksum, index
	for i, what := range [...]string{"checksum", "index"} {
		if end < 4 {
			return nil, fmt.Errorf("table %s is cut short", filepath.Base(name))
		}
		n := int(binary.BigEndian.Uint32(data[end-4:]))
		if n == 0 || end-4-n < 0 {
			return nil, fmt.Errorf("table %s is damaged: its %s cannot have %d bytes", filepath.Base(name), what, n)
		}
		parts[i] = data[end-4-n : end-4]
		end -= 4 + n
	}
	if !fits(parts[1], parts[0]) {
		return nil, fmt.Errorf("table %s is damaged: its index fails its checksum", filepath.Base(name))
	}
	index := fb.GetRootAsTableIndex(parts[1], 0)
	blocks := make([]fb.BlockOffset, index.OffsetsLength())
	for i := range blocks {
		index.Offsets(&blocks[i], i)
	}
	t := &sparse{name: name}
	for i := range blocks {
		b := &blocks[i]
		at, size := int(b.Offset()), int(b.Len())
		if at+size <= end {
			var ok bool
			if r.block, _, ok = readBlock(r.block, data[at:at+size], compression); ok {
				continue
			}
		}
		lost := Span{From: bytes.Clone(y.ParseKey(b.KeyBytes()))}
		if i+1 < len(blocks) { // the next block may contain more versions of its first key
			lost.To = append(bytes.Clone(y.ParseKey(blocks[i+1].KeyBytes())), 0)
		}
		if len(t.lost) == 0 {
			t.offset = at
		}
		t.lost = append(t.lost, lost)
	}
	if len(t.lost) == 0 {
		return nil, nil
	}
	for i := range blocks {
		if at, size := int(blocks[i].Offset()), int(blocks[i].Len()); at+size <= end {
			if _, block, ok := readBlock(nil, bytes.Clone(data[at:at+size]), compression); ok {
				t.entries = append(t.entries, entriesOf(block)...)
			}
		}
	}
	return t, nil
}

// fits reports whether data matches the checksum that Badger stores as a protocol buffer: a CRC-32C in field 2.
func fits(data, checksum []byte) bool {
	var want []byte
	if sum := crc32.Checksum(data, castagnoli); sum != 0 {
		want = binary.AppendUvarint([]byte{2 << 3}, uint64(sum))
	}
	return bytes.Equal(checksum, want)
}

// readBlock decompresses a block, into buffer if it fits, and verifies its checksum. It returns the buffer, which may
// have grown.
func readBlock(buffer, raw []byte, compression options.CompressionType) (_, block []byte, ok bool) {
	if compression == options.Snappy {
		var err error
		if raw, err = s2.Decode(buffer[:cap(buffer)], raw); err != nil {
			return buffer, nil, false
		}
		buffer = raw
	}
	if len(raw) < 8 {
		return buffer, nil, false
	}
	end := len(raw) - 4
	n := int(binary.BigEndian.Uint32(raw[end:]))
	if n > end-4 {
		return buffer, nil, false
	}
	block = raw[:end-n]
	return buffer, block, fits(block, raw[end-n:end])
}

// entriesOf parses a block whose checksum is correct.
func entriesOf(block []byte) (entries []entry) {
	end := len(block) - 4
	n := int(binary.BigEndian.Uint32(block[end:]))
	starts := block[end-4*n : end]
	var first []byte
	for i := range n {
		start, stop := int(binary.NativeEndian.Uint32(starts[4*i:])), len(block)-4-4*n
		if i+1 < n {
			stop = int(binary.NativeEndian.Uint32(starts[4*(i+1):]))
		}
		shared, rest := binary.NativeEndian.Uint16(block[start:]), int(binary.NativeEndian.Uint16(block[start+2:]))
		e := entry{key: append(bytes.Clone(first[:shared]), block[start+4:start+4+rest]...)}
		e.value.Decode(block[start+4+rest : stop])
		entries = append(entries, e)
		if i == 0 {
			first = e.key
		}
	}
	return entries
}

// rebuilt returns the table without its damaged blocks. Badger does not open an empty table, so a table without
// entries gets the deletion of a key that no tenant uses.
func (t *sparse) rebuilt(o badger.Options, compression options.CompressionType) []byte {
	b := table.NewTableBuilder(table.Options{TableSize: uint64(o.BaseTableSize), BlockSize: o.BlockSize,
		BloomFalsePositive: o.BloomFalsePositive, Compression: compression})
	defer b.Close()
	if len(t.entries) == 0 {
		nobody := y.KeyWithTs(append(bytes.Clone(t.lost[0].From), 0), 1)
		t.entries = []entry{{nobody, y.ValueStruct{Meta: wal.Delete}}}
	}
	for _, e := range t.entries {
		b.Add(e.key, e.value, 0)
	}
	return b.Finish()
}
