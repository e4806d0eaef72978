package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Exporting is an export of a tenant's file.
type Exporting struct {
	Ctx     context.Context
	Caller  ident.Caller
	db      *records.DB
	to      io.Writer
	sum     hash.Hash
	records map[string]int // written so far, by type
	line    bytes.Buffer
}

// MayExport returns key_narrowed if a caller may not export its tenant. Call it before the first byte of the file is
// written.
func (svc *Service) MayExport(c ident.Caller) error { return c.WholeTenant() }

// ExportFile writes a tenant's file with the parts, in their order. It returns key_narrowed.
func (svc *Service) ExportFile(ctx context.Context, c ident.Caller, w io.Writer, parts []Part) error {
	if err := svc.MayExport(c); err != nil {
		return err
	}
	x := &Exporting{Ctx: ctx, Caller: c, db: svc.db, to: w, sum: sha256.New(), records: map[string]int{}}
	if err := x.write(fileHeader{exportVersion, store.Layout, c.Tenant, svc.db.Now()}); err != nil {
		return err
	}
	for _, part := range parts {
		if err := part.Export(x); err != nil {
			return err
		}
	}
	return x.write(fileTrailer{FileLine{trailerType}, x.records, hex.EncodeToString(x.sum.Sum(nil))})
}

// Put writes one record, a struct that embeds FileLine.
func (x *Exporting) Put(record interface{ kind() string }) error {
	x.records[record.kind()]++
	return x.write(record)
}

// PutRaw writes one record of a type, given as pieces of JSON.
func (x *Exporting) PutRaw(kind string, pieces ...[]byte) error {
	x.records[kind]++
	x.line.Reset()
	for _, p := range pieces {
		x.line.Write(p)
	}
	x.line.WriteByte('\n')
	return x.send()
}

func (x *Exporting) write(record any) error {
	x.line.Reset()
	enc := json.NewEncoder(&x.line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(record); err != nil {
		return err
	}
	return x.send()
}

// send writes the current line, which ends with a newline.
func (x *Exporting) send() error {
	if err := x.Ctx.Err(); err != nil {
		return err
	}
	x.sum.Write(x.line.Bytes())
	_, err := x.to.Write(x.line.Bytes())
	return err
}

// EachExported visits the JSON records of a range. A damaged record ends the export with an error.
func EachExported[T any](x *Exporting, rng store.Range, visit func(*T) error) error {
	for rec, err := range records.Each[T](x.Ctx, x.db, x.Caller.Tenant, rng) {
		if err != nil {
			return err
		}
		if err := visit(rec.Value); err != nil {
			return err
		}
	}
	return nil
}
