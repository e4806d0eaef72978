package transfer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// ImportLine is one record of the file.
type ImportLine struct {
	Kind   string // its type
	Number int    // the header is line 1
	Stored bool   // stored by an earlier import of the file, which was interrupted
	Passed bool   // already checked
	raw    []byte
}

// Into decodes the line. It returns invalid_export for an unknown field or a wrong type.
func (l *ImportLine) Into(v any) error {
	dec := json.NewDecoder(bytes.NewReader(l.raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fault.Errorf(fault.Invalid, "invalid_export", "%s: %s", l.Kind, err)
	}
	return nil
}

// Raw returns the line's JSON, an object. It is valid until the next line is read.
func (l *ImportLine) Raw() []byte { return l.raw }

// each reads a file from its start. It calls do for each line with the line's part, and compares the whole file with
// its last line. passed means that the file was read before.
func (im *Importing) each(file io.ReadSeeker, passed bool, do func(Part, *Importing, *ImportLine) error) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	of := map[string]Part{}
	for _, part := range im.parts {
		for _, t := range part.Types() {
			of[t] = part
		}
	}
	im.records = map[string]int{}
	in, sum := &lineReader{r: bufio.NewReaderSize(file, 1<<16)}, sha256.New()
	var at Part // the part whose lines are being read; nil before the first
	for number := 1; ; number++ {
		if err := im.Ctx.Err(); err != nil {
			return err
		}
		raw, err := in.next()
		if errors.Is(err, io.EOF) {
			return fault.Errorf(fault.Invalid, "export_incomplete",
				"the file ends after %d lines without its last line; nothing was imported", number-1)
		}
		line := &ImportLine{Number: number, raw: raw, Passed: passed,
			Stored: number <= im.resumed}
		if err == nil {
			line.Kind, err = line.readType()
		}
		part, last := of[line.Kind], line.Kind == trailerType
		if err == nil && number > 1 && part == nil && !last {
			err = fault.Errorf(fault.Invalid, "unknown_record",
				"no record is of the type %q; a newer server may know it", line.Kind)
		}
		if err == nil && at != nil && part != at {
			err = at.End(im)
		}
		at = part
		if err == nil && part != nil {
			im.records[line.Kind]++
			err = do(part, im, line)
		}
		if err == nil && last {
			err = im.finish(line, sum.Sum(nil))
		}
		if err != nil {
			return atLine(number, err)
		}
		if last {
			if _, err := in.next(); !errors.Is(err, io.EOF) {
				return fault.Errorf(fault.Invalid, "invalid_export", "line %d: there is more after the last line",
					number+1)
			}
			return nil
		}
		sum.Write(raw)
	}
}

// readType returns the type of a line. The first line is the header, which has none.
func (l *ImportLine) readType() (string, error) {
	if l.Number == 1 {
		var h fileHeader
		if err := json.Unmarshal(l.raw, &h); err != nil || h.Version != exportVersion {
			return "", fault.Errorf(fault.Invalid, "invalid_export",
				`a tenant's file begins with {"mneme_export":%d, …`, exportVersion)
		}
		return "", nil
	}
	if !l.Passed && !rawjson.Valid(l.raw) {
		err := json.Unmarshal(l.raw, &FileLine{}) // says what is wrong
		return "", fault.Errorf(fault.Invalid, "invalid_export", "not JSON: %v", err)
	}
	o, twice, ok := rawjson.ReadObject(bytes.TrimSpace(l.raw))
	kind, isText := rawjson.String(o.Get("type"))
	if !ok || twice != nil || !isText {
		return "", fault.Errorf(fault.Invalid, "invalid_export", "a line is an object with a type, and each name once")
	}
	if l.Passed {
		return kind, nil
	}
	if !rawjson.NumbersReadable(l.raw) {
		return "", fault.Errorf(fault.Invalid, "unreadable_number", "a number is one that many JSON parsers cannot read")
	}
	if rawjson.LoneSurrogate(l.raw) {
		return "", fault.Errorf(fault.Invalid, "lone_surrogate", "a text has half of a UTF-16 pair, which is not a character")
	}
	return kind, nil
}

// finish compares what was read with the last line. It returns checksum_mismatch.
func (im *Importing) finish(line *ImportLine, sum []byte) error {
	var t fileTrailer
	if err := line.Into(&t); err != nil {
		return err
	}
	if t.SHA256 != hex.EncodeToString(sum) {
		return fault.Errorf(fault.Invalid, "checksum_mismatch", "the file is not as it was written; export it again")
	}
	if !maps.Equal(t.Records, im.records) {
		return fault.Errorf(fault.Invalid, "checksum_mismatch",
			"the file says that it holds %v and holds %v", t.Records, im.records)
	}
	return nil
}

// atLine adds the number of the line to the front of an error's detail.
func atLine(number int, err error) error {
	known, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	placed := *known
	placed.Detail = fmt.Sprintf("line %d: %s", number, known.Detail)
	return &placed
}

// lineReader reads lines of at most maxImportLine bytes. A line is valid until the next one is read.
type lineReader struct {
	r    *bufio.Reader
	line []byte
}

// next returns a line with its line break, or io.EOF if no byte is left. It returns line_too_long.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		l.line = append(l.line, part...)
		switch {
		case len(l.line) > maxImportLine:
			return nil, fault.Errorf(fault.TooLarge, "line_too_long", "a line may have at most %d bytes", maxImportLine)
		case err == nil, err == io.EOF && len(l.line) > 0:
			return l.line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
