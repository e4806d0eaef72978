package recall_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// fill stores enough meaningless memories that all earlier ones are put into blocks.
func fill(k *enginetest.Kit) {
	k.Helper()
	for i := range 70 {
		k.Remember(memory.Spec{Key: fmt.Sprint("filler-", i), Content: fmt.Sprint("filler number", i)})
	}
	k.Drain()
}

// A word is found in any spelling: case, form, accents, script or encoding.
func TestRecallFindsWords(t *testing.T) {
	cases := []struct{ key, content, query string }{
		{"case", "The Eiffel Tower", "EIFFEL"},
		{"form", "She was running marathons", "marathon run"},
		{"german", "Ich habe die Häuser und die Bäume nicht gesehen", "Haus"},
		{"french", "Nous avons mangé dans les restaurants de l'université", "universite restaurant"},
		{"russian", "Мы читали интересные книги", "книга"},
		{"turkish", "Bu evlerde çok güzel bir bahçe var", "bahçe"},
		{"accents", "A naïve café owner", "cafe"},
		{"decomposed", "re\u0301sume\u0301 sent", "résumé"},
		{"chinese", "我昨天去了故宫博物院", "博物院"},
		{"one-character", "猫", "猫"},
		{"japanese", "彼女はピアノを弾きます", "弾きます"},
		{"halfwidth", "ﾋﾟｱﾉ教室", "ピアノ教室"},
		{"korean", "도서관에서 공부했다", "도서관"},
		{"thai", "ฉันชอบกินข้าวผัด", "ข้าวผัด"},
		{"arabic", "ذهبت إلى المكتبة أمس", "المكتبة"},
		{"hebrew", "קניתי ספר חדש", "ספר"},
		{"emoji", "Party time 🎉", "🎉"},
		{"emoji-tone", "Well done 👍🏽", "👍"},
		{"flag", "Holiday in 🇵🇹 soon", "🇵🇹"},
		{"zero-width", "pass\u200bword hint\ufeff is swor\u00addfish", "swordfish password"},
		{"full-width", "ＡＢＣ１２３ code", "abc123"},
		{"apostrophe", "Melanie’s pottery", "melanie's pottery"},
		{"number", "Flight 4711 at gate 12", "4711"},
		{"stop-words", "the who", "the who"},
		{"identifier", "call get_user_details now", "user details"},
	}
	k := enginetest.New(t)
	for _, c := range cases {
		k.Remember(memory.Spec{Key: c.key, Content: c.content})
	}
	check := func(how string) {
		for _, c := range cases {
			if got := k.Found(recall.Query{Query: c.query}); len(got) == 0 || got[0] != c.key {
				t.Errorf("%s: %q finds %q, want %s", how, c.query, got, c.key)
			}
		}
	}
	check("fresh")
	fill(k)
	check("in blocks")
}

// Odd texts are stored, and found by their content or not at all, without failures.
func TestRecallOfOddTexts(t *testing.T) {
	k := enginetest.New(t)
	var distinct strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&distinct, "w%d ", i)
	}
	texts := map[string]string{
		"long":      strings.Repeat("lorem ipsum dolor ", 58_000) + "needle",
		"distinct":  distinct.String(),
		"one-word":  strings.Repeat("a", 1<<20),
		"unspaced":  strings.Repeat("漢字仮名", 80_000) + "結末",
		"symbols":   "!?…—«»",
		"expanding": strings.Repeat("ﷺ", 1000),
		"nul-ish":   "a\u0001b \x7f c",
	}
	for key, text := range texts {
		k.Remember(memory.Spec{Key: key, Content: text})
	}
	for _, how := range []string{"fresh", "in blocks"} {
		for query, want := range map[string]string{"needle": "long", "w11999": "distinct",
			strings.Repeat("a", 70): "one-word", "結末": "unspaced", "w3 w9000": "distinct"} {
			if got := k.Found(recall.Query{Query: query}); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %.20q finds %q, want %s", how, query, got, want)
			}
		}
		fill(k)
	}
	for key := range texts {
		k.Forget(key)
	}
	if got := k.Found(recall.Query{Query: "needle w11999 結末"}); len(got) > 0 {
		t.Errorf("once forgotten, %q are found", got)
	}
	k.Drain()
	for _, word := range []string{"needle", "w11999", "結末", "aaaaaaaa"} {
		if k.Holds(ident.DefaultTenant, word) {
			t.Errorf("the store still holds %q", word)
		}
	}
}

