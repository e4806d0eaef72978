package compiler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reopen does what a restart does.
func (k *kit) reopen(o Options) *kit {
	o.Dir = k.disk.dir
	return open(k.t, o)
}

func TestRestartFindsItWarm(t *testing.T) {
	first := open(t, Options{Dir: t.TempDir()})
	first.mustCompile(answer(1))
	second := first.reopen(Options{})
	second.command = []string{"/nonexistent"}
	if !second.has(answer(1)) {
		t.Error("not kept")
	}
}

func TestLeastRecentlyUsedGoes(t *testing.T) {
	k := open(t, Options{Dir: t.TempDir()})
	k.mustCompile(answer(1))
	size := k.only().size
	k = k.reopen(Options{Bytes: 3 * size})
	for n := range int32(3) {
		k.mustCompile(answer(n))
	}
	if !k.has(answer(0)) {
		t.Fatal("evicted without need")
	}
	k.mustCompile(answer(3))
	for n, want := range []bool{true, false, true, true} {
		if k.has(answer(int32(n))) != want {
			t.Errorf("module %d is there: %v", n, !want)
		}
	}
	k.has(answer(2)) // the last use, which the next start must know
	k = k.reopen(Options{Bytes: size})
	if !k.has(answer(2)) || len(k.disk.entries) != 1 {
		t.Error("the next start kept another than the last used")
	}
	for _, folder := range []string{k.disk.code, filepath.Join(k.disk.dir, indexFolder)} {
		if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
			t.Errorf("%d files in %s: %v", len(files), folder, err)
		}
	}
}

func TestLoadedCodeStays(t *testing.T) {
	k := open(t, Options{Dir: t.TempDir()})
	k.mustCompile(answer(1))
	c, err := k.Load(t.Context(), k.rt, answer(1))
	if err != nil || c == nil {
		t.Fatal(err)
	}
	k.disk.limit = k.only().size
	k.mustCompile(answer(2))
	if !k.Has(answer(1)) || k.Has(answer(2)) {
		t.Error("what is in use made room")
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	k.mustCompile(answer(2))
	if k.Has(answer(1)) || !k.Has(answer(2)) {
		t.Error("what is no longer in use stayed")
	}
}

func TestTooMuchCodeIsRefused(t *testing.T) {
	r := refusal(t, open(t, Options{Bytes: 16}).Compile(t.Context(), answer(1)))
	if r.Check != checkCode || r.Found <= 16 || r.Limit != 16 {
		t.Errorf("%+v", r)
	}
}

// Whatever happens to the files, code is complete or missing, and the next compilation restores it.
func TestDamage(t *testing.T) {
	for name, damage := range map[string]func(code, index string) error{
		"code cut":     func(code, _ string) error { return os.Truncate(code, 10) },
		"code gone":    func(code, _ string) error { return os.Remove(code) },
		"code changed": func(code, _ string) error { return change(code, -1) },
		// not covered by a checksum of the runtime
		"offset":        func(code, _ string) error { return change(code, 20) },
		"code a folder": func(code, _ string) error { _ = os.Remove(code); return os.Mkdir(code, 0o700) },
		"index cut":     func(_, index string) error { return os.Truncate(index, 70) },
		"index changed": func(_, index string) error { return change(index, -2) },
		"index gone":    func(_, index string) error { return os.Remove(index) },
		"outside":       func(_, index string) error { return os.WriteFile(index, []byte("../../x 1 00\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			k := open(t, Options{Dir: t.TempDir()})
			k.mustCompile(answer(1))
			e := k.only()
			code, index := filepath.Join(k.disk.code, e.file), k.disk.indexFile(e.module)
			if err := damage(code, index); err != nil {
				t.Fatal(err)
			}
			inUse := k.has(answer(1))
			if inUse && !strings.HasPrefix(name, "index") && name != "outside" {
				t.Error("damaged code was loaded")
			}
			next := k.reopen(Options{})
			if next.has(answer(1)) {
				t.Error("damaged code was loaded after a restart")
			}
			next.mustCompile(answer(1))
			if !next.has(answer(1)) || !next.reopen(Options{}).has(answer(1)) {
				t.Error("not made whole")
			}
		})
	}
}

// change flips a bit at an offset, which counts from the end if it is negative.
func change(file string, at int) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	return os.WriteFile(file, b, 0o600)
}

// Only files that an entry names are kept, and nobody else may write to the directory.
func TestFolderIsPutInOrder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	k := open(t, Options{Dir: dir})
	k.mustCompile(answer(1))
	stray := []string{
		filepath.Join(k.disk.code, "0123.tmp"),
		filepath.Join(dir, indexFolder, "notes"),
		filepath.Join(dir, stageFolder, "left"),
		filepath.Join(dir, "wazero-v0.0.0-amd64-linux"),
	}
	for _, name := range stray {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !k.reopen(Options{}).has(answer(1)) {
		t.Error("what is in order was removed")
	}
	for _, name := range stray {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s stays: %v", name, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: file, Command: []string{"x"}}); err == nil {
		t.Error("a folder that cannot be made was opened")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: link, Command: []string{"x"}}); err == nil {
		t.Error("a link to a folder was opened")
	}
}
