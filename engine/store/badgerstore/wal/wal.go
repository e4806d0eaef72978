// Package wal reads Badger's write-ahead logs. Unlike Badger, it finds all damage in them, and corrects single
// flipped bits.
package wal

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

// Badger reads a write-ahead log up to the first entry that fails its checksum, treats that as the end of the log,
// and reports nothing. So each log is read here before Badger opens it. A log is
//
//	key id (8 bytes, zero), IV (12 bytes, unused), entry…, zeros
//	entry: meta, user meta, key length, value length, expiry (the last three as varints), key, value, CRC-32C
//
// where the last 8 bytes of a key are its version. All entries of a transaction have its version and the bit Txn, and
// an entry with the bit End and the version as its value ends it.
const (
	Extension  = ".mem" // of a log's file
	Header     = 20     // bytes before the first entry
	KeyVersion = 8      // bytes of the version at the end of a key

	Delete = 1 << 0 // meta: the key is removed
	Txn    = 1 << 6 // meta: the entry belongs to a transaction
	End    = 1 << 7 // meta: the entry ends a transaction

	EntryHeader = 22      // maximum length of an entry's header, in bytes
	entryMost   = 2 << 20 // bytes: longer than the key and the value of any entry
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is one entry of a log. Its slices refer to the log.
type Entry struct {
	Next    int // the offset after it
	Meta    byte
	Key     []byte // without its version
	Version uint64
	Value   []byte
}

// Frame returns the positions of the parts of the entry at an offset, without checking its checksum.
func Frame(data []byte, at int) (key, value, end int, ok bool) {
	if at+EntryHeader > len(data) {
		return 0, 0, 0, false
	}
	switch data[at] {
	case Txn, Txn | Delete, End:
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
	return key, value, end, data[at+1] == 0 && lengths[0] > KeyVersion && end <= len(data)
}

// ReadEntry reads the entry at an offset, if it is complete.
func ReadEntry(data []byte, at int) (e Entry, ok bool) {
	key, value, end, ok := Frame(data, at)
	if !ok {
		return e, false
	}
	sum := end - crc32.Size
	if crc32.Checksum(data[at:sum], castagnoli) != binary.BigEndian.Uint32(data[sum:]) {
		return e, false
	}
	return Entry{Next: end, Meta: data[at], Key: data[key : value-KeyVersion],
		Version: ^binary.BigEndian.Uint64(data[value-KeyVersion:]), Value: data[value:sum]}, true
}

// correct flips back the one bit that explains why the entry at an offset fails its checksum, and returns its
// position. A CRC-32C distinguishes every single flipped bit of an entry from every other.
func correct(data []byte, at int) (offset, bit int, ok bool) {
	try := func(offset, bit int) bool {
		data[offset] ^= 1 << bit
		if _, ok := ReadEntry(data, at); ok {
			return true
		}
		data[offset] ^= 1 << bit
		return false
	}
	// A flip in the lengths makes everything else in the entry look wrong, so each is tried.
	for offset := at; offset < min(at+EntryHeader, len(data)); offset++ {
		for bit := range 8 {
			if try(offset, bit) {
				return offset, bit, true
			}
		}
	}
	_, _, end, framed := Frame(data, at)
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
	// sums[bit] is how a flip of that bit, at this distance from the end, changes the checksum.
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

// Transaction is a complete transaction of a log.
type Transaction struct {
	Start, End int
	Version    uint64
	after      uint64 // the version of the previous commit, if marked
	marked     bool   // it was written by a version of Mneme that marks transactions
}

// Flaw is one damage of a log.
type Flaw struct {
	Offset int
	Lost   bool   // transactions are lost; otherwise all were corrected
	Gap    bool   // the transactions before Offset are neither in this log nor in anything before it
	What   string // for the operator
}

// Log is what a log holds.
type Log struct {
	data  []byte // after corrections
	mark  []byte // the key under which a transaction names the previous commit
	Flaws []Flaw
	Whole []Transaction
	Torn  int // the offset of an incomplete transaction that no complete one follows; 0: none
}

// Scan reads a log and corrects it in place. last is the newest version in the tables and in earlier logs, or 0. mark
// is the key under which each transaction of Mneme names the previous commit.
func Scan(data []byte, last uint64, mark []byte) *Log {
	s := &Log{data: data, mark: mark}
	if len(data) <= Header {
		return s
	}
	if id := binary.BigEndian.Uint64(data); id != 0 {
		clear(data[:8])
		s.Flawed(0, false, "the header was corrected")
	}
	for at := Header; ; {
		t, bad := s.transaction(at)
		if t.End > 0 {
			if t.marked && t.after > last {
				s.Flawed(at, true, "commits %d to %d are missing", last+1, t.after)
				s.Flaws[len(s.Flaws)-1].Gap = true
			}
			s.Whole = append(s.Whole, t)
			at = t.End
			last = max(last, t.Version)
			continue
		}
		if len(bytes.Trim(data[min(bad, len(data)):], "\x00")) == 0 {
			return s // A transaction without its end was not finished when the process died.
		}
		next, version := s.resume(bad+1, last)
		if next == 0 {
			s.Torn = bad
			return s
		}
		s.Flawed(bad, true, "commits up to %d that followed commit %d are damaged and lost", version, last)
		at, last = next, version
	}
}

// Flawed records damage at an offset.
func (s *Log) Flawed(offset int, lost bool, format string, args ...any) {
	s.Flaws = append(s.Flaws, Flaw{Offset: offset, Lost: lost, What: fmt.Sprintf(format, args...)})
}

// maxCorrections limits the number of bits that are corrected in one transaction. If more are wrong, the disk has
// written other data there.
const maxCorrections = 8

// transaction reads the transaction that begins at an offset. If it is not complete, bad is where it ends. Bits are
// only corrected if the transaction is complete afterwards: the last one may never have been written completely.
func (s *Log) transaction(at int) (t Transaction, bad int) {
	type correction struct{ offset, bit int }
	var done []correction
	undo := func() {
		for _, c := range done {
			s.data[c.offset] ^= 1 << c.bit
		}
	}
	for t.Start, bad = at, at; ; {
		e, ok := ReadEntry(s.data, bad)
		if !ok {
			offset, bit, found := correct(s.data, bad)
			if !found || len(done) == maxCorrections {
				undo()
				return Transaction{}, bad
			}
			done = append(done, correction{offset, bit})
			continue
		}
		if bad == at {
			t.Version = e.Version
		}
		if e.Version != t.Version {
			undo()
			return Transaction{}, bad
		}
		bad = e.Next
		if bytes.Equal(e.Key, s.mark) && len(e.Value) >= 8 {
			t.after, t.marked = binary.BigEndian.Uint64(e.Value), true
		}
		if e.Meta&End != 0 {
			if version, err := strconv.ParseUint(string(e.Value), 10, 64); err != nil || version != t.Version {
				undo()
				return Transaction{}, bad
			}
			break
		}
	}
	for _, c := range done {
		s.Flawed(c.offset, false, "bit %d of byte %d was flipped and is turned back: nothing is lost", c.bit, c.offset)
	}
	t.End = bad
	return t, 0
}

// resume finds the end and the version of the first transaction after an offset that has an end. Its beginning may be
// missing, so it counts as lost.
func (s *Log) resume(at int, last uint64) (next int, version uint64) {
	for ; at+EntryHeader <= len(s.data); at++ {
		for place := at; ; {
			e, ok := ReadEntry(s.data, place)
			if !ok || e.Version <= last {
				break
			}
			place = e.Next
			if e.Meta&End != 0 {
				return place, e.Version
			}
		}
	}
	return 0, 0
}

// Salvaged returns the log without the lost parts.
func (s *Log) Salvaged() []byte {
	out := bytes.Clone(s.data[:min(Header, len(s.data))])
	for _, t := range s.Whole {
		out = append(out, s.data[t.Start:t.End]...)
	}
	return append(out, make([]byte, EntryHeader)...)
}

// Read reads a log without the zeros at its end: a log is created long and is mostly empty.
func Read(name string) (data []byte, err error) {
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
			// Space for zeros that may end an entry.
			return append(data, make([]byte, min(size-len(data), entryMost))...), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