// Invalid queries are rejected, with a hint on what to do instead.
func TestRecallRefuses(t *testing.T) {
	k := enginetest.New(t)
	for field, q := range map[string]recall.Query{
		"query":                {},
		"limit":                {Query: "x", Limit: 101},
		"scope":                {Query: "x", Scope: "everything"},
		"category":             {Query: "x", Category: "weekly"},
		"viewer.result_tokens": {Query: "x", Viewer: &ident.Viewer{ResultTokens: new(-1)}},
		"since":                {Query: "x", Since: "yesterday"},
		"until":                {Query: "x", Since: "2026-02-01", Until: "2026-01-01"},
		"session_id":           {Query: "x", SessionID: "a\tb"},
		"tags":                 {Query: "x", Tags: make([]string, 10_000)},
	} {
		_, err := k.Recall.Recall(t.Context(), k.Admin, ident.DefaultProject, q)
		if e := enginetest.WantKind(t, err, fault.Invalid); len(e.Fields) != 1 || e.Fields[0].Field != field {
			t.Errorf("%s: %v", field, e)
		}
	}
	long := recall.Query{Query: strings.Repeat("word ", 10_000)}
	_, err := k.Recall.Recall(t.Context(), k.Admin, ident.DefaultProject, long)
	enginetest.WantKind(t, err, fault.Invalid)
	_, err = k.Recall.Recall(t.Context(), k.Admin, "nowhere", recall.Query{Query: "x"})
	enginetest.WantKind(t, err, fault.NotFound)
}

// Without words the most recent come first, for memories and messages alike.
func TestRecallOfTheMostRecent(t *testing.T) {
	k := enginetest.New(t)
	for i := range 5 {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: "note"})
		k.Advance(time.Hour)
		k.Post(pick(rngOf(i), "s1", "s2"), enginetest.User(fmt.Sprint("message ", i)))
		k.Advance(time.Hour)
	}
	for _, c := range []struct {
		q    recall.Query
		want string
	}{
		{recall.Query{Query: "*", Limit: 2}, "m4 m3"},
		{recall.Query{Query: " * ", Limit: 2, Scope: "transcript"}, "message 4 message 3"},
		{recall.Query{Query: "*", Limit: 3, Scope: "both"}, "message 4 m4 message 3"},
		{recall.Query{Until: "2026-03-05T14:00:00Z"}, "m1 m0"},
		{recall.Query{Since: "2026-03-05T20:00:00"}, "m4"},
		{recall.Query{Since: "2026-03-05T19:00:00", Scope: "transcript"}, "message 4 message 3"},
	} {
		if got := strings.Join(k.Found(c.q), " "); got != c.want {
			t.Errorf("%+v finds %s, want %s", c.q, got, c.want)
		}
	}
}

// Messages are found at once, the same before and after a job has indexed them, and only if the viewer may see them.
func TestRecallOfTranscripts(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s1", enginetest.User("we planned the trip to Lisbon"), enginetest.Assistant("with a stop in Madrid"))
	k.Post("s2", enginetest.User("the piano needs tuning"),
		`{"role":"assistant","content":"tuning by Ada","delegation_id":"A"}`)
	query := func(q recall.Query) string {
		q.Scope = "transcript"
		return strings.Join(k.Found(q), "|")
	}
	viewer := func(d string) *ident.Viewer { return &ident.Viewer{Agent: "x", DelegationID: &d} }
	check := func(how string) {
		t.Helper()
		for _, c := range []struct {
			q    recall.Query
			want string
		}{
			{recall.Query{Query: "Lisbon"}, "we planned the trip to Lisbon|with a stop in Madrid"},
			{recall.Query{Query: "Lisbon", SessionID: "s2"}, ""},
			{recall.Query{Query: "tuning Ada"}, "tuning by Ada|the piano needs tuning"},
			{recall.Query{Query: "Ada", Viewer: viewer("A")}, "tuning by Ada|the piano needs tuning"},
			{recall.Query{Query: "Ada", Viewer: viewer("B")}, ""},
			{recall.Query{Query: "piano", Viewer: viewer("B")}, "the piano needs tuning"},
			{recall.Query{Query: "Lisbon", Category: "core"}, ""},
		} {
			if got := query(c.q); got != c.want {
				t.Errorf("%s: %+v finds %q, want %q", how, c.q, got, c.want)
			}
		}
	}
	check("not indexed")
	k.Drain()
	check("indexed")
	for i := range 80 {
		k.Post("s3", enginetest.User(fmt.Sprint("chatter number", i)))
	}
	check("beside messages not indexed")
	k.Drain()
	check("in blocks")
	k.Post("s1", enginetest.User("Lisbon was sunny"))
	if got := query(recall.Query{Query: "sunny", Limit: 1}); got != "Lisbon was sunny" {
		t.Errorf("right after the turn: %q", got)
	}
	both := k.Search(recall.Query{Query: "Lisbon", Scope: "both", Limit: 1})
	if len(both.Data) != 1 || both.Data[0].Kind != "message" || both.Data[0].SessionID != "s1" || both.Incomplete {
		t.Errorf("both: %+v", both)
	}
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "s1"); err != nil {
		t.Fatal(err)
	}
	if got := query(recall.Query{Query: "Lisbon"}); got != "" {
		t.Errorf("of a deleted session: %q", got)
	}
	k.Drain()
	for _, word := range []string{"lisbon", "Lisbon", "sunni", "madrid"} {
		if k.Holds(ident.DefaultTenant, word) {
			t.Errorf("the store still holds %q", word)
		}
	}
	if got := query(recall.Query{Query: "piano"}); !strings.HasPrefix(got, "the piano") {
		t.Errorf("of another session: %q", got)
	}
}

