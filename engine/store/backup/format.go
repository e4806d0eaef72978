// Package backup writes a whole store to a file, from a snapshot, and restores an empty store from it.
//
// A file is magic, then one zstd stream of entries. An entry is one byte for its kind and its fields; strings and
// numbers are uvarints, strings preceded by their length:
//
//	H version layout created-unix-ms writer  once, first
//	T tenant                              the following records belong to this tenant
//	R key value                           a record
//	D key                                 a record whose value failed its checksum: only its key is kept
//	E spaces records damaged sha256       once, last: counts, and the SHA-256 of everything before its E
//
// A file without its end is incomplete, whatever it holds.
package backup

import (
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// magic begins every file, of any version.
const magic = "MNEME\x00BK"

const formatVersion = 2

const (
	kindHeader  = 'H'
	kindTenant  = 'T'
	kindRecord  = 'R'
	kindDamaged = 'D'
	kindEnd     = 'E'
)

// Header describes a file.
type Header struct {
	CreatedAt time.Time
	Writer    string // the version of Mneme that wrote it
	Layout    int    // of the stored records, see store.Layout
}

// Summary counts the content of a file.
type Summary struct {
	Header
	Spaces  uint64 // of tenants and of the system, only those with a record
	Records uint64
	Damaged uint64 // records omitted because their values failed their checksums
	Bytes   uint64 // of keys and values
}

// maxText is the maximum length of a header's strings, in bytes.
const maxText = 256

var (
	// ErrNotBackup is returned for a file that is not a backup.
	ErrNotBackup = errors.New("not a backup of Mneme")
	// ErrCut is returned for a file or stream that is truncated.
	ErrCut = errors.New("the backup is cut short: it is not whole and cannot be used")
	// ErrCorrupt is returned for a file whose content is not what was written.
	ErrCorrupt = errors.New("the backup is damaged: its contents are not what was written")
)

// Record is one stored pair, or a damaged one. Its bytes are valid until the next one is read.
type Record struct {
	Tenant string
	store.Item
}
