package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A tenant's file is NDJSON: a header, one record a line, and a last line with counts and the SHA-256 over all bytes
// before it. Keys of the API, decisions and the audit log are not part of it: secrets do not leave the server, and the
// others tell of this server alone.
const exportVersion = 1

// FileLine begins each line but the header.
type FileLine struct {
	Type string `json:"type"`
}

func (l FileLine) kind() string { return l.Type }

type fileHeader struct {
	Version int       `json:"mneme_export"`
	Tenant  string    `json:"tenant"`
	At      time.Time `json:"created_at"`
}

// fileTrailer is the last line. A file without it is not whole.
type fileTrailer struct {
	FileLine
	Records map[string]int `json:"records"` // by type
	SHA256  string         `json:"sha256"`
}

const trailerType = "end"

// Part is what one room has in a tenant's file. Lines of its types come to it in the order of the file, first
// each to check, and only when the whole file has passed each to store. What a part knows of the file under way is in
// the part, which is made anew for each file.
type Part interface {
	Types() []string
	Export(x *Exporting) error
	// check holds a line against what must be. It notes with conflict what is taken already.
	Check(im *Importing, line *ImportLine) error
	// fits asks the quota for all that was checked.
	Fits(im *Importing) error
	Store(im *Importing, line *ImportLine) error
	// end comes, in both goes, when a run of the part's lines is over: nothing may be half begun.
	End(im *Importing) error
	// abandon gives up what is half stored, because the import failed.
	Abandon(ctx context.Context)
}

// SimplePart is a part without a quota of its own, of which no line is half of something.
type SimplePart struct{}

func (SimplePart) Fits(*Importing) error   { return nil }
func (SimplePart) End(*Importing) error    { return nil }
func (SimplePart) Abandon(context.Context) {}

// Exporting is a tenant's file on its way out.
type Exporting struct {
	Ctx     context.Context
	Caller  access.Caller
	from    store.Store
	to      io.Writer
	sum     hash.Hash
	records map[string]int
	line    bytes.Buffer
}

// ExportFile writes a tenant's file of the parts.
func (svc *Service) ExportFile(ctx context.Context, c access.Caller, w io.Writer, parts []Part) error {
	if err := c.WholeTenant(); err != nil {
		return err
	}
	x := &Exporting{Ctx: ctx, Caller: c, from: svc.db.Store, to: w, sum: sha256.New(), records: map[string]int{}}
	if err := x.write(fileHeader{exportVersion, c.Tenant, svc.db.Now()}); err != nil {
		return err
	}
	for _, part := range parts {
		if err := part.Export(x); err != nil {
			return err
		}
	}
	return x.write(fileTrailer{FileLine{trailerType}, x.records, hex.EncodeToString(x.sum.Sum(nil))})
}

// MayExport tells whether a caller may have its tenant's file, before the first byte of it is written.
func (svc *Service) MayExport(c access.Caller) error { return c.WholeTenant() }

// Put writes one record.
func (x *Exporting) Put(record interface{ kind() string }) error {
	x.records[record.kind()]++
	return x.write(record)
}

// PutRaw writes one record that is encoded already.
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

// send writes the line at hand, which ends with a newline.
func (x *Exporting) send() error {
	if err := x.Ctx.Err(); err != nil {
		return err
	}
	x.sum.Write(x.line.Bytes())
	_, err := x.to.Write(x.line.Bytes())
	return err
}

// EachExported visits the JSON records under a prefix, a page at a time.
func EachExported[T any](x *Exporting, prefix []byte, visit func(*T) error) error {
	rng := records.PrefixRange(prefix)
	rng.Limit = 64
	for {
		r, err := x.from.Read(x.Ctx, x.Caller.Tenant, store.Query{Ranges: []store.Range{rng}})
		if err != nil {
			return err
		}
		for _, it := range r.Ranges[0] {
			if it.Damaged {
				return records.ErrDamaged
			}
			record := new(T)
			if err := json.Unmarshal(it.Value, record); err != nil {
				return err
			}
			if err := visit(record); err != nil {
				return err
			}
			rng.From = append(it.Key, 0)
		}
		if len(r.Ranges[0]) < rng.Limit {
			return nil
		}
	}
}

// NameSet tells names apart that come again, at 16 bytes each however long they are.
type NameSet map[[16]byte]bool

func nameSum(parts []string) [16]byte {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return [16]byte(sum[:16])
}

// Add tells whether a name is new.
func (s NameSet) Add(parts ...string) bool {
	n := len(s)
	s[nameSum(parts)] = true
	return len(s) > n
}

func (s NameSet) Has(parts ...string) bool { return s[nameSum(parts)] }
