//go:build linux

package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// exhausting is the environment variable that tells a child process what to do without a file descriptor.
const exhausting = "BADGERSTORE_TEST_EXHAUSTING"

// hog holds all file descriptors of the process.
type hog []*os.File

func takeAll(t *testing.T) (h hog) {
	t.Helper()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 256, Max: 256}); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			return h
		}
		if err != nil {
			t.Fatal(err)
		}
		h = append(h, f)
	}
}

func (h hog) release() {
	for _, f := range h {
		_ = f.Close()
	}
}

// Without a file descriptor, commits that need the next log are refused with that reason, reads continue, a
// compaction ends with its context, and nothing panics. Once descriptors are free, everything continues, and every
// acknowledged commit is there.
func TestNoDescriptors(t *testing.T) {
	if what := os.Getenv(exhausting); what != "" {
		withoutDescriptors(t, what)
		return
	}
	for _, what := range []string{"rotation", "compaction"} {
		t.Run(what, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestNoDescriptors$")
			child.Env = append(os.Environ(), exhausting+"="+what)
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("the child ended with %v:\n%s", err, out)
			}
		})
	}
}

func tiny(o badger.Options) badger.Options {
	return o.WithMemTableSize(1 << 20).WithBaseLevelSize(levelZeroTables << 20).WithValueThreshold(100 << 10)
}

func withoutDescriptors(t *testing.T, what string) {
	dir := t.TempDir()
	s, err := openTuned(Options{Dir: dir, FreeSpace: plenty}, tiny)
	if err != nil {
		t.Fatal(err)
	}
	if s.main.log.off {
		t.Skip("the file system gives no blocks")
	}
	acknowledged := 0
	commit := func() error {
		err := s.Commit(t.Context(), "acme", pair(fmt.Sprintf("k%05d", acknowledged), string(make([]byte, 10_000))))
		if err == nil {
			acknowledged++
		}
		return err
	}
	for range 20 {
		if err := commit(); err != nil {
			t.Fatal(err)
		}
	}
	h := takeAll(t)
	if what == "compaction" {
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = s.main.rotate() // both outcomes are allowed; nothing may break
		cancel()
		if err := s.Compact(ctx, false); !errors.Is(err, context.Canceled) {
			t.Errorf("Compact: %v", err)
		}
	}
	// A flush that is still running gives descriptors back when it ends, so they are taken until none is left.
	var refused, failed, compacted error
	none := func(err error) bool { return errors.Is(err, store.ErrNoDescriptors) }
	for range 1000 {
		if refused = commit(); refused == nil {
			continue
		}
		failed = s.Failed()
		compacted = s.Compact(t.Context(), false)
		if !none(refused) || none(failed) && none(compacted) {
			break
		}
		h = append(h, takeAll(t)...)
	}
	if !none(refused) || !none(failed) || !none(compacted) {
		t.Errorf("after %d commits: %v; Failed: %v; Compact: %v", acknowledged, refused, failed, compacted)
	}
	if _, err := s.Read(t.Context(), "acme", store.Query{Ranges: []store.Range{{}}}); err != nil {
		t.Errorf("a read of a range: %v", err)
	}
	h.release()
	if err := s.Failed(); err != nil {
		t.Errorf("with descriptors, Failed: %v", err)
	}
	for range 300 {
		if err := commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(t.Context(), false); err != nil {
		t.Errorf("with descriptors, Compact: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openTuned(Options{Dir: dir, FreeSpace: plenty}, tiny); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	res, err := s.Read(t.Context(), "acme", store.Query{Ranges: []store.Range{{KeysOnly: true}}})
	if err != nil || len(res.Ranges[0]) != acknowledged {
		t.Errorf("%d of %d commits are there, error %v", len(res.Ranges[0]), acknowledged, err)
	}
}

// If Badger still fails to start the next log, commits are refused, reads return errors, and nothing panics.
func TestRotationFails(t *testing.T) {
	s, err := openTuned(Options{Dir: t.TempDir(), FreeSpace: plenty}, tiny)
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, pair("k", "1"))
	name := s.main.log.name(s.main.log.id + 1)
	if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.main.rotate(); !errors.Is(err, store.ErrFailed) {
		t.Errorf("rotate: %v", err)
	}
	if err := s.Commit(t.Context(), "acme", pair("k", "2")); !errors.Is(err, store.ErrFailed) {
		t.Errorf("a commit: %v", err)
	}
	for name, q := range map[string]store.Query{
		"key":   {Keys: [][]byte{[]byte("other")}},
		"range": {Ranges: []store.Range{{}}},
	} {
		if _, err := s.Read(t.Context(), "acme", q); err == nil {
			t.Errorf("a read of a %s answers though a part of the data cannot be reached", name)
		}
	}
	if err := s.Snapshot(t.Context(), func(string, store.Item) error { return nil }); err == nil {
		t.Error("a snapshot answers")
	}
	_ = s.Close() // says that the next log cannot be removed
}

// TestMemtableLimit fails if a new version of Badger has moved the limit of its memtable.
func TestMemtableLimit(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	limit := memtableLimit(s.main.db)
	if limit == nil || *limit != s.main.db.Opts().MemTableSize {
		t.Fatalf("the limit is %v", limit)
	}
	first := s.main.log.id
	if _, err := s.main.rotate(); err != nil || s.main.log.id != first+1 {
		t.Errorf("rotate: log %d after log %d, error %v", s.main.log.id, first, err)
	}
}
