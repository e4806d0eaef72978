package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/backup"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

var made = backup.Created(time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC), "v1.2.3")

// filled returns a store of several tenants with keys and values of all lengths, including the longest.
func filled(t testing.TB, records int) store.Store {
	t.Helper()
	s := store.Seal(memstore.New())
	random := rand.New(rand.NewPCG(1, 2))
	bytesOf := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	for i, tenant := range []string{"!system", "acme", "b"} {
		for n := range records {
			key := append([]byte{"kz"[n%2]}, bytesOf(random.IntN(40))...)
			put(t, s, tenant, append(key, byte(i)), bytesOf(random.IntN(2000)*(n%3)))
		}
	}
	put(t, s, "", []byte{}, []byte{})
	return s
}

func put(t testing.TB, s store.Store, tenant string, key, value []byte) {
	t.Helper()
	if err := s.Commit(t.Context(), tenant, store.Batch{Put: []store.Pair{{Key: key, Value: value}}}); err != nil {
		t.Fatal(err)
	}
}

func dump(t testing.TB, s store.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := store.Snapshot(t.Context(), s, func(tenant string, it store.Item) error {
		all[tenant+"\x00"+string(it.Key)] = fmt.Sprint(it.Damaged, it.Value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func written(t testing.TB, s store.Store) ([]byte, backup.Summary) {
	t.Helper()
	var file bytes.Buffer
	sum, err := backup.Write(t.Context(), &file, s, made)
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), sum
}

func TestRoundTrip(t *testing.T) {
	for _, records := range []int{0, 1, 400} {
		s := filled(t, records)
		put(t, s, "b", bytes.Repeat([]byte{'k'}, store.MaxKey), bytes.Repeat([]byte{'v'}, store.MaxValue))
		file, wrote := written(t, s)
		into := store.Seal(memstore.New())
		read, err := backup.Restore(t.Context(), into, iotest.HalfReader(bytes.NewReader(file)))
		if err != nil {
			t.Fatal(err)
		}
		want := dump(t, s)
		if read != wrote || read.Header != made || read.Records != uint64(len(want)) {
			t.Errorf("wrote %+v, read %+v, stored %d", wrote, read, len(want))
		}
		if !reflect.DeepEqual(dump(t, into), want) {
			t.Errorf("%d records: what is restored is not what was stored", records)
		}
	}
}

// A file that is truncated anywhere, or has data after its end, is refused.
func TestCut(t *testing.T) {
	file, _ := written(t, filled(t, 3))
	for n := range file {
		_, err := backup.Read(bytes.NewReader(file[:n]), nil)
		if !errors.Is(err, backup.ErrCut) && !(n < 8 && errors.Is(err, backup.ErrNotBackup)) {
			t.Fatalf("cut at %d of %d: %v", n, len(file), err)
		}
	}
	if _, err := backup.Read(bytes.NewReader(append(bytes.Clone(file), 0)), nil); err == nil {
		t.Error("a byte behind the end goes unnoticed")
	}
	if _, err := backup.Read(bytes.NewReader(append(bytes.Clone(file), file[8:]...)), nil); err == nil {
		t.Error("a second stream behind the first goes unnoticed")
	}
}

// A file with any flipped bit is refused, unless the bit has no meaning.
func TestFlipped(t *testing.T) {
	s := filled(t, 1)
	file, _ := written(t, s)
	harmless := 0
	for bit := range 8 * len(file) {
		file[bit/8] ^= 1 << (bit % 8)
		into := store.Seal(memstore.New())
		if _, err := backup.Restore(t.Context(), into, bytes.NewReader(file)); err == nil {
			harmless++
			if !reflect.DeepEqual(dump(t, into), dump(t, s)) {
				t.Errorf("bit %d of byte %d of %d is flipped and goes unnoticed", bit%8, bit/8, len(file))
			}
		}
		file[bit/8] ^= 1 << (bit % 8)
	}
	if harmless > len(file) { // some bits of a frame are unused, but far fewer than one in eight
		t.Errorf("%d of %d bits say nothing", harmless, 8*len(file))
	}
}

// A damaged record is omitted and counted, never copied as if it were intact.
func TestDamaged(t *testing.T) {
	inner := memstore.New()
	s := store.Seal(inner)
	put(t, s, "acme", []byte("good"), []byte("1"))
	put(t, inner, "acme", []byte("bad"), []byte("not what was sealed"))
	file, wrote := written(t, s)
	if wrote.Records != 1 || wrote.Damaged != 1 {
		t.Errorf("wrote %+v", wrote)
	}
	var bad []string
	_, err := backup.Read(bytes.NewReader(file), func(r backup.Record) error {
		if r.Damaged {
			bad = append(bad, r.Tenant+" "+string(r.Key))
		}
		return nil
	})
	if err != nil || !reflect.DeepEqual(bad, []string{"acme bad"}) {
		t.Errorf("named as damaged: %q, error %v", bad, err)
	}
	into := store.Seal(memstore.New())
	if _, err := backup.Restore(t.Context(), into, bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if got := dump(t, into); len(got) != 1 {
		t.Errorf("restored %v", got)
	}
}

// Errors of the disk and of the reader are returned unchanged, and a failed writer leaves a file without an end.
func TestErrorsOfOthers(t *testing.T) {
	s := filled(t, 200)
	file, _ := written(t, s)
	disk := errors.New("input/output error")
	half := io.MultiReader(bytes.NewReader(file[:len(file)/2]), iotest.ErrReader(disk))
	if _, err := backup.Read(half, nil); !errors.Is(err, disk) {
		t.Errorf("a failing disk: %v", err)
	}
	if _, err := backup.Read(bytes.NewReader(file), func(backup.Record) error { return disk }); !errors.Is(err, disk) {
		t.Errorf("a failing reader: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var part bytes.Buffer
	_, err := backup.Write(ctx, writerFunc(func(p []byte) (int, error) { cancel(); return part.Write(p) }), s, made)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an ended backup: %v", err)
	}
	if _, err := backup.Read(&part, nil); !errors.Is(err, backup.ErrCut) {
		t.Errorf("what an ended backup left behind: %v", err)
	}
	if _, err := backup.Write(t.Context(), writerFunc(func([]byte) (int, error) { return 0, disk }), s, made); !errors.Is(err, disk) {
		t.Errorf("a full disk: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// FuzzRead reads arbitrary files: no panic, and no more memory than the longest record takes.
func FuzzRead(f *testing.F) {
	file, _ := written(f, filled(f, 2))
	f.Add(file)
	f.Add(file[:8])
	f.Fuzz(func(t *testing.T, file []byte) {
		_, _ = backup.Read(bytes.NewReader(file), func(r backup.Record) error {
			if len(r.Key) > store.MaxKey || len(r.Value) > store.MaxValue || len(r.Tenant) > store.MaxTenant {
				t.Errorf("a record of %d and %d bytes", len(r.Key), len(r.Value))
			}
			return nil
		})
	})
}

// A backup with another layout of records is refused before anything is restored, with an error that says what to do.
func TestAnotherLayout(t *testing.T) {
	var file bytes.Buffer
	another := made
	another.Layout = store.Layout + 1
	if _, err := backup.Write(t.Context(), &file, filled(t, 3), another); err != nil {
		t.Fatal(err)
	}
	into := store.Seal(memstore.New())
	_, err := backup.Restore(t.Context(), into, &file)
	if refused, ok := errors.AsType[*store.LayoutError](err); !ok || refused.Layout != another.Layout {
		t.Errorf("restored: %v", err)
	}
	if n := len(dump(t, into)); n > 0 {
		t.Errorf("%d records of it are restored", n)
	}
}
