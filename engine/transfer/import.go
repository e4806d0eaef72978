package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Maximum sizes in bytes: of a tenant's file, and of one line, which contains at most a turn.
const (
	maxImport     = 64 << 30
	maxImportLine = 192 << 20
)

// ImportSpec says how to import a tenant's file. OnConflict is empty or "fail": if a name is taken, nothing is
// imported.
type ImportSpec struct {
	OnConflict string
}

// ImportReport counts the projects, sessions, memories, boards and policies of a file that were imported.
type ImportReport struct {
	Imported map[string]int `json:"imported"`
	Records  map[string]int `json:"records"` // lines of the file, by type
}

// Importing is an import of a tenant's file.
type Importing struct {
	Ctx       context.Context
	Caller    ident.Caller
	Names     NameSet // of the things checked so far, each with its kind
	db        *records.DB
	parts     []Part
	digest    [sha256.Size]byte
	progress  ImportProgress
	resumed   int            // lines that an earlier import of the file has stored
	records   map[string]int // read so far, by type
	conflicts int            // number of names that are taken
	refusal   *fault.Error   // of the file, because of conflicts; nil if there are none
}

// ImportFile imports a tenant's file into its parts; done adds to the last commit. It returns key_narrowed,
// invalid_value for a wrong on_conflict, body_too_large, disk_full, import_conflict if a name is taken or another
// request is importing the same file, and the errors of the parts and of the file format, with the line number in the
// detail: invalid_export, unknown_record, export_incomplete, checksum_mismatch, line_too_long.
func (svc *Service) ImportFile(ctx context.Context, c ident.Caller, once ident.Once, spec ImportSpec, body io.Reader,
	parts []Part, done func(*records.Tx, ImportReport) error) (ImportReport, error) {
	if err := c.WholeTenant(); err != nil {
		return ImportReport{}, err
	}
	if spec.OnConflict != "" && spec.OnConflict != "fail" {
		return ImportReport{}, fault.InvalidField("on_conflict", "invalid_value",
			"must be fail: a name that is taken is neither skipped nor replaced; an import that was broken off "+
				"continues when the same file is sent again")
	}
	file, sum, err := svc.spool(ctx, body)
	if err != nil {
		return ImportReport{}, err
	}
	defer func() { _, _ = file.Close(), os.Remove(file.Name()) }()
	once.Body = sha256.Sum256(append(once.Body[:], sum...))
	if prior, found, err := records.GivenBefore[ImportReport](ctx, svc.db, c, once); found || err != nil {
		return prior, err
	}
	im := &Importing{Ctx: ctx, Caller: c, Names: NameSet{}, db: svc.db, parts: parts, digest: [sha256.Size]byte(sum)}
	if im.progress, err = importProgress(im.Tx(), im.digest); err != nil {
		return ImportReport{}, err
	}
	im.resumed = im.progress.Lines
	if err := im.check(file); err != nil {
		return ImportReport{}, err
	}
	if err := im.store(file); err != nil {
		return ImportReport{}, err
	}
	return records.Update(ctx, svc.db, c, once, func(t *records.Tx) (ImportReport, error) {
		out := ImportReport{im.progress.Imported, im.records}
		if err := im.progress.finish(t, im.digest); err != nil {
			return out, err
		}
		return out, done(t, out)
	})
}

// spool writes a body to disk, so that it can be read twice, and returns its SHA-256.
func (svc *Service) spool(ctx context.Context, body io.Reader) (*os.File, []byte, error) {
	f, err := os.CreateTemp(svc.spoolDir, "import-*.ndjson")
	if err != nil {
		return nil, nil, err
	}
	_ = os.Remove(f.Name()) // if an open file can be removed, it disappears even after a crash
	sum := sha256.New()
	const piece = 1 << 20
	for size := int64(0); ; {
		if err = svc.room(); err == nil {
			err = ctx.Err()
		}
		if err != nil {
			break
		}
		n, cerr := io.CopyN(io.MultiWriter(f, sum), body, piece)
		size += n
		if errors.Is(cerr, io.EOF) {
			return f, sum.Sum(nil), nil
		}
		if err = cerr; err != nil {
			break
		}
		if size > maxImport {
			err = fault.Errorf(fault.TooLarge, "body_too_large", "a tenant's file may have at most %d bytes",
				int64(maxImport))
			break
		}
	}
	_, _ = f.Close(), os.Remove(f.Name())
	return nil, nil, err
}

// Spool writes a body to disk, as files of other programs are. The file is gone when it is closed. It returns disk_full
// and body_too_large.
func (svc *Service) Spool(ctx context.Context, body io.Reader) (*os.File, error) {
	f, _, err := svc.spool(ctx, body)
	return f, err
}

// SpoolDir is the folder for what is unpacked while it is imported; "" is the system's. Room returns disk_full if the
// disk of the store is almost full.
func (svc *Service) SpoolDir() string { return svc.spoolDir }

func (svc *Service) Room() error { return svc.room() }

