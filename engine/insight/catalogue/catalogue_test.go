package catalogue_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/catalogue"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
)

func TestMain(m *testing.M) { os.Exit(compilertest.Main(m)) }

// list returns all sessions that match a query, reading them in pages of the given size.
func list(k *enginetest.Kit, q catalogue.Query, limit int) (rows []catalogue.Row) {
	k.Helper()
	for cursor := ""; ; {
		page, err := k.Catalogue.List(k.Context(), k.Admin, ident.DefaultProject, q,
			records.Page{Limit: limit, Cursor: cursor})
		if err != nil {
			k.Fatal(err)
		}
		if len(page.Data) > limit || page.HasMore != (page.NextCursor != nil) || page.HasMore && len(page.Data) < limit {
			k.Fatalf("%d rows in a page of %d: %+v", len(page.Data), limit, page)
		}
		rows = append(rows, page.Data...)
		if !page.HasMore {
			return rows
		}
		cursor = *page.NextCursor
	}
}

func ids(rows []catalogue.Row) (out []string) {
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

// TestOrdersAndFilters compares lists in all orders, with all filters and page sizes, with sorting all sessions.
func TestOrdersAndFilters(t *testing.T) {
	k, r := enginetest.New(t), rand.New(rand.NewPCG(11, 7))
	agents := []string{"", "main", "cron"}
	for i := range 40 {
		spec := session.Spec{ID: fmt.Sprintf("s%d", r.IntN(1000)*100+i), Agent: agents[r.IntN(3)],
			Kind: []string{session.KindChat, session.KindBackground}[r.IntN(2)]}
		if _, err := k.Sessions.Create(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, spec); err != nil {
			t.Fatal(err)
		}
		for range r.IntN(4) {
			k.Post(spec.ID, enginetest.User(strings.Repeat("word ", 1+r.IntN(3))))
		}
		if r.IntN(3) > 0 { // some have the same time
			k.Advance(time.Minute)
		}
	}
	all := list(k, catalogue.Query{}, 1000)
	if len(all) != 40 {
		t.Fatalf("%d sessions are listed", len(all))
	}
	orders := map[string]func(a, b *catalogue.Row) int{
		"id":               func(a, b *catalogue.Row) int { return 0 },
		"last_activity_at": func(a, b *catalogue.Row) int { return a.LastActivityAt.Compare(*b.LastActivityAt) },
		"turns":            func(a, b *catalogue.Row) int { return cmp.Compare(a.Turns, b.Turns) },
		"tokens":           func(a, b *catalogue.Row) int { return cmp.Compare(a.Tokens, b.Tokens) },
	}
	since := all[r.IntN(len(all))].LastActivityAt
	for _, q := range []catalogue.Query{{}, {Agent: "main"}, {Kind: session.KindBackground}, {Since: since},
		{Agent: "cron", Kind: session.KindChat, Since: since}, {Agent: "nobody"}} {
		for name, order := range orders {
			for _, sign := range []string{"", "-"} {
				var want []catalogue.Row
				for _, row := range all {
					if (q.Agent == "" || row.Agent == q.Agent) && (q.Kind == "" || row.Kind == q.Kind) &&
						(q.Since == nil || !row.LastActivityAt.Before(*q.Since)) {
						want = append(want, row)
					}
				}
				slices.SortFunc(want, func(a, b catalogue.Row) int {
					return cmp.Or(order(&a, &b), strings.Compare(a.ID, b.ID))
				})
				q.Sort = sign + name
				if sign == "-" {
					slices.Reverse(want)
				}
				for _, limit := range []int{1, 3, 7, 39, 40, 100} {
					if got := list(k, q, limit); !slices.Equal(ids(got), ids(want)) {
						t.Fatalf("%+v in pages of %d:\n%v\n%v", q, limit, ids(got), ids(want))
					}
				}
			}
		}
	}
}

// TestPagesGoOn: a session that is used between two pages may be listed twice, but no other is left out or listed
// twice.
func TestPagesGoOn(t *testing.T) {
	k := enginetest.New(t)
	for i := range 6 {
		k.Post(fmt.Sprint("s", i), enginetest.User("hello"))
		k.Advance(time.Minute)
	}
	q := catalogue.Query{Sort: "-last_activity_at"}
	first, err := k.Catalogue.List(t.Context(), k.Admin, ident.DefaultProject, q, records.Page{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	k.Post("s5", enginetest.User("more"))
	k.Post("s6", enginetest.User("new"))
	rest, err := k.Catalogue.List(t.Context(), k.Admin, ident.DefaultProject, q,
		records.Page{Limit: 10, Cursor: *first.NextCursor})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(append(first.Data, rest.Data...)); !slices.Equal(got, []string{"s5", "s4", "s3", "s2", "s1", "s0"}) {
		t.Errorf("the pages show %v", got)
	}
	_, err = k.Catalogue.List(t.Context(), k.Admin, ident.DefaultProject, catalogue.Query{Sort: "turns"},
		records.Page{Cursor: *first.NextCursor})
	enginetest.RefusedWith(t, err, fault.Invalid, "invalid_cursor")
}

// TestFoundByWords finds sessions by the words of their messages, by their ids and by their titles.
func TestFoundByWords(t *testing.T) {
	k := enginetest.New(t)
	spec := session.Spec{ID: "titled", Title: "All about Giraffes"}
	if _, err := k.Sessions.Create(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, spec); err != nil {
		t.Fatal(err)
	}
	k.Post("giraffe-7", enginetest.User("nothing of the kind"))
	k.Post("said", enginetest.User(strings.Repeat("much else. ", 60)+"The giraffe sleeps. "+strings.Repeat("And more. ", 60)))
	k.Post("said", enginetest.User("Does a giraffe sleep?"))
	k.Post("unsaid", enginetest.User("The elephant sleeps."))
	k.Drain()
	rows := list(k, catalogue.Query{Text: "GIRAFFE"}, 2)
	if got := ids(rows); !slices.Equal(got, []string{"titled", "giraffe-7", "said"}) {
		t.Fatalf("found %v", got)
	}
	if rows[0].Match != nil || rows[2].Match == nil || !strings.Contains(strings.ToLower(rows[2].Match.Text), "giraffe") ||
		rows[2].Match.Turn == 0 || rows[2].Match.Role != "user" || len(rows[2].Match.Text) > 250 {
		t.Errorf("the matches are %+v, %+v", rows[0].Match, rows[2].Match)
	}
	if got := ids(list(k, catalogue.Query{Text: "giraffe", Sort: "-id", Kind: session.KindChat}, 10)); !slices.Equal(got,
		[]string{"titled", "said", "giraffe-7"}) {
		t.Errorf("by id: %v", got)
	}
	if got := list(k, catalogue.Query{Text: "*"}, 10); len(got) != 0 {
		t.Errorf("a star finds %v", ids(got))
	}
}

// TestFields compares previews and windows with the messages and the decisions.
func TestFields(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("first question"), enginetest.Assistant("first reply"))
	k.Post("s", enginetest.User("second\n question"), enginetest.Call("c", "look"), enginetest.Result("c", "found"))
	k.Post("s", enginetest.Assistant(strings.Repeat("long ", 100)), `{"role":"assistant","content":"aside","delegation_id":"d"}`)
	k.Post("silent", enginetest.User("hello"))
	var last enginetest.Window
	for range 3 {
		last = k.Ask(`{"session_id":"s"}`)
		k.Advance(time.Second)
	}
	k.Ask(`{"session_id":"s","record":false}`)
	rows := list(k, catalogue.Query{Fields: []string{"window", "preview"}}, 10)
	s, silent := rows[0], rows[1]
	if s.Preview.User != "second question" || !strings.HasPrefix(s.Preview.Assistant, "long long ") ||
		!strings.HasSuffix(s.Preview.Assistant, "…") || len(s.Preview.Assistant) > 250 {
		t.Errorf("the preview is %+v", s.Preview)
	}
	if silent.Preview.User != "hello" || silent.Preview.Assistant != "" || silent.Window != nil {
		t.Errorf("a session without reply or window: %+v, %+v", silent.Preview, silent.Window)
	}
	w := s.Window
	if w.DecisionID != last.DecisionID || w.Count != 3 || len(w.Tokens) != 3 || w.Cuts != 0 || *w.Prefix != 1 ||
		w.Tokens[2] != w.Usage.Tokens || w.Usage.Tokens != uint64(last.Usage["tokens"]) {
		t.Errorf("the windows are %+v", w)
	}
	if rows := list(k, catalogue.Query{}, 10); rows[0].Preview != nil || rows[0].Window != nil {
		t.Error("fields are shown that nobody asked for")
	}
}

// TestRefusals expects errors for invalid queries.
func TestRefusals(t *testing.T) {
	k := enginetest.New(t)
	for _, tc := range []struct {
		q    catalogue.Query
		page records.Page
		code string
	}{
		{catalogue.Query{Sort: "created"}, records.Page{}, "invalid_value"},
		{catalogue.Query{Sort: "relevance"}, records.Page{}, "invalid_value"},
		{catalogue.Query{Kind: "talk"}, records.Page{}, "invalid_value"},
		{catalogue.Query{Fields: []string{"all"}}, records.Page{}, "invalid_value"},
		{catalogue.Query{Fields: []string{"window"}}, records.Page{Limit: 201}, "out_of_range"},
		{catalogue.Query{}, records.Page{Cursor: "AAAA"}, "invalid_cursor"},
	} {
		_, err := k.Catalogue.List(t.Context(), k.Admin, ident.DefaultProject, tc.q, tc.page)
		enginetest.RefusedWith(t, err, fault.Invalid, tc.code)
	}
	narrowed := k.Admin
	narrowed.Projects = []string{"other"}
	_, err := k.Catalogue.List(t.Context(), narrowed, ident.DefaultProject, catalogue.Query{}, records.Page{})
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
}
