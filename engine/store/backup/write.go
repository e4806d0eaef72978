package backup

import (
	"context"
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

// Write writes a snapshot of a sealed store to w and returns a summary. It uses little memory for any amount of data,
// and takes as long as w does. If it fails, the output has no end and Read refuses it.
func Write(ctx context.Context, w io.Writer, s store.Store, h Header) (Summary, error) {
	if _, err := io.WriteString(w, magic); err != nil {
		return Summary{}, err
	}
	// One goroutine and the fastest level, because the server has other work.
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return Summary{}, err
	}
	out := &writer{w: compressed, sum: sha256.New(), total: Summary{Header: h}}
	err = out.header(h)
	if err == nil {
		err = store.Snapshot(ctx, s, out.record)
	}
	if err == nil {
		err = out.end()
	}
	if err != nil {
		compressed.Reset(io.Discard) // keeps Close from writing an end to w
	}
	return out.total, errors.Join(err, compressed.Close())
}

type writer struct {
	w      io.Writer
	sum    hash.Hash
	total  Summary
	tenant string
	buf    []byte
}

func (w *writer) header(h Header) error {
	if len(h.Writer) > maxText {
		return fmt.Errorf("a version of %d bytes", len(h.Writer))
	}
	b := binary.AppendUvarint([]byte{kindHeader}, formatVersion)
	b = binary.AppendUvarint(b, uint64(h.Layout))
	b = binary.AppendUvarint(b, uint64(max(0, h.CreatedAt.UnixMilli())))
	return w.write(appendString(b, h.Writer))
}

func (w *writer) record(tenant string, it store.Item) error {
	b := w.buf[:0]
	if w.total.Spaces == 0 || tenant != w.tenant {
		b = appendString(append(b, kindTenant), tenant)
		w.tenant = tenant
		w.total.Spaces++
	}
	if it.Damaged {
		b = appendString(append(b, kindDamaged), it.Key)
		w.total.Damaged++
	} else {
		b = appendString(append(b, kindRecord), it.Key)
		b = appendString(b, it.Value)
		w.total.Records++
		w.total.Bytes += uint64(len(it.Key) + len(it.Value))
	}
	w.buf = b
	return w.write(b)
}

func (w *writer) end() error {
	sum := w.sum.Sum(nil)
	b := []byte{kindEnd}
	for _, n := range [...]uint64{w.total.Spaces, w.total.Records, w.total.Damaged} {
		b = binary.AppendUvarint(b, n)
	}
	_, err := w.w.Write(append(b, sum...))
	return err
}

func (w *writer) write(b []byte) error {
	w.sum.Write(b)
	_, err := w.w.Write(b)
	return err
}

func appendString[S string | []byte](dst []byte, s S) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Created returns the header of a file that is begun now.
func Created(now time.Time, writer string) Header {
	return Header{CreatedAt: now.UTC().Truncate(time.Millisecond), Writer: writer[:min(len(writer), maxText)],
		Layout: store.Layout}
}
