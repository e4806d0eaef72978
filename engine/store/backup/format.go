// Package backup writes a whole store to a file, from a snapshot, and restores an empty store from it.
//
// A file is magic, then one zstd stream of entries. An entry is one byte for its kind and what follows it; strings and
// numbers are uvarints, strings with their length in front:
//
//	H version layout created-unix-ms writer  once, first
//	T tenant                              the records behind it are this tenant's
//	R key value                           a record
//	D key                                 a record whose value failed its checksum: there is only its key
//	E spaces records damaged sha256       once, last: counts, and the SHA-256 of all that stands before its E
//
// A file without its end is not whole, whatever it holds.
package backup

import (
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// magic begins every file, of whatever version.
const magic = "MNEME\x00BK"

const formatVersion = 2

const (
	kindHeader  = 'H'
	kindTenant  = 'T'
	kindRecord  = 'R'
	kindDamaged = 'D'
	kindEnd     = 'E'
)

// Header is what a file says of itself.
type Header struct {
	CreatedAt time.Time
	Writer    string // the version of Mneme that wrote it
	Layout    int    // of the stored records, see store.Layout
}

// Summary counts what a file holds.
type Summary struct {
	Header
	Spaces  uint64 // of tenants and of the system, those with at least one record
	Records uint64
	Damaged uint64 // records left out because their values failed their checksums
	Bytes   uint64 // of keys and values
}

// maxText bounds the strings of a header, in bytes.
const maxText = 256

var (
	// ErrNotBackup is answered for a file that is something else.
	ErrNotBackup = errors.New("not a backup of Mneme")
	// ErrCut is answered for a file or stream that ends before its end.
	ErrCut = errors.New("the backup is cut short: it is not whole and cannot be used")
	// ErrCorrupt is answered for a file whose contents are not what was written.
	ErrCorrupt = errors.New("the backup is damaged: its contents are not what was written")
)

// Record is one stored pair, or one that was found damaged. Its bytes are good until the next one is read.
type Record struct {
	Tenant string
	store.Item
}
