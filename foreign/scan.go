package foreign

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// maxValue is the maximum size of one line or one element, in bytes.
const maxValue = 64 << 20

// value is one JSON value of a file: a line, or an element of an array.
type value struct {
	raw    []byte // valid until the next one is read; nil if it is bad
	off    int64
	n      int // its number, from 0
	reason string
}

// isArray reports whether the first character of a text is a bracket.
func (l *leaf) isArray() bool {
	head := l.head(512)
	return len(bytes.TrimLeft(head, " \t\r\n")) > 0 && bytes.TrimLeft(head, " \t\r\n")[0] == '['
}

// each visits the values of a text: the elements of an array, the lines of NDJSON, or the one value that it is.
func (l *leaf) each(visit func(v *value) error) error {
	if l.isArray() {
		return l.eachElement(visit)
	}
	if l.oneValue {
		raw, err := l.all()
		if err != nil {
			return err
		}
		return visit(&value{raw: raw})
	}
	return l.eachLine(visit)
}

// eachLine visits the lines that are not blank. A bad line has a reason: too_large, unreadable_line, or truncated_line
// if it is the last one.
func (l *leaf) eachLine(visit func(v *value) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(l, 0, l.Size), 64<<10)
	var line []byte
	n := 0
	for off := int64(0); ; {
		var size int64
		var err error
		line, size, err = readLine(in, line[:0])
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return err
		}
		v := value{raw: bytes.TrimSpace(line), off: off, n: n}
		off += size
		switch {
		case size > maxValue:
			v.raw, v.reason = nil, TooLarge
		case len(v.raw) == 0:
			if last {
				return nil
			}
			n++
			continue
		case !json.Valid(v.raw) && last:
			v.raw, v.reason = nil, TruncatedLine
		case !json.Valid(v.raw):
			v.raw, v.reason = nil, UnreadableLine
		}
		n++
		if err := visit(&v); err != nil || last {
			return err
		}
	}
}

// readLine reads a line and returns it, without what is above maxValue, and its size with the line break.
func readLine(in *bufio.Reader, line []byte) ([]byte, int64, error) {
	size := int64(0)
	for {
		part, err := in.ReadSlice('\n')
		if size += int64(len(part)); size <= maxValue {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
}

// eachElement visits the elements of an array. Of an array that ends early, the last element is a truncated_line.
func (l *leaf) eachElement(visit func(v *value) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(l, 0, l.Size), 64<<10)
	var buf []byte
	depth, quoted, escaped, size, n := 0, false, false, int64(0), 0
	emit := func(reason string) error {
		raw := bytes.TrimSpace(buf)
		defer func() { buf, size = buf[:0], 0 }()
		if len(raw) == 0 && size == 0 {
			return nil
		}
		v := value{raw: raw, n: n, reason: reason}
		n++
		if size > maxValue {
			v.raw, v.reason = nil, TooLarge
		} else if reason == "" && !json.Valid(raw) {
			v.raw, v.reason = nil, UnreadableLine
		} else if reason != "" {
			v.raw = nil
		}
		return visit(&v)
	}
	for {
		c, err := in.ReadByte()
		if errors.Is(err, io.EOF) {
			return emit(TruncatedLine)
		} else if err != nil {
			return err
		}
		keep := depth > 0
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth <= 0 {
				return emit("")
			}
		case c == ',' && depth == 1:
			if err := emit(""); err != nil {
				return err
			}
			keep = false
		}
		if keep && (size > 0 || c > ' ') {
			if size++; size <= maxValue {
				buf = append(buf, c)
			}
		}
	}
}

// all returns a text whole. It returns an error for one above maxValue.
func (l *leaf) all() ([]byte, error) {
	if l.Size > maxValue {
		return nil, unreadablef("too large: a single value may have at most %d MiB", maxValue>>20)
	}
	raw := make([]byte, l.Size)
	_, err := io.ReadFull(io.NewSectionReader(l, 0, l.Size), raw)
	return raw, err
}

// head returns the first bytes of a file.
func (l *leaf) head(n int) []byte {
	raw := make([]byte, min(int64(n), l.Size))
	got, _ := l.ReadAt(raw, 0)
	return raw[:got]
}

// bad counts a value that cannot be used, and reports whether it is one.
func (src *source) bad(v *value) bool {
	if v.reason != "" {
		src.report.left(v.reason, 1)
	}
	return v.reason != ""
}