// room returns disk_full if the disk of the store is almost full.
func (svc *Service) room() error {
	if r, ok := svc.db.Store.(interface{ Room() error }); ok && r.Room() != nil {
		return records.DiskFull()
	}
	return nil
}

// Tx returns a transaction for reading only.
func (im *Importing) Tx() *records.Tx { return im.db.Begin(im.Ctx, im.Caller.Tenant) }

// Claim records the name of something in the file. It returns repeated if the name occurs twice.
func (im *Importing) Claim(kind string, name ...string) error {
	if !im.Names.Add(append(name, kind)...) {
		return fault.Errorf(fault.Invalid, "repeated", "%s %q comes twice", kind, name)
	}
	return nil
}

// Needs returns an error, such as unknown_project, if nothing of this kind and name came earlier in the file.
func (im *Importing) Needs(kind, name string) error {
	if !im.Names.Has(name, kind) {
		return fault.InvalidField(kind, "unknown_"+kind, "no %s %q comes before it in the file", kind, name)
	}
	return nil
}

// Conflict records that the name of something in the file is taken, unless this import has taken it.
func (im *Importing) Conflict(line *ImportLine, format string, args ...any) {
	const named = 20
	if line.Stored {
		return
	}
	if im.refusal == nil {
		im.refusal = fault.Errorf(fault.Conflict, "import_conflict", "")
	}
	if im.conflicts++; im.conflicts <= named {
		im.refusal.Fields = append(im.refusal.Fields,
			fault.FieldError{Code: "exists", Detail: fmt.Sprintf(format, args...)})
	}
}

// check reads the whole file and stores nothing.
func (im *Importing) check(file io.ReadSeeker) error {
	if err := im.each(file, false, Part.Check); err != nil {
		return err
	}
	if im.refusal != nil {
		im.refusal.Detail = fmt.Sprintf("%d things in the file clash with what is stored, the first being: %s; "+
			"nothing was imported; delete or rename what is in the way", im.conflicts, im.refusal.Fields[0].Detail)
		return im.refusal
	}
	for _, part := range im.parts {
		if err := part.Fits(im); err != nil {
			return err
		}
	}
	return nil
}

// store reads the file again and stores its contents.
func (im *Importing) store(file io.ReadSeeker) error {
	err := im.each(file, true, Part.Store)
	if err != nil {
		for _, part := range im.parts {
			part.Abandon(context.WithoutCancel(im.Ctx))
		}
	}
	return err
}

// Commit stores what do collects and, in the same commit, that the file is stored up to a line. do returns how many
// things of the kind it stores.
func (im *Importing) Commit(kind string, line int, do func(*records.Tx) (n int, err error)) error {
	next, err := records.Update(im.Ctx, im.db, im.Caller, ident.Once{}, func(t *records.Tx) (ImportProgress, error) {
		next, err := im.progress.advance(t, im.digest, line)
		if err != nil {
			return next, err
		}
		n, err := do(t)
		if err != nil {
			return next, err
		}
		if n > 0 {
			next.Imported[kind] += n
		}
		return next, t.PutJSON(records.Import.Key(im.digest), next)
	})
	if err == nil {
		im.progress = next
	}
	return err
}

// ImportProgress is the record of an import in progress, keyed by the file's SHA-256. It exists from the first commit
// to the last. If the same file is sent again, the import continues where it was interrupted. The record expires after
// a day. After that, what the import has stored conflicts with the same file like anything else.
type ImportProgress struct {
	Lines    int            `json:"lines"` // all lines up to this one are stored
	Imported map[string]int `json:"imported"`
	Until    time.Time      `json:"until"`
}

// importProgress reads the progress of the import of a file.
func importProgress(t *records.Tx, digest [sha256.Size]byte) (p ImportProgress, err error) {
	stored, err := records.GetTx[ImportProgress](t, records.Import.Key(digest))
	if stored != nil {
		p = *stored
	}
	if p.Imported == nil {
		p.Imported = map[string]int{}
	}
	return p, err
}

// advance returns the progress up to a line. It returns import_conflict if another request has advanced the import. The
// commit of the first line also sets when the record expires.
func (p *ImportProgress) advance(t *records.Tx, digest [sha256.Size]byte, line int) (ImportProgress, error) {
	next, err := importProgress(t, digest)
	if err != nil {
		return next, err
	}
	if next.Lines != p.Lines {
		return next, fault.Errorf(fault.Conflict, "import_conflict",
			"another request imports this file, or this one took too long")
	}
	if next.Lines == 0 {
		next.Until = t.Now.Add(records.OnceLife)
		t.Put(records.Expiry.Key(next.Until, records.Import.Key(digest)), []byte{0})
	}
	next.Lines = line
	return next, nil
}

// finish removes the record, because everything is stored.
func (p *ImportProgress) finish(t *records.Tx, digest [sha256.Size]byte) error {
	now, err := importProgress(t, digest)
	if err == nil && now.Lines == p.Lines && p.Lines > 0 {
		t.Delete(records.Import.Key(digest))
		t.Delete(records.Expiry.Key(p.Until, records.Import.Key(digest)))
	}
	return err
}
