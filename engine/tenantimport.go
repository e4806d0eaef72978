package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Bounds of a tenant's file, in bytes: of all of it, and of one line.
const (
	maxImport     = 64 << 30
	maxImportLine = 3 * maxFile
)

// What becomes of a project, session, memory, board or policy that exists already.
const (
	conflictFail    = "fail"    // nothing at all is imported
	conflictSkip    = "skip"    // it stays as it is
	conflictReplace = "replace" // the file's takes its place
)

// ImportSpec says how a tenant's file is to be imported. OnConflict is fail (also where it is empty), skip or replace.
type ImportSpec struct {
	OnConflict string
}

// ImportReport counts what became of a file's projects, sessions, memories, boards and policies.
type ImportReport struct {
	Imported map[string]int `json:"imported"`
	Skipped  map[string]int `json:"skipped"`
	Replaced map[string]int `json:"replaced"`
	Records  map[string]int `json:"records"` // lines of the file, by type
}

// importing is a tenant's file on its way in.
type importing struct {
	ctx    context.Context
	e      *Engine
	caller Caller
	mode   string
	report ImportReport

	projects     map[string]bool // that the file names so far
	policies     map[string]bool
	facts        map[plan.Digest]*PolicyFacts
	policyUsage  policyUsage
	messageBytes int64
	underWay     *policyImport
	session      *sessionImport
	lastSession  [2]string
	keys         keysSeen // of memories
	memories     amount   // that the file adds
	batch        memoryBatch
	board        *boardImport
	lastBoard    string
	conflicts    int
	refusal      *Error
}

// ImportTenant adds what a tenant's file holds to the caller's tenant. The file is first kept on disk and checked from
// its first line to its checksum; a fault anywhere, or with fail a conflict, stores nothing. Then project by project,
// session by session, memory by memory and so on is stored, each whole or not at all: a crash then leaves some, and the
// same file with skip adds
// the rest.
func (e *Engine) ImportTenant(ctx context.Context, c Caller, once Once, spec ImportSpec, body io.Reader) (ImportReport,
	error) {
	if err := c.wholeTenant(); err != nil {
		return ImportReport{}, err
	}
	if spec.OnConflict == "" {
		spec.OnConflict = conflictFail
	}
	if !slices.Contains([]string{conflictFail, conflictSkip, conflictReplace}, spec.OnConflict) {
		return ImportReport{}, invalidField("on_conflict", "invalid_value", "must be fail, skip or replace")
	}
	file, sum, err := e.spool(ctx, body)
	if err != nil {
		return ImportReport{}, err
	}
	defer func() { _, _ = file.Close(), os.Remove(file.Name()) }() // removed already where that is possible
	once.Body = sha256.Sum256(append(once.Body[:], sum...))
	if prior, found, err := givenBefore[ImportReport](ctx, e, c, once); found || err != nil {
		return prior, err
	}
	im := &importing{ctx: ctx, e: e, caller: c, mode: spec.OnConflict, facts: map[plan.Digest]*PolicyFacts{}}
	if err := im.check(file); err != nil {
		return ImportReport{}, err
	}
	if err := im.store(file); err != nil {
		return ImportReport{}, err
	}
	return update(ctx, e, c, once, func(t *tx) (ImportReport, error) {
		return im.report, t.audit(c, "tenant.import", c.Tenant, fmt.Sprintf("imported %v, skipped %v, replaced %v",
			im.report.Imported, im.report.Skipped, im.report.Replaced))
	})
}

// spool keeps a body on disk, so that it can be gone through twice, and gives its SHA-256.
func (e *Engine) spool(ctx context.Context, body io.Reader) (*os.File, []byte, error) {
	f, err := os.CreateTemp(e.spoolDir, "import-*.ndjson")
	if err != nil {
		return nil, nil, err
	}
	_ = os.Remove(f.Name()) // where an open file can be removed, no crash leaves it behind
	sum := sha256.New()
	const piece = 1 << 20
	for size := int64(0); ; {
		if err = e.room(); err == nil {
			err = ctx.Err()
		}
		if err != nil {
			break
		}
		n, cerr := io.CopyN(io.MultiWriter(f, sum), body, piece)
		if size += n; errors.Is(cerr, io.EOF) {
			return f, sum.Sum(nil), nil
		}
		if err = cerr; err != nil {
			break
		}
		if size > maxImport {
			err = errorf(TooLarge, "body_too_large", "a tenant's file may have at most %d bytes", int64(maxImport))
			break
		}
	}
	_, _ = f.Close(), os.Remove(f.Name())
	return nil, nil, err
}

