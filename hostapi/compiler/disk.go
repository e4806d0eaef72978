package compiler

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Directories below that of the cache. Next to them is the directory with the machine code. The runtime creates it and
// names it after its version, so that a new version starts with an empty one.
const (
	indexFolder = "index" // a file per module, named after its digest: the name of the file with its code, and that file's checksum
	stageFolder = "stage" // a directory for each running child
)

// digest is the SHA-256 of a module as it is compiled.
type digest [sha256.Size]byte

// disk keeps machine code in files, and removes the least recently used ones when they take more than limit bytes. The
// runtime does not check everything that it reads from a file (not where functions begin), so open compares each file
// with its SHA-256 first.
type disk struct {
	dir, code string
	limit     int64

	mu      sync.Mutex
	entries map[digest]*entry
	newest  *list.List // of *entry
	bytes   int64
}

// entry is the code of one module.
type entry struct {
	module digest
	file   string // name below disk.code
	size   int64
	sum    digest
	users  int  // open loads; the file is kept while there are any
	gone   bool // no longer among the entries
	place  *list.Element
}

func (d *disk) indexFile(module digest) string {
	return filepath.Join(d.dir, indexFolder, hex.EncodeToString(module[:]))
}

// stage creates a directory for a child to compile into.
func (d *disk) stage() (string, error) { return os.MkdirTemp(filepath.Join(d.dir, stageFolder), "") }

// keep takes over the one file that a child made in its directory.
func (d *disk) keep(module digest, staged string) error {
	folder := filepath.Join(staged, filepath.Base(d.code))
	made, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	if len(made) != 1 || parseDigest(new(digest), made[0].Name()) != nil {
		return fmt.Errorf("the compiler left %d files", len(made))
	}
	e := &entry{module: module, file: made[0].Name()}
	from := filepath.Join(folder, e.file)
	if e.sum, e.size, err = sumOf(from); err != nil {
		return err
	}
	if e.size > d.limit {
		return &plan.Refusal{Check: checkCode, Found: e.size, Limit: d.limit}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[module] != nil {
		return nil // another tenant's child finished first
	}
	if err := os.Rename(from, filepath.Join(d.code, e.file)); err != nil {
		return err
	}
	line := fmt.Sprintf("%s %d %x\n", e.file, e.size, e.sum)
	index := filepath.Join(staged, "index")
	if err := os.WriteFile(index, []byte(line), 0o600); err != nil {
		return err
	}
	if err := os.Rename(index, d.indexFile(module)); err != nil {
		return err
	}
	d.add(e)
	d.evict()
	return nil
}

// add adds an entry as the most recently used one.
func (d *disk) add(e *entry) {
	d.entries[e.module] = e
	e.place = d.newest.PushFront(e)
	d.bytes += e.size
}

// evict removes the least recently used entries until the rest fits. Entries in use are kept.
func (d *disk) evict() {
	for at := d.newest.Back(); at != nil && d.bytes > d.limit; {
		e := at.Value.(*entry)
		at = at.Prev()
		if e.users == 0 {
			d.remove(e)
		}
	}
}

// remove removes an entry. A file that cannot be removed now is found at the next start.
func (d *disk) remove(e *entry) {
	if e.gone {
		return
	}
	e.gone = true
	delete(d.entries, e.module)
	d.newest.Remove(e.place)
	d.bytes -= e.size
	_ = os.Remove(d.indexFile(e.module))
	_ = os.Remove(filepath.Join(d.code, e.file))
}

func (d *disk) has(module digest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.entries[module] != nil
}

// open finds the complete code of a module, and holds it until close. It returns nil if there is none or it is damaged.
func (d *disk) open(module digest) *entry {
	d.mu.Lock()
	e := d.entries[module]
	if e == nil {
		d.mu.Unlock()
		return nil
	}
	e.users++
	d.newest.MoveToFront(e.place)
	d.mu.Unlock()
	if sum, _, err := sumOf(filepath.Join(d.code, e.file)); err != nil || sum != e.sum {
		d.close(e, false)
		return nil
	}
	now := time.Now() // the file's time orders the entries at the next start
	_ = os.Chtimes(d.indexFile(module), now, now)
	return e
}

// close ends a use of an entry, and removes the entry if it turned out to be useless.
func (d *disk) close(e *entry, useful bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.users--
	if !useful {
		d.remove(e)
	}
	d.evict()
}

func sumOf(file string) (sum digest, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return digest(h.Sum(nil)), size, err
}
