// Package transfer exports a tenant to a file, and imports such a file into another tenant.
//
// A tenant's file is NDJSON: a header, one record per line, and a last line with counts and the SHA-256 of all bytes
// before it. It does not contain API keys, which are secrets, nor decisions and the audit log, which describe this
// server only.
//
// This package defines the format around the records. The records belong to other packages: each provides a Part, which
// exports, checks and stores the lines of its types. An import reads the file twice. The first time, it checks
// everything and stores nothing, so that an error in the last line leaves nothing behind. The second time, each thing
// is stored in a commit that also records the progress of the import, so that an interrupted import continues when the
// same file is sent again.
package transfer

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service exports and imports tenants' files.
type Service struct {
	db       *records.DB
	spoolDir string
}

// New returns a Service. Files that are being imported are stored in spoolDir; if it is empty, in the system's
// temporary directory.
func New(db *records.DB, spoolDir string) *Service { return &Service{db: db, spoolDir: spoolDir} }

const exportVersion = 1

// fileHeader is the first line.
type fileHeader struct {
	Version int       `json:"mneme_export"`
	Layout  int       `json:"layout"` // of the records that it was exported from; a file is read whatever that is
	Tenant  string    `json:"tenant"`
	At      time.Time `json:"created_at"`
}

// FileLine is the common beginning of all lines except the header.
type FileLine struct {
	Type string `json:"type"`
}

func (l FileLine) kind() string { return l.Type }

// fileTrailer is the last line. A file without it is incomplete.
type fileTrailer struct {
	FileLine
	Records map[string]int `json:"records"` // lines by type
	SHA256  string         `json:"sha256"`
}

const trailerType = "end"

// Part is one package's part of a tenant's file. It gets the lines of its types in the order of the file: first each is
// passed to Check, and only when the whole file has been checked, each is passed to Store. A new Part is made for each
// file and holds state about that file.
type Part interface {
	// Types returns the types of the part's lines.
	Types() []string
	// Export writes everything that the part has.
	Export(x *Exporting) error
	// Check validates a line. It calls Conflict for names that are taken.
	Check(im *Importing, line *ImportLine) error
	// Fits checks the quota for everything that was checked.
	Fits(im *Importing) error
	// Store stores a line, with Commit.
	Store(im *Importing, line *ImportLine) error
	// End is called, in both passes, at the end of a run of the part's lines: nothing may be incomplete.
	End(im *Importing) error
	// Abandon removes what is half stored, because the import failed.
	Abandon(ctx context.Context)
}

// SimplePart is a part without a quota, each of whose lines is complete by itself.
type SimplePart struct{}

func (SimplePart) Fits(*Importing) error   { return nil }
func (SimplePart) End(*Importing) error    { return nil }
func (SimplePart) Abandon(context.Context) {}

// NameSet is a set of names that takes 16 bytes for each, whatever its length. A name may have several parts.
type NameSet map[[16]byte]bool

func nameSum(parts []string) [16]byte {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return [16]byte(sum[:16])
}

// Add adds a name and reports whether it is new.
func (s NameSet) Add(parts ...string) bool {
	n := len(s)
	s[nameSum(parts)] = true
	return len(s) > n
}

// Has reports whether a name is in the set.
func (s NameSet) Has(parts ...string) bool { return s[nameSum(parts)] }
