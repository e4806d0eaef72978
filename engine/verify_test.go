package engine_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/verify"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// wantClean fails the test if a report has findings.
func wantClean(t testing.TB, r *verify.Report) {
	t.Helper()
	for _, f := range r.Findings {
		t.Errorf("tenant %s, project %q, session %q: %s %s: %s (%s)", f.Tenant, f.Project, f.Session, f.Kind, f.Code, f.Detail,
			f.Key)
	}
}

// kinds lists all kinds of records.
var kinds = strings.Fields(`body headers summary decision decision_row effective session open_calls idempotent expiry audit live key project
	job_session job_project job_import job_import_board import job_headless job_summary usage policy policy_version policy_usage module tenant job_tenant built_in
	job_decisions retention key_use memory memory_version memory_time recall_document recall_dead recall_block recall_memory
	recall_stream recall_fresh recall_language recall_corpus job_fold job_unindexed job_backlog board board_entry board_time board_postings
	board_agent board_notice board_value job_board job_inbox job_board_due`)

// A store with every kind of record has no findings, before its background work and after.
func TestVerifyClean(t *testing.T) {
	k := household(t)
	r := k.Verify()
	wantClean(t, r)
	if r.Records != sum(r.Kinds) || r.Tenants != 3 {
		t.Errorf("%d records of %d tenants, kinds %v", r.Records, r.Tenants, r.Kinds)
	}
	for _, kind := range kinds {
		if r.Kinds[kind] == 0 {
			t.Errorf("no %s was met", kind)
		}
	}
	k.Drain()
	wantClean(t, k.Verify())
	k.Advance(500 * 24 * time.Hour)
	k.Drain()
	r = k.Verify()
	wantClean(t, r)
	if r.LeftoverCount > 0 {
		t.Errorf("left over: %+v", r.Leftovers)
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// rawRecord is one record as stored below its seal.
type rawRecord struct {
	tenant     string
	key, value []byte
}

// kind returns the kind in the key layout.
func (r rawRecord) kind() string {
	switch r.key[0] {
	case 'm', 'c':
		return string([]byte{r.key[0], r.key[10]})
	case 'v':
		return string([]byte{'v', r.key[11]})
	case 'e':
		return string([]byte{'e', r.key[2]})
	}
	return strings.TrimRight(string(r.key[:2]), "\x00")
}

// samples returns some records of each kind, including different positions.
func samples(t testing.TB, s store.Store) (some []rawRecord) {
	t.Helper()
	most := campaign.Size(8, 12)
	of := map[string][]rawRecord{}
	for _, one := range rawRecords(t, s) {
		kind := one.kind()
		if kind == "j" || kind[0] == 'v' && len(one.key) > 10 {
			kind += string(one.key[2:min(3, len(one.key))]) // of each project's index
		}
		of[one.tenant+kind] = append(of[one.tenant+kind], one)
	}
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		all := of[kind]
		for i := range all {
			if i*most/len(all) != (i-1)*most/len(all) || i == 0 {
				some = append(some, all[i])
			}
		}
	}
	return some
}

func (r rawRecord) put(t testing.TB, s store.Store, value []byte) {
	t.Helper()
	b := store.Batch{Put: []store.Pair{{Key: r.key, Value: value}}}
	if value == nil {
		b = store.Batch{Delete: [][]byte{r.key}}
	}
	if err := s.Commit(t.Context(), r.tenant, b); err != nil {
		t.Fatal(err)
	}
}

func rawRecords(t testing.TB, s store.Store) (all []rawRecord) {
	t.Helper()
	err := store.Snapshot(t.Context(), s, func(tenant string, it store.Item) error {
		all = append(all, rawRecord{tenant, slices.Clone(it.Key), slices.Clone(it.Value)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// names reports whether a report has a finding about a record, or about the long value that it is a rest of.
func names(r *verify.Report, one rawRecord, code string) bool {
	if store.IsRest(one.key) && code == "damaged" {
		one.key = bytes.TrimPrefix(one.key, []byte("z"))
		one.key = one.key[4 : len(one.key)-2]
	}
	return slices.ContainsFunc(r.Findings, func(f verify.Finding) bool {
		return f.Tenant == one.tenant && f.Key == hex.EncodeToString(one.key) && f.Code == code
	})
}

// TestCampaignVerifyFinds checks that verify finds an error in any record. The long form tries more records of each
// kind.
func TestCampaignVerifyFinds(t *testing.T) {
	k := household(t)
	for name, test := range map[string]func(*testing.T, *enginetest.Kit){"damaged": verifyDamaged, "lost": verifyLost,
		"contradictions": verifyContradictions, "anything": verifyAnything} {
		t.Run(name, func(t *testing.T) {
			test(t, k)
			wantClean(t, enginetest.Verified(t, k.Store)) // unchanged
		})
	}
}

// Any damaged record is named.
func verifyDamaged(t *testing.T, k *enginetest.Kit) {
	for _, one := range samples(t, k.Store) {
		bad := slices.Clone(one.value)
		bad[len(bad)/2] ^= 4
		one.put(t, k.Store, bad)
		if r := enginetest.Verified(t, k.Store); !names(r, one, "damaged") && one.tenant != "leaving" {
			t.Errorf("tenant %s: record %q is damaged; found: %+v", one.tenant, one.key, r.Findings)
		}
		one.put(t, k.Store, one.value)
	}
}

// Any lost record is noticed, except for those that nothing refers to.
func verifyLost(t *testing.T, k *enginetest.Kit) {
	// p: a project without a session; ps: a change of settings; ms: a summary that is not the last; zu: when a key was used; zt: the trace of a window; r: the daily job, which
	// begins anew; s: the store's time, for which the system's is taken; vl: in which languages words are looked for; vx: that a document is dead, which its memory tells of.
	silent := map[string]bool{"k": true, "j": true, "zd": true, "zt": true, "p": true, "ps": true, "ms": true, "zu": true, "r": true, "vl": true,
		"s": true}
	noticed := map[string]int{}
	sweeps := swept(t, k)
	goes := func(one rawRecord) bool { // it is being swept: a job names its incarnation, its inbox or its stream
		return slices.ContainsFunc([]int{2, 11, 12}, func(at int) bool {
			return len(one.key) >= at+8 && bytes.Contains(sweeps, one.key[at:at+8])
		})
	}
	headless := rawRecord{ident.DefaultTenant, []byte("j\x00hincarnat"), nil}
	headless.put(t, k.Store, nil) // which expects such losses
	defer write(t, k.Store, headless.tenant, headless.key, []byte{0})
	for _, one := range samples(t, k.Store) {
		kind := one.kind()
		one.put(t, k.Store, nil)
		switch r := enginetest.Verified(t, k.Store); {
		case len(r.Findings) > 0:
			noticed[kind]++
		// Nothing refers to a session without messages, and a tenant without any looks like an unfinished one.
		case one.tenant == "leaving", silent[kind], bytes.Contains(one.key, []byte("empty")),
			bytes.Contains(one.key, []byte("acme")), bytes.Contains(one.key, []byte("incarnat")):
		default:
			// A sweep removes records piece by piece.
			if !strings.Contains("mcv", kind[:1]) || !goes(one) {
				t.Errorf("tenant %s: record %q is lost, and nothing was found", one.tenant, one.key)
			}
		}
		one.put(t, k.Store, one.value)
	}
	for _, kind := range strings.Fields(`j p zd ze zr mb mh ms u h o i x a f l g y w q t n er eh et vd vf vx vt vk vn vs b ce cd ci
		cg cn`) {
		if noticed[kind] == 0 {
			t.Errorf("no loss of a record %s was noticed", kind)
		}
	}
}

// swept returns the keys of pending sweeps.
func swept(t testing.TB, k *enginetest.Kit) (all []byte) {
	for _, one := range rawRecords(t, k.Store) {
		if one.key[0] == 'j' {
			all = append(all, one.key...)
		}
	}
	return all
}

// altered are whole records that say something wrong, each with what must be found.
func verifyContradictions(t *testing.T, k *enginetest.Kit) {
	swap := func(was, is string) func([]byte) []byte {
		return func(v []byte) []byte {
			if !bytes.Contains(v, []byte(was)) {
				t.Fatalf("no %q in %q", was, v)
			}
			return bytes.Replace(v, []byte(was), []byte(is), 1)
		}
	}
	number := func(field string, n int) func([]byte) []byte {
		return func(v []byte) []byte {
			var m map[string]json.RawMessage
			if err := json.Unmarshal(v, &m); err != nil || m[field] == nil {
				t.Fatalf("no %s in %s", field, v)
			}
			m[field] = json.RawMessage(fmt.Sprint(n))
			out, _ := json.Marshal(m)
			return out
		}
	}
	add := func(n int) func([]byte) []byte {
		return func(v []byte) []byte { return append(slices.Clone(v), make([]byte, n)...) }
	}
	for _, c := range []struct {
		name, prefix, holds string // of the record to change
		alter               func([]byte) []byte
		kind, code          string // expected
	}{
		{"more turns", "h", "talk", number("turns", 9), "headers", "missing"},
		{"fewer turns", "h", "talk", number("turns", 1), "headers", "missing"},
		{"more messages", "h", "talk", number("messages", 99), "body", "missing"},
		{"tokens", "h", "talk", func(v []byte) []byte { return swap(`"tokens":[`, `"tokens":[1`)(v) }, "session", "mismatch"},
		{"no open calls", "h", "talk", number("open_calls", 0), "open_calls", "mismatch"},
		{"open calls of an empty session", "h", "empty", swap(`"kind"`, `"open_calls":1,"kind"`), "open_calls", "missing"},
		{"another kind", "h", "empty", swap(`"chat"`, `"chit"`), "session", "malformed"},
		{"no JSON", "h", "talk", swap(`{`, `[`), "session", "malformed"},
		{"another call", "o", "talk", swap(`"index":0`, `"index":7`), "open_calls", "mismatch"},
		{"a call that is none", "o", "talk", swap(`"seq":`, `"seq":1`), "open_calls", "mismatch"},
		{"another message", "m", "hello", swap("hello", "howdy, partner"), "body", "malformed"},
		{"a summary of less", "m", `"first_turn"`, number("covers", 1), "summary", "mismatch"},
		{"no summary", "m", `"first_turn"`, swap(`{`, `[`), "summary", "malformed"},
		{"a head of another summary", "h", `"summary"`, swap(`"version":`, `"version":1`), "summary", "missing"},
		{"the key of another", "k", "", swap(`"id":"`, `"id":"x`), "key", "malformed"},
		{"a key without a role", "k", "", swap(`"tenant_admin"`, `"root"`), "key", "malformed"},
		{"another project", "p", `"default"`, swap(`"id":"default"`, `"id":"other"`), "project", "malformed"},
		{"a pipeline of nothing", "p", "by-tag", swap(`"by-tag"`, `"by-tig"`), "project", "missing"},
		{"another memory", "e\x00r", "note", swap(`"key":"note"`, `"key":"nite"`), "memory", "malformed"},
		{"more of a memory", "e\x00r", "note", add(3), "memory", "malformed"},
		{"a memory of another time", "e\x00r", "note", swap(`"updated_at":"2026`, `"updated_at":"2025`), "memory_time", "mismatch"},
		{"a memory of other tags", "e\x00r", "note", swap(`["tag"]`, `["tug"]`), "recall_memory", "mismatch"},
		{"a memory of another version", "e\x00r", "note", swap(`{"version":2,`, `{"version":9,`), "memory_version", "missing"},
		{"a memory that stays", "e\x00r", "daily", swap(`"expires_at":"2026`, `"expires_at":"2027`), "expiry", "missing"},
		{"what a memory was", "e\x00h", "note", swap(`"version":1`, `"version":7`), "memory_version", "malformed"},
		{"another entry by time", "e\x00t", "note", swap(`"b":`, `"b":1`), "memory_time", "mismatch"},
		{"a passage of another", "v", "\x04note\x04talk", swap("note", "nite"), "recall_memory", "mismatch"},
		{"a passage that is none", "v", "\x04note\x04talk", swap("\x04talk", "\x7ftalk"), "recall_fresh", "malformed"},
		{"a block of less", "v", "mtor", func(v []byte) []byte {
			block, err := rank.ReadBlock(nil, rank.Place{}, v)
			check(k, err)
			return rank.AppendBlock(nil, rank.Place{}, block[:len(block)-1])
		}, "recall_document", "mismatch"},
		{"passages elsewhere", "v", "mknote", func(v []byte) []byte { return append(v[:len(v)-1:len(v)-1], 9) }, "recall_memory",
			"missing"},
		{"passages that do not parse", "v", "mknote", func(v []byte) []byte { return v[:len(v)-1] }, "recall_memory", "malformed"},
		{"a corpus of more", "v", `"documents"`, number("documents", 5), "recall_corpus", "mismatch"},
		{"a corpus of other lengths", "v", `"documents"`, number("terms", 5), "recall_corpus", "mismatch"},
		{"a session indexed further", "v", `"messages":2`, number("messages", 99), "recall_stream", "mismatch"},
		{"a session of more documents", "v", `"messages":2`, number("next", 99), "recall_stream", "mismatch"},
		{"a board of more", "b", "plans", swap(`"entries":4`, `"entries":3`), "board", "mismatch"},
		{"a board of more values", "b", "plans", swap(`"values":2`, `"values":3`), "board", "mismatch"},
		{"a board of more chat", "b", "plans", swap(`"chat":2`, `"chat":1`), "board", "mismatch"},
		{"a board called otherwise", "b", "plans", swap(`"id":"plans"`, `"id":"plons"`), "board", "malformed"},
		{"a board that is looked at later", "b", "plans", swap(`"due":"2026`, `"due":"2027`), "job_board_due", "missing"},
		{"another text on a board", "c", "apples", swap("apples", "pearls"), "board_entry", "mismatch"},
		{"other tags on a board", "c", "apples", swap(`"fruit"`, `"froit"`), "board_entry", "mismatch"},
		{"an entry of another time", "c", "apples", swap(`"created":1`, `"created":2`), "board_entry", "mismatch"},
		{"a value under another key", "c", "plums", swap(`"key":"owner"`, `"key":"enemy"`), "board_value", "malformed"},
		{"more of an entry", "c", "apples", add(1), "board_entry", "malformed"},
		{"another who was notified", "c", "does @bert", swap(`"kind":"mention"`, `"kind":"control"`), "board_agent", "mismatch"},
		{"a mention that is none", "c", `"mention","entry":3`, swap(`"mention"`, `"control"`), "board_agent", "mismatch"},
		{"a notification of nothing", "c", `"snippet":"does`, number("entry", 77), "board_notice", "orphan"},
		{"unread", "c", `"id":"bert"`, number("unread", 0), "board_agent", "mismatch"},
		{"notifications", "c", `"id":"bert"`, number("notices", 9), "board_agent", "mismatch"},
		{"another agent", "c", `"id":"bert"`, swap(`"bert"`, `"bart"`), "board_agent", "malformed"},
		{"two leads", "c", `"id":"bert"`, swap(`{`, `{"lead":true,`), "board", "mismatch"},
		{"postings of one more", "c", "wapples", func(v []byte) []byte { return append(slices.Clone(v), 0, 77) }, "board_postings",
			"orphan"},
		{"postings of another", "c", "wapples", func([]byte) []byte { return []byte{0, 2} }, "board_entry", "mismatch"},
		{"no daily job", "r", "", swap(`{`, `[`), "retention", "malformed"},
		{"a sweep of decisions", "j\x00d", "", add(1), "job_decisions", "malformed"},
		{"when a key was used", "zu", "", add(1), "key_use", "malformed"},
		{"a mark of nothing", "j\x00u", "", func(v []byte) []byte { return v[:3] }, "job_unindexed", "malformed"},
		{"a mark of another", "j\x00u", "read", swap("read", "rood"), "job_unindexed", "mismatch"},
		{"another live version", "g", "by-tag", number("live", 7), "policy", "malformed"},
		{"the size of a module", "g", "idle", swap(`"size":`, `"size":1`), "policy_usage", "mismatch"},
		{"usage", "q", "", number("versions", 1), "policy_usage", "mismatch"},
		{"a longer module", "w", "keep", add(1), "module", "mismatch"},
		{"no decision", "zd", "not-yet-there", swap(`{`, `[`), "decision", "malformed"},
		{"a decision of another day", "zd", "not-yet-there", swap(`"at":17`, `"at":16`), "decision", "malformed"},
		{"no row", "zr", "not-yet-there", swap(`{`, `[`), "decision_row", "malformed"},
		{"a row of another day", "zr", "not-yet-there", swap(`"at":"20`, `"at":"21`), "decision_row", "malformed"},
		{"a decision of more", "zd", `"talk"`, swap(`"turns":`, `"turns":9`), "decision", "mismatch"},
		{"a decision of other settings", "zd", "not-yet-there", swap(`"effective":"`, `"effective":"00`), "decision", "malformed"},
		{"a tenant that lives", "t", "leaving", swap(`true`, `false`), "tenant", "mismatch"},
		{"a tenant that goes", "t", "acme", swap(`{`, `{"deleting":true,`), "tenant", "mismatch"},
		{"no mark", "l", "", add(1), "live", "malformed"},
		{"another's mark", "l", "", func(v []byte) []byte { return []byte("12345678") }, "key", "mismatch"},
		{"a job of nothing", "j\x00s", "", add(1), "job_session", "malformed"},
		{"an entry that says something", "x", "", add(1), "expiry", "malformed"},
	} {
		done := false
		for _, one := range rawRecords(t, k.Store) {
			value := one.value[:len(one.value)-4] // without its seal
			if done || !bytes.HasPrefix(one.key, []byte(c.prefix)) || one.tenant == "leaving" ||
				!bytes.Contains(value, []byte(c.holds)) && !bytes.Contains(one.key, []byte(c.holds)) {
				continue
			}
			done = true
			write(t, k.Store, one.tenant, one.key, c.alter(value))
			r := enginetest.Verified(t, k.Store)
			if !slices.ContainsFunc(r.Findings, func(f verify.Finding) bool { return f.Kind == c.kind && f.Code == c.code }) {
				t.Errorf("%s: found %+v", c.name, r.Findings)
			}
			one.put(t, k.Store, one.value)
		}
		if !done {
			t.Errorf("%s: there is no such record", c.name)
		}
	}
	for _, key := range []string{"", "?", "h\x00short", "m\x0012345678c\x00", "k\x00two\x00words\x00", "z", "zu",
		"e\x00r12345678key", "e\x00x12345678key\x00", "v\x0012345678qd", "v\x0012345678mt\x001234567812345678", "c\x0012345678", "j\x00c",
		"b\x00two\x00words\x00", "r\x00\x00", "zd", "t\x00acme\x00"} {
		one := rawRecord{ident.DefaultTenant, []byte(key), nil}
		write(t, k.Store, one.tenant, one.key, nil)
		if r := enginetest.Verified(t, k.Store); !names(r, one, "unknown_kind") {
			t.Errorf("the key %q: found %+v", key, r.Findings)
		}
		one.put(t, k.Store, nil)
	}
}

// Whatever a record contains, verify ends, and reports content that the engine does not write.
func verifyAnything(t *testing.T, k *enginetest.Kit) {
	random := rand.New(rand.NewPCG(3, 4))
	left := enginetest.Verified(t, k.Store).LeftoverCount
	for _, one := range samples(t, k.Store) {
		value := one.value[:len(one.value)-4]
		cut := value[:random.IntN(len(value)+1)]
		noise := make([]byte, random.IntN(200))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		odd := [][]byte{{}, cut, noise, []byte("{}"), []byte("null"), bytes.Repeat([]byte{0xff}, 100)}
		for range campaign.Size(1, 2) {
			write(t, k.Store, one.tenant, one.key, odd[random.IntN(len(odd))])
			enginetest.Verified(t, k.Store)
		}
		one.put(t, k.Store, one.value)
		// The same record with the largest possible numbers.
		if n := len(one.key); n > 8 && one.key[0] != 'i' {
			far := rawRecord{one.tenant, append(slices.Clone(one.key[:n-6]), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), nil}
			write(t, k.Store, far.tenant, far.key, value)
			// Jobs of nothing are done, what is being swept goes piece by piece, decisions are loose,
			// and what else expires may have gone before. A language may have been that of documents that are gone.
			if r := enginetest.Verified(t, k.Store); r.Clean() && r.LeftoverCount == left && far.tenant != "leaving" &&
				!bytes.ContainsAny(far.key[:1], "jmxz") && far.kind() != "vl" && !bytes.Contains(swept(t, k), far.key[2:10]) {
				t.Errorf("nothing is found of the record %q", far.key)
			}
			far.put(t, k.Store, nil)
		}
	}
}

// A finding names its project and session, by the names that an operator knows.
func TestVerifySaysWhere(t *testing.T) {
	k := enginetest.New(t)
	k.Post("talk", enginetest.User("hello"), enginetest.Assistant("hi"))
	for _, one := range rawRecords(t, k.Store) {
		if one.key[0] == 'm' && one.key[10] == 'b' || one.key[0] == 'h' {
			one.put(t, k.Store, append(slices.Clone(one.value), 0))
			f := k.Verify().Findings
			if len(f) == 0 || f[0].Project != ident.DefaultProject || f[0].Session != "talk" {
				t.Errorf("record %q: found %+v", one.key, f)
			}
			one.put(t, k.Store, one.value)
		}
	}
}

// After random operations, with background work done or pending, there are no findings.
func TestVerifyAfterRandomOperations(t *testing.T) {
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 7))
		k := enginetest.New(t)
		ctx := t.Context()
		pick := func(names ...string) string { return names[random.IntN(len(names))] }
		ses := func() string { return pick("a", "b", "c", ident.DefaultSession) }
		if seed%2 == 0 {
			k.SetIn(ident.DefaultProject, `{"daily_memory_days":2,"conversation_retention_days":3}`)
		}
		var decisions int
		for step := range 250 {
			var err error
			switch random.IntN(20) {
			case 0, 1, 2, 3:
				id := fmt.Sprint("c", random.IntN(5))
				_, _ = k.TryPost(session.TurnRequest{SessionID: ses()}, enginetest.User("u"), enginetest.Call(id, "f"), enginetest.Result(id, "r"), enginetest.Call(id, "g"))
			case 4:
				_, _ = k.TryPost(session.TurnRequest{SessionID: ses()}, enginetest.Result(fmt.Sprint("c", random.IntN(5)), "late"))
			case 5, 6:
				k.Ask(`{"session_id":%q}`, ses())
				decisions++
			case 7:
				err = k.Sessions.Delete(ctx, k.Admin, ident.DefaultProject, ses())
			case 8:
				file, ferr := k.Sessions.Export(ctx, k.Admin, ident.DefaultProject, ses())
				file.Session.ID = pick("x", "y")
				if ferr == nil {
					_, _ = k.Sessions.Import(ctx, k.Admin, ident.Once{}, ident.DefaultProject, file)
				}
			case 9:
				_, _, _ = k.Policies.Upload(ctx, k.Admin, ident.Once{}, pick("p", "q"), enginetest.Keeping(pick("1", "2", "3")))
			case 10:
				if random.IntN(2) == 0 {
					_ = k.Policies.Delete(ctx, k.Admin, pick("p", "q"))
				} else {
					k.Advance(time.Duration(random.IntN(100)) * time.Hour)
				}
			case 11:
				_, err = k.Step(ctx)
				if random.IntN(3) == 0 {
					k.Drain()
				}
			case 12, 13:
				_, _, err = k.Memories.Store(ctx, k.Admin, ident.Once{}, ident.DefaultProject, memory.Spec{
					Key: pick("m", "n", "o"), Content: cycle(1+random.IntN(70_000)*random.IntN(2), 1+random.IntN(40), "w"),
					Category: pick("core", "daily", "conversation"), SessionID: pick("", "a"), Tags: []string{pick("t", "u")}})
			case 14:
				_, err = k.Memories.Forget(ctx, k.Admin, ident.Once{}, ident.DefaultProject, pick("m", "n", "o"))
			case 15:
				_, err = k.Recall.Recall(ctx, k.Admin, ident.DefaultProject, recall.Query{Query: "u waa", Scope: pick("both", "memories")})
			case 16, 17:
				_, err = k.Boards.PostEntry(ctx, k.Admin, ident.Once{}, pick("x", "y"), board.Post{
					Content: pick("@lead look", "/pause", "@ag and @bg", "a word", cycle(random.IntN(3_000)+1, 40, "w")),
					Tags:    []string{pick("chat", "t")}})
			case 18:
				agent := pick("ag", "bg", "cg")
				_, _, err = k.Boards.PutAgent(ctx, k.Admin, pick("x", "y"), agent, board.AgentSpec{Lead: random.IntN(2) == 0})
				if page, e := k.Boards.Inbox(ctx, k.Admin, "x", agent, board.InboxQuery{}); e == nil && len(page.Items) > 0 {
					up := page.Items[random.IntN(len(page.Items))].ID
					_, err = k.Boards.AckInbox(ctx, k.Admin, ident.Once{}, "x", agent, board.InboxAck{UpTo: up})
				}
			case 19:
				days, chat := 1+random.IntN(5), random.IntN(2) == 0
				switch random.IntN(6) {
				case 0:
					err = k.Boards.Delete(ctx, k.Admin, pick("x", "y"))
				case 1:
					err = k.Boards.DeleteAgent(ctx, k.Admin, pick("x", "y"), pick("ag", "bg"))
				case 2:
					_, err = k.Boards.Purge(ctx, k.Admin, pick("x", "y"), board.Purge{IsChat: &chat})
				case 3:
					_, _, err = k.Boards.Put(ctx, k.Admin, pick("x", "y"), board.Spec{RetentionDays: &days})
				case 4:
					_, err = k.Sessions.PurgeConversations(ctx, k.Admin, session.PurgeSpec{ProjectID: ident.DefaultProject})
				case 5:
					_, err = k.Jobs.RunRetention(ctx, k.Admin)
				}
			}
			if known := (*fault.Error)(nil); err != nil && !errors.As(err, &known) {
				t.Fatal(err)
			}
			if step%10 == 0 {
				wantClean(t, k.Verify())
			}
		}
		r := k.Verify()
		wantClean(t, r)
		if decisions == 0 || r.Kinds["body"] == 0 {
			t.Errorf("seed %d met %v: the test tells nothing", seed, r.Kinds)
		}
	}
}

// An empty store has no findings, and a failed walk returns an error.
func TestVerifyOfNothing(t *testing.T) {
	wantClean(t, enginetest.Verified(t, memstore.New()))
	closed := memstore.New()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Verify(t.Context(), store.Seal(closed)); err == nil {
		t.Error("a closed store is clean")
	}
}
