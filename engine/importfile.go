package engine

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
)

// importLine is one record of the file.
type importLine struct {
	kind string
	raw  []byte
}

func (l *importLine) into(v any) error {
	dec := json.NewDecoder(bytes.NewReader(l.raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return errorf(Invalid, "invalid_export", "%s: %s", l.kind, err)
	}
	return nil
}

// each visits the records of a file with what is to be done with their kind, and holds the file against its trailer.
func (im *importing) each(file io.ReadSeeker, do func(*portable) func(*importing, *importLine) error) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	kinds := map[string]func(*importing, *importLine) error{}
	list := im.e.portable()
	for i := range list {
		for _, t := range list[i].types {
			kinds[t] = do(&list[i])
		}
	}
	in, sum := &lineReader{r: bufio.NewReaderSize(file, 1<<16)}, sha256.New()
	for number := 1; ; number++ {
		if err := im.ctx.Err(); err != nil {
			return err
		}
		raw, err := in.next()
		if err == io.EOF {
			return errorf(Invalid, "export_incomplete", "the file ends after %d lines without its last line; nothing was imported",
				number-1)
		}
		var last bool
		if err == nil {
			last, err = im.line(number, raw, sum.Sum(nil), kinds)
		}
		if err != nil {
			return atLine(number, err)
		}
		if last {
			if _, err := in.next(); err != io.EOF {
				return errorf(Invalid, "invalid_export", "line %d: there is more after the last line", number+1)
			}
			return nil
		}
		sum.Write(raw)
	}
}

// line takes one line of the file and tells whether it is the last.
func (im *importing) line(number int, raw, sum []byte, kinds map[string]func(*importing, *importLine) error) (last bool,
	err error) {
	if number == 1 {
		var h fileHeader
		if err := json.Unmarshal(raw, &h); err != nil || h.Version != exportVersion {
			return false, errorf(Invalid, "invalid_export", `a tenant's file begins with {"mneme_export":%d, …`, exportVersion)
		}
		return false, nil
	}
	var kind fileLine
	if err := json.Unmarshal(raw, &kind); err != nil {
		return false, errorf(Invalid, "invalid_export", "not JSON: %s", err)
	}
	if kind.Type != memoryType {
		if err := im.storeMemories(); err != nil {
			return false, err
		}
	}
	record := &importLine{kind.Type, raw}
	if kind.Type == trailerType {
		return true, im.finish(record, sum)
	}
	do := kinds[kind.Type]
	if do == nil {
		return false, errorf(Invalid, "unknown_record", "no record is of the type %q; a newer server may know it", kind.Type)
	}
	im.report.Records[kind.Type]++
	return false, do(im, record)
}

// finish holds what was read against what the last line says.
func (im *importing) finish(line *importLine, sum []byte) error {
	var t fileTrailer
	if err := line.into(&t); err != nil {
		return err
	}
	switch p := im.underWay; {
	case t.SHA256 != hex.EncodeToString(sum):
		return errorf(Invalid, "checksum_mismatch", "the file is not as it was written; export it again")
	case !maps.Equal(t.Records, im.report.Records):
		return errorf(Invalid, "checksum_mismatch", "the file says that it holds %v and holds %v", t.Records, im.report.Records)
	case im.session != nil:
		return errorf(Invalid, "invalid_export", "the last session has no end")
	case im.board != nil:
		return errorf(Invalid, "invalid_export", "the last board has no end")
	case p != nil && p.seen < len(p.line.Versions):
		return errorf(Invalid, "invalid_export", "policy %q lacks modules", p.line.Name)
	}
	return nil
}

// atLine says where in the file an error is.
func atLine(number int, err error) error {
	known, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	placed := *known
	placed.Detail = fmt.Sprintf("line %d: %s", number, known.Detail)
	return &placed
}

// lineReader reads lines of bounded length. A line is valid until the next.
type lineReader struct {
	r    *bufio.Reader
	line []byte
}

// next gives a line with its line break; io.EOF, where no byte is left.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		l.line = append(l.line, part...)
		switch {
		case len(l.line) > maxImportLine:
			return nil, errorf(TooLarge, "line_too_long", "a line may have at most %d bytes", maxImportLine)
		case err == nil, err == io.EOF && len(l.line) > 0:
			return l.line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
