package mneme

import "unsafe"

// Policy decides what the model sees, or what becomes of memories: it reads the request and writes the plan. It must be a pure function of the
// request. An error fails the step; its text is shown to the operator.
type Policy func(req *Request, plan *Plan) error

// Request is the input of a policy: a table of records, oldest first, with budgets, viewer and config. It is a view of
// the host's bytes, valid for one call.
type Request struct {
	*preamble
	mem     []byte
	records Records
	host    hostFunctions

	wanted   string // the tag that HasTag was last asked for, and its id
	wantedID uint32
}

// noString is not the id of any string: such a large table would not fit into memory.
const noString = 1<<32 - 1

// errRequest is returned for bytes that no host sends: truncated, of another major version, not aligned to 8 bytes, or
// read on a big-endian machine.
const errRequest = Error("mneme: not a request of mneme/1")

// open checks once that every table lies inside mem, so that records can be read without further checks.
func (q *Request) open(mem []byte) error {
	base := unsafe.Pointer(unsafe.SliceData(mem))
	if len(mem) < preambleSize || uintptr(base)%8 != 0 {
		return errRequest
	}
	p := (*preamble)(base)
	if p.magic != requestMagic || p.abi>>majorShift != Version>>majorShift ||
		p.size < preambleSize || p.recordSize < recordSize || p.recordSize%8 != 0 ||
		!holds(mem, p.recordsAt, p.recordCount, p.recordSize) ||
		!holds(mem, p.configAt, p.configCount, configEntrySize) ||
		!holds(mem, p.stringsAt, p.stringsCount, 8) ||
		p.extraAt != 0 && (p.extraSize < extraSize || p.extraSize%8 != 0 ||
			!holds(mem, p.extraAt, p.recordCount, p.extraSize)) {
		return errRequest
	}
	q.preamble, q.mem = p, mem
	q.records = Records{unsafe.Add(base, p.recordsAt), uintptr(p.recordSize), int(p.recordCount)}
	q.wanted, q.wantedID = "", 0
	return nil
}

func holds(mem []byte, at, count, size uint32) bool {
	return at%8 == 0 && uint64(at)+uint64(count)*uint64(size) <= uint64(len(mem))
}

// Records gives access to a request's records. A loop over many records is faster with this value in a variable than
// with the request, because a variable need not be read again for each record.
type Records struct {
	first  unsafe.Pointer
	stride uintptr // from one record to the next
	count  int
}

// Len returns the number of records.
func (rs Records) Len() int { return rs.count }

// At returns the record at index i, 0 being the oldest. It panics when i is out of range.
func (rs Records) At(i int) *Record {
	if uint(i) >= uint(rs.count) {
		panic("mneme: record out of range")
	}
	return (*Record)(unsafe.Add(rs.first, uintptr(i)*rs.stride))
}

// Records returns the request's records.
func (q *Request) Records() Records { return q.records }

// Len returns the number of records.
func (q *Request) Len() int { return q.records.count }

// Record returns the record at index i, 0 being the oldest. It panics when i is out of range.
func (q *Request) Record(i int) *Record { return q.records.At(i) }

// AtomEnd returns the index after the last record of the atom that begins at first. Atoms are dropped whole or not at
// all.
func (q *Request) AtomEnd(first int) int {
	rs, end := q.records, first+1
	for atom := rs.At(first).Atom; end < rs.count && rs.At(end).Atom == atom; {
		end++
	}
	return end
}

// Memory returns the part of a record that only memory hooks have. It panics in Assemble, and when i is out of range.
func (q *Request) Memory(i int) *Extra {
	if q.extraAt == 0 || uint(i) >= uint(q.records.count) {
		panic("mneme: no such entry in the extra table")
	}
	return (*Extra)(unsafe.Add(unsafe.Pointer(q.preamble), uintptr(q.extraAt)+uintptr(i)*uintptr(q.preamble.extraSize)))
}

// OlderExist reports whether the session has messages older than the table.
func (q *Request) OlderExist() bool { return q.flags&olderExist != 0 }

// String returns the string with an id from this request, or "" if there is none.
func (q *Request) String(id uint32) string {
	if id >= q.stringsCount {
		return ""
	}
	pair := (*[2]uint32)(unsafe.Add(unsafe.Pointer(q.preamble), uintptr(q.stringsAt)+uintptr(id)*8))
	return q.view(pair[0], pair[1])
}

// StringID returns the id of a string, as used in records; false if the request does not contain it. Equal strings have
// one id, so that a loop need only compare numbers.
func (q *Request) StringID(s string) (uint32, bool) {
	for id := range q.stringsCount {
		if q.String(id) == s {
			return id, true
		}
	}
	return noString, false
}

// Tag returns the string id of a record's tag, 0 <= i < r.TagCount. It panics when i is out of range.
func (q *Request) Tag(r *Record, i int) uint32 { return q.tags(r)[i] }

// HasTag reports whether a record has a tag. Tags that did not fit into the request (TagsLeftOut) are not found.
func (q *Request) HasTag(r *Record, tag string) bool { return r.TagCount > 0 && q.hasTag(r, tag) }

// hasTag looks up a tag's id only if it differs from the previous tag: policies ask for few tags of many records.
func (q *Request) hasTag(r *Record, tag string) bool {
	if len(tag) != len(q.wanted) || unsafe.StringData(tag) != unsafe.StringData(q.wanted) {
		q.wanted = tag
		q.wantedID, _ = q.StringID(tag)
	}
	return contains(q.tags(r), q.wantedID)
}

// contains is apart from hasTag because a loop that stock Go compiles is charged, each time round, for all of its
// function.
//
//go:noinline
func contains(ids []uint32, wanted uint32) bool {
	for _, id := range ids {
		if id == wanted {
			return true
		}
	}
	return false
}

// tags returns the part of the tag list that belongs to a record.
func (q *Request) tags(r *Record) []uint32 {
	at := uint64(q.stringsAt) + uint64(q.stringsCount)*8 + uint64(r.tagsAt)*4
	if at+uint64(r.TagCount)*4 > uint64(len(q.mem)) {
		panic("mneme: tags outside the request")
	}
	return unsafe.Slice((*uint32)(unsafe.Add(unsafe.Pointer(q.preamble), uintptr(at))), int(r.TagCount))
}

// view returns a string from the request's bytes; "" if it would lie outside.
func (q *Request) view(at, length uint32) string {
	if length == 0 || uint64(at)+uint64(length) > uint64(len(q.mem)) {
		return ""
	}
	return unsafe.String(&q.mem[at], int(length))
}
