package compiler

import (
	"container/list"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
)

// openDisk opens a directory. It keeps machine code that is complete and removes everything else.
func openDisk(dir string, limit int64) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkOwner(dir); err != nil {
		return nil, err
	}
	version, err := versionFolder(dir)
	if err != nil {
		return nil, err
	}
	d := &disk{dir: dir, code: filepath.Join(dir, version), limit: limit, entries: map[digest]*entry{},
		newest: list.New()}
	old, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range old {
		if f.Name() != version && f.Name() != indexFolder {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, f.Name())))
		}
	}
	for _, folder := range []string{version, indexFolder, stageFolder} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, folder), 0o700))
	}
	if err != nil {
		return nil, err
	}
	if err := d.takeStock(); err != nil {
		return nil, err
	}
	d.evict()
	return d, nil
}

// versionFolder returns the name of the runtime's directory, found by letting the runtime create one.
func versionFolder(dir string) (_ string, err error) {
	probe, err := os.MkdirTemp(dir, "version-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(probe)) }()
	if _, err := wazero.NewCompilationCacheWithDir(probe); err != nil {
		return "", err
	}
	made, err := os.ReadDir(probe)
	if err != nil || len(made) != 1 {
		return "", errors.Join(fmt.Errorf("the compiler's cache has %d folders", len(made)), err)
	}
	return made[0].Name(), nil
}

// takeStock reads the index, oldest use first, and removes code that no entry names.
func (d *disk) takeStock() error {
	files, err := os.ReadDir(filepath.Join(d.dir, indexFolder))
	if err != nil {
		return err
	}
	used := map[*entry]time.Time{}
	var found []*entry
	for _, f := range files {
		e, at, err := d.readEntry(f.Name())
		if err != nil {
			if err := os.Remove(filepath.Join(d.dir, indexFolder, f.Name())); err != nil {
				return err
			}
			continue
		}
		used[e], found = at, append(found, e)
	}
	slices.SortFunc(found, func(a, b *entry) int { return used[a].Compare(used[b]) })
	named := map[string]bool{}
	for _, e := range found {
		named[e.file] = true
		d.add(e)
	}
	code, err := os.ReadDir(d.code)
	for _, f := range code {
		if !named[f.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.code, f.Name())))
		}
	}
	return err
}

// readEntry reads one file of the index, and the time of its last use.
func (d *disk) readEntry(name string) (_ *entry, used time.Time, err error) {
	e := &entry{}
	if err := parseDigest(&e.module, name); err != nil {
		return nil, used, err
	}
	text, err := os.ReadFile(d.indexFile(e.module))
	if err != nil {
		return nil, used, err
	}
	var sum string
	if _, err := fmt.Sscanf(string(text), "%s %d %s", &e.file, &e.size, &sum); err != nil {
		return nil, used, err
	}
	if err := parseDigest(&e.sum, sum); err != nil {
		return nil, used, err
	}
	if err := parseDigest(new(digest), e.file); err != nil {
		return nil, used, err
	}
	code, err := os.Lstat(filepath.Join(d.code, e.file))
	if err != nil {
		return nil, used, err
	}
	if !code.Mode().IsRegular() || code.Size() != e.size {
		return nil, used, fmt.Errorf("%s has %d bytes, not %d", e.file, code.Size(), e.size)
	}
	index, err := os.Stat(d.indexFile(e.module))
	if err != nil {
		return nil, used, err
	}
	return e, index.ModTime(), nil
}

// parseDigest parses a digest in lower case hexadecimal.
func parseDigest(d *digest, text string) error {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(d) || text != strings.ToLower(text) {
		return fmt.Errorf("%q is no digest", text)
	}
	*d = digest(b)
	return nil
}
