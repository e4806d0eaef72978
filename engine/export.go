package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"time"
)

// A tenant's file is NDJSON: a header, one record a line, and a last line with counts and the SHA-256 over all bytes
// before it. Keys of the API, decisions and the audit log are not part of it: secrets do not leave the server, and the
// others tell of this server alone.
const exportVersion = 1

// fileLine begins each line but the header.
type fileLine struct {
	Type string `json:"type"`
}

type fileHeader struct {
	Version int       `json:"mneme_export"`
	Tenant  string    `json:"tenant"`
	At      time.Time `json:"created_at"`
}

// fileTrailer is the last line. A file without it is not whole.
type fileTrailer struct {
	fileLine
	Records map[string]int `json:"records"` // by type
	SHA256  string         `json:"sha256"`
}

const trailerType = "end"

// portable is one kind of data of a tenant's file. On import each line of its types is checked first, in the order of
// the file, and only when the whole file has passed is any stored.
type portable struct {
	types  []string
	export func(x *exporting) error
	check  func(im *importing, line *importLine) error
	store  func(im *importing, line *importLine) error
}

// portable lists all that a tenant's file holds, in its order: what others name comes before them.
func (e *Engine) portable() []portable {
	return []portable{
		{[]string{"policy", "policy_module"}, exportPolicies, checkPolicy, storePolicy},
		{[]string{"project"}, exportProjects, checkProject, storeProject},
		{[]string{"session", "turn", "session_end"}, exportSessions, checkSession, storeSession},
		{[]string{memoryType}, exportMemories, checkMemory, storeMemory},
		{[]string{"board", "board_agent", "board_entry", "board_end"}, exportBoards, checkBoard, storeBoard},
	}
}

// exporting is a tenant's file on its way out.
type exporting struct {
	ctx     context.Context
	e       *Engine
	caller  Caller
	w       io.Writer
	sum     hash.Hash
	records map[string]int
	line    bytes.Buffer
}

// ExportTenant writes a tenant's file to w, in bounded memory. A session that is deleted meanwhile is left out; what is
// written meanwhile may be in it or not, each turn whole.
func (e *Engine) ExportTenant(ctx context.Context, c Caller, w io.Writer) error {
	if err := c.wholeTenant(); err != nil {
		return err
	}
	x := &exporting{ctx: ctx, e: e, caller: c, w: w, sum: sha256.New(), records: map[string]int{}}
	if err := x.write(fileHeader{exportVersion, c.Tenant, e.now()}); err != nil {
		return err
	}
	for _, kind := range e.portable() {
		if err := kind.export(x); err != nil {
			return err
		}
	}
	return x.write(fileTrailer{fileLine{trailerType}, x.records, hex.EncodeToString(x.sum.Sum(nil))})
}

// MayExport tells whether a caller may have its tenant's file, before the first byte of it is written.
func (e *Engine) MayExport(c Caller) error { return c.wholeTenant() }

// put writes one record.
func (x *exporting) put(kind string, record any) error {
	x.records[kind]++
	return x.write(record)
}

func (x *exporting) write(record any) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	x.line.Reset()
	enc := json.NewEncoder(&x.line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(record); err != nil {
		return err
	}
	return x.send()
}

// send writes the line at hand, which ends with a newline.
func (x *exporting) send() error {
	x.sum.Write(x.line.Bytes())
	_, err := x.w.Write(x.line.Bytes())
	return err
}
