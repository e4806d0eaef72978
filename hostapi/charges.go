package hostapi

import (
	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// enter counts one host call and records the function's name for error messages.
func (in *instance) enter(function string) {
	in.function = function
	if in.hostCalls++; in.hostCalls > in.limits.HostCalls {
		in.stop(plan.StatusHostQuota, "more than %d host calls", in.limits.HostCalls)
	}
	in.spend(fuelPerCall)
}

// pull counts bytes of text that the host copied, searched or tokenised for the guest.
func (in *instance) pull(n int) {
	in.spend(n / bytesPerFuel)
	if in.pulled += n; in.pulled > in.textRoom {
		in.stop(plan.StatusHostQuota, "more than %d bytes of text", in.textRoom)
	}
}

// textReads is how often a call may read all texts and arguments of its records, beside Limits.TextBytes: once to search
// them, and once to copy them.
const textReads = 2

// roomForTexts returns how many bytes of text a call may read: arguments come on top, when they are read first.
func roomForTexts(limits *Limits, records []plan.Record) int {
	room := limits.TextBytes
	for i := range records {
		room += textReads * int(records[i].TextBytes)
	}
	return room
}

// addArguments makes room for the arguments of a call, which the request does not count, when the guest first reads them.
func (in *instance) addArguments(record, call int32, size int) {
	key := [2]int32{record, call}
	if in.argued[key] {
		return
	}
	if in.argued == nil {
		in.argued = map[[2]int32]bool{}
	}
	in.argued[key] = true
	in.textRoom += textReads * size
}

// write counts bytes that the guest logged or set as its message.
func (in *instance) write(n int) {
	if in.written += n; in.written > in.limits.LogBytes {
		in.stop(plan.StatusHostQuota, "more than %d bytes of log", in.limits.LogBytes)
	}
}

// during stops a guest that calls, outside a call, a function that needs a request.
func (in *instance) during() {
	if in.request == nil {
		in.stop(plan.StatusTrap, "called before %s", in.key.module.entryNames())
	}
}

// logLineBytes is added to the length of each line, so that empty lines cannot flood a decision.
const logLineBytes = 16

// How much of a text and of a query score reads, in bytes.
const (
	scoredText  = 16 << 10
	scoredQuery = 4 << 10
)

// fetch is what a guest may read of a record.
type fetch uint8

const (
	fetchText fetch = iota
	fetchArguments
	fetchName
	fetchJSON
)

// fetched is what a call read last.
type fetched struct {
	what         fetch
	record, call int32
	text         []byte
}

// text returns a record's text, or false if the table has no such record.
func (in *instance) text(record int32) ([]byte, bool) { return in.part(fetchText, record, 0) }

// part returns a part of a record, or false if there is none. The last part is kept, so that a guest can read it in
// pieces. Any other part is charged in full again, because the host has to make all of it.
func (in *instance) part(what fetch, record, call int32) ([]byte, bool) {
	in.during()
	if record < 0 || int(record) >= len(in.request.Records) || call < 0 {
		return nil, false
	}
	if l := &in.last; l.text != nil && l.what == what && l.record == record && l.call == call {
		return l.text, true
	}
	text, ok, err := in.fetch(what, int(record), int(call))
	if err != nil {
		in.stop(plan.StatusUnavailable, "the text of record %d cannot be read: %v", record, err)
	}
	if !ok {
		return nil, false
	}
	in.spend(len(text) / bytesPerFuel)
	if what == fetchArguments {
		in.addArguments(record, call, len(text))
	}
	in.last = fetched{what, record, call, text}
	return text, true
}

func (in *instance) fetch(what fetch, record, call int) ([]byte, bool, error) {
	switch what {
	case fetchText:
		text, err := in.texts.Text(record)
		return text, true, err
	case fetchJSON:
		return in.texts.JSON(record)
	}
	called, ok, err := in.texts.Call(record, call)
	if what == fetchName {
		return []byte(called.Name), ok, err
	}
	return []byte(called.Arguments), ok, err
}

// copyOut copies a text from an offset into the guest's memory and returns the text's length.
func (in *instance) copyOut(dst, text []byte, offset int32) uint64 {
	if int(offset) < len(text) {
		in.pull(copy(dst, text[offset:]))
	}
	return api.EncodeI32(int32(len(text)))
}

// bytes returns length bytes of the guest's memory at ptr, for the host to write to.
func (in *instance) bytes(ptr uint32, length int32) []byte {
	size := len(in.memory.bytes)
	if length < 0 {
		in.stop(plan.StatusTrap, "length %d is negative", length)
	}
	if uint64(ptr)+uint64(length) > uint64(size) {
		in.stop(plan.StatusTrap, "%d bytes at %d pass the end of memory at %d", length, ptr, size)
	}
	in.dirty.cards |= wasm.CardsOf(uint64(ptr), uint64(ptr)+uint64(length))
	return in.memory.bytes[ptr : ptr+uint32(length)]
}
