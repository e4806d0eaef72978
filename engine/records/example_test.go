package records_test

import (
	"context"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// title is a record in the examples, stored under keys of sessions.
type title struct{ Title string }

var home = ident.Incarnation{7} // of a project

// open returns a DB with tenant acme and records for some titles.
func open(titles ...string) *records.DB {
	db := records.New(store.Seal(memstore.New()), nil, nil, nil, true)
	live := store.Batch{Put: []store.Pair{{Key: records.Live.Key(), Value: make([]byte, 8)}}}
	if err := db.Commit(context.Background(), "acme", live); err != nil {
		panic(err)
	}
	change(db, func(t *records.Tx) error {
		for i, name := range titles {
			if err := t.PutJSON(records.Session.Key(home, fmt.Sprint("s-", i)), title{name}); err != nil {
				return err
			}
		}
		return nil
	})
	return db
}

func change(db *records.DB, do func(*records.Tx) error) {
	_, err := records.Update(context.Background(), db, ident.Caller{Tenant: "acme"}, ident.Once{},
		func(t *records.Tx) (struct{}, error) { return struct{}{}, do(t) })
	if err != nil {
		panic(err)
	}
}

// A kind makes keys and splits them. No other code knows their layout.
func ExampleKindOf() {
	key := records.Session.Key(home, "s-1")
	project, id, ok := records.Session.Split(key)
	fmt.Println(project, id, ok)
	fmt.Println(records.KindOf("acme", key).Name())
	// Output:
	// 0700000000000000 s-1 true
	// session
}

func ExampleGet() {
	ctx, db := context.Background(), open("Boats")
	found, err := records.Get[title](ctx, db, "acme", records.Session.Key(home, "s-0"))
	fmt.Println(found.Title, err)
	none, err := records.Get[title](ctx, db, "acme", records.Session.Key(home, "s-1"))
	fmt.Println(none, err)
	// Output:
	// Boats <nil>
	// <nil> <nil>
}

// GetTx reads inside a change. Update runs the function again if another writer changes the record meanwhile.
func ExampleGetTx() {
	db, key := open("Boats"), records.Session.Key(home, "s-0")
	change(db, func(t *records.Tx) error {
		rec, err := records.GetTx[title](t, key)
		if err != nil {
			return err
		}
		rec.Title += " and trains"
		return t.PutJSON(key, rec)
	})
	now, err := records.Get[title](context.Background(), db, "acme", key)
	fmt.Println(now.Title, err)
	// Output: Boats and trains <nil>
}

func ExampleEach() {
	ctx, db := context.Background(), open("Boats", "Trains")
	for rec, err := range records.Each[title](ctx, db, "acme", records.Session.Under(home)) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		_, id, _ := records.Session.Split(rec.Key)
		fmt.Println(id, rec.Value.Title)
	}
	// Output:
	// s-0 Boats
	// s-1 Trains
}

// Scan returns records as they are stored. One that fails its checksum is Damaged.
func ExampleDB_Scan() {
	ctx, db := context.Background(), open("Boats", "Trains")
	for it, err := range db.Scan(ctx, "acme", records.Session.Under(home)) {
		fmt.Println(string(it.Value), it.Damaged, err)
	}
	// Output:
	// {"Title":"Boats"} false <nil>
	// {"Title":"Trains"} false <nil>
}

func ExampleListPage() {
	ctx, db := context.Background(), open("Boats", "", "Trains", "Planes")
	show := func(_ []byte, rec *title) (string, bool) { return rec.Title, rec.Title != "" }
	for page := (records.Page{Limit: 2}); ; {
		list, err := records.ListPage(ctx, db, "acme", records.Session.Under(home), page, show)
		fmt.Println(list.Data, list.HasMore, err)
		if !list.HasMore {
			break
		}
		page.Cursor = *list.NextCursor
	}
	// Output:
	// [Boats Trains] true <nil>
	// [Planes] false <nil>
}
