package engine_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/openai"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/backup"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/testdata/embedserver"
)

// The vector of a text that was forgotten or overwritten is removed from all records at once, and from all files by
// the next daily job, because a text can be guessed from it. Vectors of other texts remain.
func TestForgottenVectorsAreNowhere(t *testing.T) {
	dir := t.TempDir()
	db, err := badgerstore.Open(badgerstore.Options{Dir: dir, Uncompressed: true, ReserveBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	server := embedserver.New("a-key")
	defer server.Close()
	e, err := openai.NewEmbedder(openai.Options{BaseURL: server.URL + "/v1", APIKey: "a-key"})
	if err != nil {
		t.Fatal(err)
	}
	k := enginetest.Open(t, db, func(o *engine.Options) { o.Embedder = e })
	k.SetIn("default", `{"embedding_model":"near"}`)
	text := func(i int) string { return fmt.Sprintf("the secret of number %d is %d", i, i*7919) }
	stored := func(i int) string {
		q, err := rank.Quantise(embedserver.Embed("near", text(i), embedserver.Dimensions))
		if err != nil {
			t.Fatal(err)
		}
		return string(q.Bytes)
	}
	for i := range 80 {
		k.Keep(fmt.Sprint("k", i), text(i))
	}
	k.Drain()
	some := []int{0, 1, 39, 40, 79} // reading all files is slow
	for _, i := range some {
		if !k.Holds("default", stored(i)) || len(files(t, dir, stored(i))) == 0 {
			t.Fatalf("the test does not see vector %d", i)
		}
	}
	for i := range 40 {
		if i%2 == 0 {
			k.Forget(fmt.Sprint("k", i))
		} else {
			k.Keep(fmt.Sprint("k", i), "something else altogether")
		}
	}
	k.Drain()
	for i := range 80 {
		if k.Holds("default", stored(i)) != (i >= 40) {
			t.Errorf("a record holds vector %d: %v", i, i < 40)
		}
	}
	var file bytes.Buffer
	if _, err := backup.Write(t.Context(), &file, store.Seal(db), backup.Created(k.Clock(), "test")); err != nil {
		t.Fatal(err)
	}
	restored := memstore.New()
	if _, err := backup.Restore(t.Context(), store.Seal(restored), &file); err != nil {
		t.Fatal(err)
	}
	for _, i := range some {
		if enginetest.Open(t, restored).Holds("default", stored(i)) != (i >= 40) {
			t.Errorf("the backup holds vector %d: %v", i, i < 40)
		}
	}
	k.Advance(enginetest.ADay + time.Minute)
	k.Drain()
	for _, i := range some {
		if names := files(t, dir, stored(i)); (len(names) > 0) != (i >= 40) {
			t.Errorf("vector %d is in %v", i, names)
		}
	}
	k.Sound()
}
