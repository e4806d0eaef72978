package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
)

// Badger reads a write-ahead log up to the first entry that fails its checksum, takes that for the end of what was
// written, and says nothing. So each log is read here before Badger opens it. A log is
//
//	key id (8 bytes, zero), IV (12 bytes, unused), entry…, zeros
//	entry: meta, user meta, key length, value length, expiry (the last three as varints), key, value, CRC-32C
//
// where the last 8 bytes of a key are its version. All entries of a transaction have its version and the bit entryTxn,
// and an entry with the bit entryEnd and the version as its value ends it.
const (
	logExtension = ".mem"
	logHeader    = 20
	keyVersion   = 8

	entryDelete = 1 << 0
	entryTxn    = 1 << 6
	entryEnd    = 1 << 7

	entryHeader = 22      // what a header takes at most
	entryMost   = 2 << 20 // is more than the key and the value of any entry have
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// logEntry is one entry of a log. Its slices are the log's.
type logEntry struct {
	end     int // of the entry in the log
	meta    byte
	key     []byte // without its version
	version uint64
	value   []byte
}

// frame reads where the parts of the entry at a place lie, without looking at its checksum.
func frame(data []byte, at int) (key, value, end int, ok bool) {
	if at+entryHeader > len(data) {
		return 0, 0, 0, false
	}
	switch data[at] {
	case entryTxn, entryTxn | entryDelete, entryEnd:
	default:
		return 0, 0, 0, false
	}
	key = at + 2
	var lengths [3]uint64
	for i := range lengths {
		v, n := binary.Uvarint(data[key:])
		if n <= 0 || v > entryMost {
			return 0, 0, 0, false
		}
		lengths[i], key = v, key+n
	}
	value = key + int(lengths[0])
	end = value + int(lengths[1]) + crc32.Size
	return key, value, end, data[at+1] == 0 && lengths[0] > keyVersion && end <= len(data)
}

// readEntry reads the entry at a place, if there is a whole one.
func readEntry(data []byte, at int) (e logEntry, ok bool) {
	key, value, end, ok := frame(data, at)
	if !ok {
		return e, false
	}
	sum := end - crc32.Size
	if crc32.Checksum(data[at:sum], castagnoli) != binary.BigEndian.Uint32(data[sum:]) {
		return e, false
	}
	return logEntry{end: end, meta: data[at], key: data[key : value-keyVersion],
		version: ^binary.BigEndian.Uint64(data[value-keyVersion:]), value: data[value:sum]}, true
}

// correct turns back the one bit whose flip explains why the entry at a place fails its checksum, and tells which one
// that was. A CRC-32C tells any single flipped bit of an entry from every other.
func correct(data []byte, at int) (offset, bit int, ok bool) {
	try := func(offset, bit int) bool {
		data[offset] ^= 1 << bit
		if _, ok := readEntry(data, at); ok {
			return true
		}
		data[offset] ^= 1 << bit
		return false
	}
	// A flip in the lengths makes everything else of the entry look wrong, so each is tried.
	for offset := at; offset < min(at+entryHeader, len(data)); offset++ {
		for bit := range 8 {
			if try(offset, bit) {
				return offset, bit, true
			}
		}
	}
	_, _, end, framed := frame(data, at)
	if !framed {
		return 0, 0, false
	}
	sum := end - crc32.Size
	difference := crc32.Checksum(data[at:sum], castagnoli) ^ binary.BigEndian.Uint32(data[sum:end])
	for i := range 32 {
		if difference == 1<<i {
			offset, bit := end-1-i/8, i%8
			return offset, bit, try(offset, bit)
		}
	}
	// sums[bit] is what a flip of that bit, so far before the end, changes in the checksum.
	var sums [8]uint32
	for bit := range sums {
		sums[bit] = castagnoli[1<<bit]
	}
	for offset := sum - 1; offset >= at; offset-- {
		for bit, s := range sums {
			if s == difference {
				return offset, bit, try(offset, bit)
			}
			sums[bit] = castagnoli[s&0xff] ^ s>>8
		}
	}
	return 0, 0, false
}

// transaction is a whole transaction of a log.
type transaction struct {
	start, end int
	version    uint64
	after      uint64 // the version of the commit before it, where marked
	marked     bool   // it was written by a version of Mneme that says so
}

// flaw is one damage of a log.
type flaw struct {
	offset int
	lost   bool   // transactions are, else all could be corrected
	what   string // for the operator
}

// logScan is what a log holds.
type logScan struct {
	data  []byte // corrected
	whole []transaction
	flaws []flaw
	torn  int // where something begins that is no whole transaction and that none follows, 0 where there is none
}

// scanLog reads a log and corrects it in place. last is the newest version in the logs before it, 0 where there are
// none.
func scanLog(data []byte, last uint64) *logScan {
	s := &logScan{data: data}
	if len(data) <= logHeader {
		return s
	}
	if id := binary.BigEndian.Uint64(data); id != 0 {
		clear(data[:8])
		s.flaw(0, false, "the header was corrected")
	}
	for at := logHeader; ; {
		t, bad := s.transaction(at)
		if t.end > 0 {
			if t.marked && last != 0 && t.after > last {
				s.flaw(at, true, "commits %d to %d are missing", last+1, t.after)
			}
			s.whole = append(s.whole, t)
			at, last = t.end, t.version
			continue
		}
		if len(bytes.Trim(data[min(bad, len(data)):], "\x00")) == 0 {
			return s // A transaction without its end was not finished when the process died.
		}
		next, version := s.resume(bad+1, last)
		if next == 0 {
			s.torn = bad
			return s
		}
		s.flaw(bad, true, "commits up to %d that followed commit %d are damaged and lost", version, last)
		at, last = next, version
	}
}

func (s *logScan) flaw(offset int, lost bool, format string, args ...any) {
	s.flaws = append(s.flaws, flaw{offset, lost, fmt.Sprintf(format, args...)})
}

// maxCorrections bounds how many bits of one transaction are turned back. Where more are wrong, the disk has written
// something else there.
const maxCorrections = 8

// transaction reads the transaction that begins at a place. Where there is no whole one, bad is where it ends. Bits are
// turned back only in transactions that are whole then: the last one may never have been written whole.
func (s *logScan) transaction(at int) (t transaction, bad int) {
	type correction struct{ offset, bit int }
	var done []correction
	undo := func() {
		for _, c := range done {
			s.data[c.offset] ^= 1 << c.bit
		}
	}
	for t.start, bad = at, at; ; {
		e, ok := readEntry(s.data, bad)
		if !ok {
			offset, bit, found := correct(s.data, bad)
			if !found || len(done) == maxCorrections {
				undo()
				return transaction{}, bad
			}
			done = append(done, correction{offset, bit})
			continue
		}
		if bad == at {
			t.version = e.version
		}
		if e.version != t.version {
			undo()
			return transaction{}, bad
		}
		bad = e.end
		if bytes.Equal(e.key, commitMark) && len(e.value) == 8 {
			t.after, t.marked = binary.BigEndian.Uint64(e.value), true
		}
		if e.meta&entryEnd != 0 {
			if version, err := strconv.ParseUint(string(e.value), 10, 64); err != nil || version != t.version {
				undo()
				return transaction{}, bad
			}
			break
		}
	}
	for _, c := range done {
		s.flaw(c.offset, false, "bit %d of byte %d was flipped and is turned back: nothing is lost", c.bit, c.offset)
	}
	t.end = bad
	return t, 0
}

// resume finds the end of the first transaction behind a place that has an end, and its version. That transaction may
// lack its beginning, so it counts as lost.
func (s *logScan) resume(at int, last uint64) (next int, version uint64) {
	for ; at+entryHeader <= len(s.data); at++ {
		for place := at; ; {
			e, ok := readEntry(s.data, place)
			if !ok || e.version <= last {
				break
			}
			if place = e.end; e.meta&entryEnd != 0 {
				return place, e.version
			}
		}
	}
	return 0, 0
}

// salvaged is the log without what is lost.
func (s *logScan) salvaged() []byte {
	out := bytes.Clone(s.data[:min(logHeader, len(s.data))])
	for _, t := range s.whole {
		out = append(out, s.data[t.start:t.end]...)
	}
	return append(out, make([]byte, entryHeader)...)
}

// readLog reads a log without the zeros at its end: a log is made long and is mostly empty.
func readLog(name string) (data []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for size := 0; ; {
		n, err := io.ReadFull(f, block)
		size += n
		if written := bytes.TrimRight(block[:n], "\x00"); len(written) > 0 {
			data = append(data, make([]byte, size-n-len(data))...)
			data = append(data, written...)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			// Room for the zeros that an entry may end in.
			return append(data, make([]byte, min(size-len(data), entryMost))...), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