// What only another delegation says neither stands for a word of the query nor reveals that the word exists.
func TestRecallNamesNoHiddenWords(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("a narrow passage"), enginetest.User("the parcel was received"),
		`{"role":"assistant","content":"passkey recieved passkey","delegation_id":"A"}`,
		`{"role":"assistant","content":"password recieved","delegation_id":"A"}`)
	other := "B"
	for _, how := range []string{"not indexed", "in blocks"} {
		for query, want := range map[string]string{"pass*": "passag", "recieved": "receiv"} {
			viewer := &ident.Viewer{Agent: "x", DelegationID: &other}
			r := k.Search(recall.Query{Query: query, Scope: "transcript", Viewer: viewer})
			if len(r.Data) == 0 || strings.Join(r.Data[0].Why.Terms[0].As, " ") != want {
				t.Errorf("%s: %q finds %+v, want one as %q", how, query, r.Data, want)
			}
		}
		for i := range 80 {
			k.Post("t", enginetest.User(fmt.Sprint("chatter number", i)))
		}
		k.Drain()
	}
}

// reading is a store that counts the documents read from blocks.
type reading struct {
	store.Store
	documents int
}

func (r *reading) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	for _, key := range q.Keys {
		if records.RecallDocument.Is(key) {
			r.documents++
		}
	}
	return r.Store.Read(ctx, tenant, q)
}

// A namespace with few memories is searched without reading better matches elsewhere, however many there are.
func TestRecallReadsOneNamespace(t *testing.T) {
	raw := &reading{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	for i := range 400 {
		k.Remember(memory.Spec{Namespace: []string{"u", "bob"}, Key: fmt.Sprint("k", i),
			Content: fmt.Sprint("favourite food: rice ", i)})
	}
	for i, namespace := range [][]string{{"u", "ada"}, {"u", "ada", "x"}, {"u", "ada-b"}, {"u"}, {}} {
		k.Remember(memory.Spec{Namespace: namespace, Key: "k",
			Content: fmt.Sprint("there is much food of many a sort ", i)})
	}
	for i := range 70 {
		k.Keep(fmt.Sprint("other", i), "chatter")
	}
	k.Drain()
	raw.documents = 0
	var got []string
	r := k.Search(recall.Query{Query: "favourite food", Namespace: []string{"u", "ada"}})
	for _, h := range r.Data {
		got = append(got, strings.Join(h.Namespace, "/"))
	}
	slices.Sort(got)
	if strings.Join(got, " ") != "u/ada u/ada/x" || r.Incomplete || raw.documents > 10 {
		t.Errorf("%q, %d documents read", got, raw.documents)
	}
}

// Messages beyond what one request can search are counted, and found once the job has reached them.
func TestRecallSaysWhatItMisses(t *testing.T) {
	k := enginetest.New(t)
	messages := make([]string, 2100)
	for i := range messages {
		messages[i] = enginetest.User(fmt.Sprint("turn ", i))
	}
	messages[len(messages)-1] = enginetest.User("the end of it")
	for range 2 {
		k.Post("long", messages...)
	}
	q := recall.Query{Query: "end", Scope: "transcript"}
	if r := k.Search(q); !r.Incomplete || r.UnindexedMessages != 4200-4096 {
		t.Errorf("incomplete %v, %d not searched", r.Incomplete, r.UnindexedMessages)
	}
	k.Drain()
	if r := k.Search(q); r.Incomplete || len(r.Data) < 2 || r.Data[0].Content != "the end of it" {
		t.Errorf("incomplete %v, %d found", r.Incomplete, len(r.Data))
	}
}

// A project whose transcripts are never searched has no index of them.
func TestUnsearchedTranscriptsCostNothing(t *testing.T) {
	k := enginetest.New(t)
	for range 3 {
		k.Post("s", enginetest.User("some words"))
	}
	k.Drain()
	for _, it := range k.Everything(ident.DefaultTenant) {
		if it.Key[0] == 'v' || it.Key[0] == 'j' {
			t.Errorf("there is %q", it.Key)
		}
	}
}

// Deleting a project deletes its indexes and their jobs.
func TestDeletedProjectLeavesNoIndex(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("some words"))
	k.Search(recall.Query{Query: "words", Scope: "transcript"})
	fill(k)
	k.Post("s", enginetest.User("more words"))
	k.Remember(memory.Spec{Key: "fresh", Content: "words"})
	if err := k.DeleteProject(t.Context(), k.Admin, ident.DefaultProject); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	for _, it := range k.Everything(ident.DefaultTenant) {
		if it.Key[0] == 'v' || it.Key[0] == 'j' {
			t.Errorf("there is %q", it.Key)
		}
	}
}
