package board_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

func keep(k *enginetest.Kit, id, key, value string) (board.Value, bool) {
	k.Helper()
	v, created, err := k.Boards.PutValue(k.Context(), k.Admin, id, key, board.ValueSpec{Value: json.RawMessage(value)})
	if err != nil {
		k.Fatal(err)
	}
	return v, created
}

// A value is kept until it is replaced or deleted, or its board is; retention does not remove it.
func TestBoardValues(t *testing.T) {
	k := enginetest.New(t)
	first, created := keep(k, "b", "progress", `{"analysed": 5, "of": 10}`)
	if !created || string(first.Value) != `{"analysed":5,"of":10}` || first.BoardID != "b" || first.Key != "progress" {
		t.Errorf("%+v, created: %v", first, created)
	}
	k.Advance(24 * time.Hour)
	second, created := keep(k, "b", "progress", `null`)
	if created || string(second.Value) != "null" || !second.CreatedAt.Equal(first.CreatedAt) ||
		!second.UpdatedAt.After(first.UpdatedAt) {
		t.Errorf("%+v behind %+v, created: %v", second, first, created)
	}
	keep(k, "b", "a", `[1]`)
	keep(k, "other", "a", `"of another board"`)
	days := 1
	if _, _, err := k.Boards.Put(t.Context(), k.Admin, "b", board.Spec{RetentionDays: &days}); err != nil {
		t.Fatal(err)
	}
	k.Write("b", "an entry")
	k.Advance(1000 * 24 * time.Hour)
	k.Drain()
	page, err := k.Boards.ListValues(t.Context(), k.Admin, "b", records.Page{Limit: 1})
	if err != nil || len(page.Data) != 1 || page.Data[0].Key != "a" || !page.HasMore {
		t.Fatalf("%+v, %v", page, err)
	}
	page, err = k.Boards.ListValues(t.Context(), k.Admin, "b", records.Page{Cursor: *page.NextCursor})
	if err != nil || len(page.Data) != 1 || page.Data[0].Key != "progress" || page.HasMore {
		t.Fatalf("%+v, %v", page, err)
	}
	if s, err := k.Boards.Stats(t.Context(), k.Admin, "b"); err != nil || s.Values != 2 || s.Entries != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := k.Boards.DeleteValue(t.Context(), k.Admin, "b", "a"); err != nil {
		t.Fatal(err)
	}
	enginetest.WantKind(t, k.Boards.DeleteValue(t.Context(), k.Admin, "b", "a"), fault.NotFound)
	_, err = k.Boards.GetValue(t.Context(), k.Admin, "b", "a")
	enginetest.WantKind(t, err, fault.NotFound)
	got, err := k.Boards.GetValue(t.Context(), k.Admin, "other", "a")
	if err != nil || string(got.Value) != `"of another board"` {
		t.Errorf("%+v, %v", got, err)
	}
	for _, id := range []string{"b", "other"} {
		if err := k.Boards.Delete(t.Context(), k.Admin, id); err != nil {
			t.Fatal(err)
		}
		_, err = k.Boards.GetValue(t.Context(), k.Admin, id, "progress")
		enginetest.WantKind(t, err, fault.NotFound)
	}
	k.Drain()
	if n := onBoards(k); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestBoardValueInput(t *testing.T) {
	k := enginetest.New(t)
	long := `"` + strings.Repeat("x", 64<<10-2) + `"`
	for _, c := range []struct{ key, value, code string }{
		{"a\tb", "1", "invalid_id"}, {"", "1", "invalid_id"}, {"k", "", "required"}, {"k", "{", "invalid_value"},
		{"k", long[:3] + long, "invalid_value"}, {"k", `"x` + long[1:], "too_long"},
	} {
		spec := board.ValueSpec{Value: json.RawMessage(c.value)}
		_, _, err := k.Boards.PutValue(t.Context(), k.Admin, "b", c.key, spec)
		enginetest.RefusedWith(t, err, fault.Invalid, c.code)
	}
	if got, _ := keep(k, "b", "k", long); string(got.Value) != long {
		t.Errorf("%d bytes came back", len(got.Value))
	}
	for i := range 1023 {
		keep(k, "b", fmt.Sprint("k", i), "1")
	}
	keep(k, "b", "k7", "2") // replaces an existing value
	_, _, err := k.Boards.PutValue(t.Context(), k.Admin, "b", "more", board.ValueSpec{Value: json.RawMessage("1")})
	enginetest.RefusedWith(t, err, fault.Conflict, "too_many_values")
}

// An export returns the values after the entries, each once, however many there are.
func TestExportGivesValues(t *testing.T) {
	k := enginetest.New(t)
	for i := range 150 {
		keep(k, "b", fmt.Sprintf("k%03d", i), fmt.Sprint(i))
	}
	k.Write("b", "an entry")
	feed, err := k.Boards.Export(t.Context(), k.Admin, "b")
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	var got bytes.Buffer
	for {
		events, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			switch e := e.Data.(type) {
			case board.Entry:
				fmt.Fprintln(&got, e.Content)
			case board.Value:
				fmt.Fprintln(&got, e.Key, string(e.Value))
			}
		}
	}
	want := "an entry\n"
	for i := range 150 {
		want += fmt.Sprintf("k%03d %d\n", i, i)
	}
	if got.String() != want {
		t.Errorf("%s", got.String())
	}
}
