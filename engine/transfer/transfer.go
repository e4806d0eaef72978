// Package transfer moves a tenant as a file: it writes one, and imports one into another tenant.
//
// A tenant's file is NDJSON: a header, one record a line, and a last line with counts and the SHA-256 of all bytes
// before it. The API's keys, decisions and the audit log are not part of it, because secrets do not leave the server
// and the others tell of this server alone.
//
// This package knows the frame of such a file. What the lines say is each room's own: it hands a Part, which exports,
// checks and stores the lines of its types. The main idea is that an import reads the file twice. The first time, all
// of it is checked and nothing is stored, so that a fault in the last line leaves nothing behind. The second time, each
// thing is stored in a commit that also notes how far the import is, so that the same file, sent again, goes on if an
// import was broken off.
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

// New returns a Service. Files on their way in are kept in spoolDir; if it is empty, in the system's folder for such.
func New(db *records.DB, spoolDir string) *Service { return &Service{db: db, spoolDir: spoolDir} }

const exportVersion = 1

// fileHeader is the first line.
type fileHeader struct {
	Version int       `json:"mneme_export"`
	Tenant  string    `json:"tenant"`
	At      time.Time `json:"created_at"`
}

// FileLine begins each line but the header.
type FileLine struct {
	Type string `json:"type"`
}

func (l FileLine) kind() string { return l.Type }

// fileTrailer is the last line. A file without it is not whole.
type fileTrailer struct {
	FileLine
	Records map[string]int `json:"records"` // lines by type
	SHA256  string         `json:"sha256"`
}

const trailerType = "end"

// Part is what one room has in a tenant's file. Lines of its types come to it in the order of the file: first each to
// Check, and only when the whole file has passed each to Store. A part is made anew for each file and holds what it
// knows of that file.
type Part interface {
	// Types are the types of the part's lines.
	Types() []string
	// Export writes all that the part has.
	Export(x *Exporting) error
	// Check compares a line with what must be. It notes with Conflict what is taken already.
	Check(im *Importing, line *ImportLine) error
	// Fits asks the quota for all that was checked.
	Fits(im *Importing) error
	// Store stores a line, with Commit.
	Store(im *Importing, line *ImportLine) error
	// End comes, in both goes, when a run of the part's lines is over: nothing may be half begun.
	End(im *Importing) error
	// Abandon returns up what is half stored, because the import failed.
	Abandon(ctx context.Context)
}

// SimplePart is a part without a quota of its own, of which no line is half of something.
type SimplePart struct{}

func (SimplePart) Fits(*Importing) error   { return nil }
func (SimplePart) End(*Importing) error    { return nil }
func (SimplePart) Abandon(context.Context) {}

// NameSet is a set of names that takes 16 bytes each, however long they are. A name may have several parts.
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