// whole replaces the halves of characters (lone surrogates) that a value's escapes spell, and counts them.
func (src *source) whole(raw []byte) []byte {
	fixed, n := wholeCharacters(raw)
	src.report.Replaced += n
	return fixed
}

// wholeCharacters replaces escapes of lone surrogates by that of U+FFFD.
func wholeCharacters(raw []byte) (fixed []byte, n int) {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw, 0
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i+1 < len(raw) && raw[i+1] != 'u' {
			i++
			continue
		}
		switch u := hex4(raw, i); {
		case u>>10 == 0xD800>>10 && hex4(raw, i+6)>>10 == 0xDC00>>10:
			i += 11
		case u>>11 == 0xD800>>11:
			if n++; n == 1 {
				raw = bytes.Clone(raw)
			}
			copy(raw[i:], `\ufffd`)
			i += 5
		default:
			i += 5
		}
	}
	return raw, n
}

// hex4 returns the number in an escape \uXXXX; 0 if there is none at i.
func hex4(raw []byte, i int) (u int) {
	if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
		return 0
	}
	b, err := hex.DecodeString(string(raw[i+2 : i+6]))
	if err != nil {
		return 0
	}
	return int(b[0])<<8 | int(b[1])
}

// object is a decoded JSON object whose members are not decoded.
type object map[string]json.RawMessage

func parseObject(raw []byte) object {
	var o object
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

func (o object) has(names ...string) bool {
	for _, name := range names {
		if _, ok := o[name]; !ok {
			return false
		}
	}
	return o != nil
}

// text returns a member that is a string; "" for any other.
func (o object) text(name string) string {
	var s string
	if raw := o[name]; len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func (o object) object(name string) object { return parseObject(o[name]) }

// list returns a member that is an array; nil for any other.
func (o object) list(name string) []json.RawMessage { return parseList(o[name]) }

func parseList(raw []byte) (list []json.RawMessage) {
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

func (o object) truth(name string) bool { return string(o[name]) == "true" }

// time returns a member that is a time: RFC 3339, SQLite's form in UTC, or a number of seconds, milliseconds,
// microseconds or nanoseconds, by its size. It is zero for anything else, and for times before 1971.
func (o object) time(name string) time.Time { return parseTime(o[name]) }

func parseTime(raw []byte) (at time.Time) {
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		at = timeOf(s)
	} else {
		at = timeOf(string(raw))
	}
	return at
}

func timeOf(s string) (at time.Time) {
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999",
		"2006-01-02 15:04:05.999999999Z07:00", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			at = t
			break
		}
	}
	var n json.Number
	if at.IsZero() && json.Unmarshal([]byte(s), &n) == nil {
		if f, err := n.Float64(); err == nil && f > 0 && f < 1e20 {
			at = unixTime(f)
		}
	}
	if at = at.UTC().Truncate(time.Millisecond); at.Year() < 1971 || at.Year() > 2200 {
		return time.Time{}
	}
	return at
}

func unixTime(f float64) time.Time {
	switch {
	case f < 1e11:
		return time.UnixMicro(int64(f * 1e6))
	case f < 1e14:
		return time.UnixMicro(int64(f * 1e3))
	case f < 1e17:
		return time.UnixMicro(int64(f))
	}
	return time.Unix(0, int64(f))
}

// encode returns JSON without escapes for HTML.
func encode(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null") // only for values that are no JSON, which no caller passes
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// contentID returns 16 hexadecimal digits of the SHA-256 of a value as JSON with sorted names and no spaces.
func contentID(raw []byte) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err == nil {
		raw = encode(v)
	}
	return shortHash(raw)
}

func shortHash(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// maxID is the maximum size of an id, in bytes, without the room for the number of a fork.
const maxID = 120

// cutID returns an id that Mneme takes: one that is too long is cut and ends with its hash, and control characters go.
func cutID(id string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r == 0x2028 || r == 0x2029 {
			return '_'
		}
		return r
	}, id)
	if clean = strings.TrimSpace(clean); clean == "" || clean == "." || clean == ".." {
		return "id-" + shortHash([]byte(id))
	}
	if len(clean) > maxID {
		return cutText(clean, maxID-17) + "-" + shortHash([]byte(id))
	}
	return clean
}

// cutText returns at most n bytes of a text, whole characters.
func cutText(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