// room refuses to fill the disk that the store writes to.
func (e *Engine) room() error {
	if r, ok := e.store.(interface{ Room() error }); ok && r.Room() != nil {
		return errorf(NoSpace, "disk_full", "the server's disk is nearly full; nothing was stored, reading goes on")
	}
	return nil
}

// tx is a transaction for reading, or one that is committed elsewhere.
func (im *importing) tx() *tx {
	return &tx{ctx: im.ctx, e: im.e, tenant: im.caller.Tenant, now: im.e.now()}
}

// conflict notes what exists already, where that is not to be skipped or replaced.
func (im *importing) conflict(format string, args ...any) {
	if im.mode == conflictFail {
		im.clash(format, args...)
	}
}

// clash notes what cannot be imported at all; skipping leaves it alone.
func (im *importing) clash(format string, args ...any) {
	const named = 20
	if im.mode == conflictSkip {
		return
	}
	if im.refusal == nil {
		im.refusal = errorf(Conflict, "import_conflict", "")
	}
	if im.conflicts++; im.conflicts <= named {
		im.refusal.Fields = append(im.refusal.Fields, FieldError{Code: "exists", Detail: fmt.Sprintf(format, args...)})
	}
}

func (im *importing) note(how, kind string) {
	counts := map[string]map[string]int{"imported": im.report.Imported, "skipped": im.report.Skipped,
		"replaced": im.report.Replaced}
	counts[how][kind]++
}

// check goes through the whole file and stores nothing.
func (im *importing) check(file io.ReadSeeker) error {
	im.begin()
	if err := im.each(file, func(p *portable) func(*importing, *importLine) error { return p.check }); err != nil {
		return err
	}
	if im.refusal != nil {
		im.refusal.Detail = fmt.Sprintf("%d things in the file clash with what is stored, the first being: %s; nothing was "+
			"imported; on_conflict=skip or replace says what to do", im.conflicts, im.refusal.Fields[0].Detail)
		return im.refusal
	}
	if err := im.e.checkQuota(im.ctx, im.caller, im.messageBytes); err != nil {
		return err
	}
	use := im.e.memoryUse.reserve(im.caller.Tenant)
	if err := im.e.holdMemories(im.ctx, use, im.memories); err != nil {
		return err
	}
	use.end(false)
	usage, err := im.tx().policyUsage()
	if err != nil || im.policyUsage.Versions == 0 {
		return err
	}
	usage.Versions += im.policyUsage.Versions - 1 // the quota is asked for one more
	return im.e.policyQuota.check(usage, int(im.policyUsage.Bytes))
}

// store goes through the file again and stores what it holds.
func (im *importing) store(file io.ReadSeeker) error {
	im.begin()
	err := im.each(file, func(p *portable) func(*importing, *importLine) error { return p.store })
	if s := im.session; err != nil && s != nil && s.staged != nil {
		im.e.abandon(context.WithoutCancel(im.ctx), im.caller.Tenant, s.staged)
	}
	if b := im.board; err != nil && b != nil && b.staged != nil {
		b.staged.abandon(context.WithoutCancel(im.ctx))
	}
	return err
}

func (im *importing) begin() {
	im.report = ImportReport{map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
	im.projects, im.policies = map[string]bool{}, map[string]bool{}
	im.underWay, im.session, im.board, im.lastSession, im.lastBoard = nil, nil, nil, [2]string{}, ""
	im.memories, im.batch, im.keys = amount{}, memoryBatch{}, keysSeen{}
}
