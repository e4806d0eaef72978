package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxWindow limits the memory for reading a file, in bytes, whatever the file says. Write needs half of it.
const maxWindow = 8 << 20

// Read reads a file to its end and calls fn, if not nil, with every record. The file is complete, and the records
// passed to fn are what was written, only if the error is nil. Other errors are ErrNotBackup, ErrCut, ErrCorrupt, or
// fn's own.
func Read(r io.Reader, fn func(Record) error) (Summary, error) {
	var first [len(magic)]byte
	if _, err := io.ReadFull(r, first[:]); err != nil || string(first[:]) != magic {
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrNotBackup
		}
		return Summary{}, err
	}
	from := &source{r: r}
	plain, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return Summary{}, err
	}
	defer plain.Close()
	in := &reader{source: from, r: bufio.NewReaderSize(plain, 64<<10), sum: sha256.New()}
	for {
		more, err := in.entry(fn)
		if err != nil {
			return in.total, in.wording(err)
		}
		if !more {
			return in.total, nil
		}
	}
}

type reader struct {
	source *source
	r      *bufio.Reader
	sum    hash.Hash
	total  Summary
	begun  bool
	record Record
	final  error // returned unchanged; nil: wording chooses the error
}

// wording converts errors of the layers below to the errors of Read.
func (r *reader) wording(err error) error {
	switch {
	case r.final != nil:
		return r.final
	case r.source.err != nil:
		return r.source.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrCut
	case errors.Is(err, ErrCorrupt):
		return err
	}
	return fmt.Errorf("%w (%w)", ErrCorrupt, err)
}

// source remembers why reading failed, because decoders hide the cause.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.err = err
	}
	return n, err
}

// entry reads one entry and reports whether more must follow.
func (r *reader) entry(fn func(Record) error) (more bool, err error) {
	kind, err := r.r.ReadByte()
	if err != nil {
		return false, err
	}
	if kind == kindEnd {
		return false, r.end()
	}
	r.sum.Write([]byte{kind})
	if !r.begun != (kind == kindHeader) {
		return false, ErrCorrupt
	}
	switch kind {
	case kindHeader:
		r.begun = true
		return true, r.header()
	case kindTenant:
		name, err := r.bytes(nil, store.MaxTenant)
		r.record.Tenant = string(name)
		r.total.Spaces++
		return true, err
	case kindRecord, kindDamaged:
		return true, r.item(kind == kindDamaged, fn)
	}
	return false, ErrCorrupt
}

func (r *reader) header() error {
	version, err := r.number()
	if err != nil {
		return err
	}
	if version == 1 { // version 1 had no layout
		r.final = &store.LayoutError{What: "the backup"}
		return r.final
	}
	if version != formatVersion {
		r.final = fmt.Errorf("the backup is of format %d; this program reads format %d", version, formatVersion)
		return r.final
	}
	layout, err := r.number()
	if err != nil {
		return err
	}
	if layout != store.Layout {
		r.final = &store.LayoutError{What: "the backup", Layout: int(layout)}
		return r.final
	}
	at, err := r.number()
	if err != nil {
		return err
	}
	writer, err := r.bytes(nil, maxText)
	r.total.Header = Header{CreatedAt: time.UnixMilli(int64(at)).UTC(), Writer: string(writer), Layout: int(layout)}
	return err
}

func (r *reader) item(damaged bool, fn func(Record) error) (err error) {
	it := &r.record.Item
	if r.total.Spaces == 0 {
		return ErrCorrupt
	}
	if it.Key, err = r.bytes(it.Key[:0], store.MaxKey); err != nil {
		return err
	}
	value := it.Value[:0]
	it.Damaged = damaged
	if damaged {
		r.total.Damaged++
	} else {
		if value, err = r.bytes(value, store.MaxValue); err != nil {
			return err
		}
		r.total.Records++
		r.total.Bytes += uint64(len(it.Key) + len(value))
	}
	it.Value = value
	if fn != nil {
		given := r.record
		if damaged {
			given.Value = nil
		}
		r.final = fn(given)
	}
	return r.final
}

// end compares what was read with the counts and the checksum at the file's end. Nothing may follow it.
func (r *reader) end() error {
	want := r.sum.Sum(nil)
	for _, counted := range [...]uint64{r.total.Spaces, r.total.Records, r.total.Damaged} {
		if n, err := r.number(); err != nil {
			return err
		} else if n != counted {
			return ErrCorrupt
		}
	}
	var sum [sha256.Size]byte
	if _, err := io.ReadFull(r.r, sum[:]); err != nil {
		return err
	}
	if !r.begun || !bytes.Equal(sum[:], want) {
		return ErrCorrupt
	}
	if _, err := r.r.ReadByte(); err == nil {
		return ErrCorrupt
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (r *reader) number() (uint64, error) {
	n, err := binary.ReadUvarint(r.r)
	if err == nil {
		r.sum.Write(binary.AppendUvarint(nil, n))
	}
	return n, err
}

func (r *reader) bytes(dst []byte, most int) ([]byte, error) {
	n, err := r.number()
	if err != nil {
		return dst, err
	}
	if n > uint64(most) {
		return dst, ErrCorrupt
	}
	if uint64(cap(dst)) < n {
		dst = make([]byte, n)
	}
	dst = dst[:n]
	if _, err := io.ReadFull(r.r, dst); err != nil {
		return dst, err
	}
	r.sum.Write(dst)
	return dst, nil
}
