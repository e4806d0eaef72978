package wire

// A provider answers with one JSON object or with a stream of server-sent events. A stream is folded, event by event,
// into the message that a transcript keeps (fold.go). Folding does not change the bytes that are relayed.

import (
	"bytes"
	"errors"
)

// Event is one server-sent event. Raw is the whole event as it came, including the blank line that ends it.
type Event struct {
	Raw  []byte
	Name string
	Data []byte // of its data lines, joined by newlines
}

// maxEvent limits one event, in bytes: the last event of a Responses stream contains the whole answer.
const maxEvent = 32 << 20

// ErrEventTooLong is returned for an event longer than 32 MiB. It ends the stream.
var ErrEventTooLong = errors.New("an event of the stream is longer than 32 MiB")

// Splitter splits a stream into events as defined in section 9.2.6 of the HTML standard: lines end in CR, LF or both,
// and a blank line ends an event. The zero Splitter is ready to use.
type Splitter struct {
	buf      []byte
	line     int // where the unfinished line begins
	searched int // how far buf has been searched for its end
}

// Feed takes the next bytes of the stream and returns the events that they complete. It may return ErrEventTooLong.
func (s *Splitter) Feed(chunk []byte) ([]Event, error) {
	s.buf = append(s.buf, chunk...)
	var out []Event
	for end := s.end(); end > 0; end = s.end() {
		out = append(out, parse(s.buf[:end:end]))
		s.buf, s.line, s.searched = s.buf[end:], 0, 0 // The returned events still use the bytes before it.
	}
	if len(s.buf) > maxEvent {
		return out, ErrEventTooLong
	}
	return out, nil
}

// Rest returns the bytes after the last complete event.
func (s *Splitter) Rest() []byte { return s.buf }

// end returns the end of the first event, after its blank line, or 0 if that has not arrived yet. A CR at the end of
// the buffer waits for the next byte, which may be the LF of the same line ending.
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

// lineEnd returns the index after the line ending that begins at i.
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
