package wire

// A provider answers with one JSON object or with a stream of server-sent events. A stream is folded, event by event, into
// the message that a transcript keeps (fold.go). Nothing of what passes through is changed.

import (
	"bytes"
	"errors"
)

// Event is one server-sent event. Raw is all of it with the blank line that ends it, as it came.
type Event struct {
	Raw  []byte
	Name string
	Data []byte // of its data lines, joined by newlines
}

// maxEvent bounds one event, in bytes: the last event of a Responses stream holds the whole answer.
const maxEvent = 32 << 20

// ErrEventTooLong ends a stream whose event is longer than 32 MiB.
var ErrEventTooLong = errors.New("an event of the stream is longer than 32 MiB")

// Splitter cuts a stream into events, as the HTML standard, section 9.2.6, separates them: lines end in CR, LF or both,
// and a blank line ends an event. The zero Splitter is ready.
type Splitter struct {
	buf      []byte
	line     int // where the line begins that has no end yet
	searched int // how far buf was searched for it
}

// Feed takes the next bytes of the stream and gives the events that they complete. It answers ErrEventTooLong.
func (s *Splitter) Feed(chunk []byte) ([]Event, error) {
	s.buf = append(s.buf, chunk...)
	var out []Event
	for end := s.end(); end > 0; end = s.end() {
		out = append(out, parse(s.buf[:end:end]))
		s.buf, s.line, s.searched = s.buf[end:], 0, 0 // The events keep the bytes before.
	}
	if len(s.buf) > maxEvent {
		return out, ErrEventTooLong
	}
	return out, nil
}

// Rest is what came behind the last whole event.
func (s *Splitter) Rest() []byte { return s.buf }

// end is where the first event ends, behind its blank line; 0 where that has not come yet. A CR that the buffer ends in
// waits for the next byte, which may belong to the same line's end.
func (s *Splitter) end() int {
	for {
		at := bytes.IndexAny(s.buf[s.searched:], "\r\n")
		if at < 0 {
			s.searched = len(s.buf)
			return 0
		}
		if s.searched += at; s.buf[s.searched] == '\r' && s.searched+1 == len(s.buf) {
			return 0
		}
		next := lineEnd(s.buf, s.searched)
		if s.searched == s.line {
			return next
		}
		s.line, s.searched = next, next
	}
}

// lineEnd is the index behind the line's end that begins at i.
func lineEnd(b []byte, i int) int {
	if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
		return i + 2
	}
	return i + 1
}

var byteOrderMark = []byte("\ufeff")

func parse(raw []byte) Event {
	e := Event{Raw: raw}
	first := true
	for rest := bytes.TrimPrefix(raw, byteOrderMark); len(rest) > 0; {
		line := rest
		if at := bytes.IndexAny(rest, "\r\n"); at >= 0 {
			line, rest = rest[:at], rest[lineEnd(rest, at):]
		} else {
			rest = nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.Name = string(value)
		case "data":
			if first {
				e.Data, first = value, false
			} else {
				e.Data = append(append(bytes.Clone(e.Data), '\n'), value...)
			}
		}
	}
	return e
}
