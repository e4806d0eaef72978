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

// Folders below the one that holds the cache. Beside them is the folder with the machine code, which the runtime makes
// and names after its version, so that a new version begins with an empty one.
const (
	indexFolder = "index" // a file per module, named after its digest: which file holds its code, and that file's sum
	stageFolder = "stage" // a folder for each child that runs
)

// digest is the SHA-256 of a module as it is compiled.
type digest [sha256.Size]byte

// disk keeps machine code in files, and removes the least recently used ones when they take more than limit bytes. The
// runtime does not check all that it reads from a file (not where functions begin), so open compares each file with its
// SHA-256 first.
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
	users  int  // loads of it that are not closed; it stays as long as there are any
	gone   bool // no longer among the entries
	place  *list.Element
}

func (d *disk) indexFile(module digest) string {
	return filepath.Join(d.dir, indexFolder, hex.EncodeToString(module[:]))
}

// stage makes a folder for a child to compile into.
func (d *disk) stage() (string, error) { return os.MkdirTemp(filepath.Join(d.dir, stageFolder), "") }

// keep takes over the one file that a child made in its folder.
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

// add notes an entry as the one used last.
func (d *disk) add(e *entry) {
	d.entries[e.module] = e
	e.place = d.newest.PushFront(e)
	d.bytes += e.size
}

// evict removes the least recently used entries until the rest fits. Entries in use stay.
func (d *disk) evict() {
	for at := d.newest.Back(); at != nil && d.bytes > d.limit; {
		e := at.Value.(*entry)
		at = at.Prev()
		if e.users == 0 {
			d.remove(e)
		}
	}
}

// remove forgets an entry. A file that cannot be removed now is found at the next start.
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

// open finds the code of a module, whole, and holds it until close; nil if there is none or it is damaged.
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

// close ends a use of an entry, and removes the entry where it turned out to be useless.
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
