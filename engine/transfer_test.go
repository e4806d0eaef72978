package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// asTenant creates a tenant and lets k act as its admin.
func asTenant(k *enginetest.Kit, id string) {
	k.Helper()
	made, err := k.CreateTenant(k.Context(), ident.Once{}, tenant.Spec{ID: id})
	if err != nil {
		k.Fatal(err)
	}
	if k.Admin, err = k.Tenants.Authenticate(k.Context(), made.AdminKey); err != nil {
		k.Fatal(err)
	}
}

func export(k *enginetest.Kit) []byte {
	k.Helper()
	var out bytes.Buffer
	if err := k.ExportTenant(k.Context(), k.Admin, &out); err != nil {
		k.Fatal(err)
	}
	return out.Bytes()
}

func tryImport(k *enginetest.Kit, file []byte) (transfer.ImportReport, error) {
	return k.ImportTenant(k.Context(), k.Admin, ident.Once{}, transfer.ImportSpec{}, bytes.NewReader(file))
}

func imported(k *enginetest.Kit, file []byte) transfer.ImportReport {
	k.Helper()
	r, err := tryImport(k, file)
	if err != nil {
		k.Fatal(err)
	}
	return r
}

// settle gives a tenant some records of every kind.
func settle(k *enginetest.Kit) {
	k.Helper()
	for n := range 3 {
		module := wasmtest.Policy(wasmtest.Manifest(fmt.Sprint(n)), wasmtest.Keep())
		if _, _, err := k.Policies.Upload(k.Context(), k.Admin, ident.Once{}, "mine", module); err != nil {
			k.Fatal(err)
		}
	}
	if err := k.Policies.DeleteVersion(k.Context(), k.Admin, "mine", 2); err != nil {
		k.Fatal(err)
	}
	k.MakeProject("other")
	k.SetIn("other", `{"session_history_depth":2,"pipeline":[{"policy":"mine@3"},{"policy":"tool-pair-trim","config":{}}]}`)
	for i := range 40 {
		k.Post("long", enginetest.User(fmt.Sprintf("question <%d> & \u2028", i)), enginetest.Call("c", "tool"))
		k.Post("long", enginetest.Result("c", strings.Repeat("r", i*100)), enginetest.Assistant("done"), enginetest.Call("open", "later"))
		k.Advance(enginetest.ADay / 8)
	}
	k.Post("", "{ \"role\": \"user\",\n  \"content\": \"on two lines\", \"own_field\": [1.0, 1e3] }")
	k.Post("big", enginetest.User(strings.Repeat("long words ", 50_000)))
	if _, err := k.Sessions.Create(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		session.Spec{ID: "empty", Kind: "background", Title: "Nightly", Agent: "cron"}); err != nil {
		k.Fatal(err)
	}
	in := session.TurnRequest{SessionID: "delegated", Agent: "main", Messages: enginetest.Raw(
		`{"role":"user","content":"x","tags":["t"]}`, `{"role":"assistant","content":"y","agent":"sub","delegation_id":"d1"}`)}
	if _, err := k.Sessions.AppendTurn(k.Context(), k.Admin, ident.Once{}, "other", in); err != nil {
		k.Fatal(err)
	}
	settleMemories(k)
	settleBoards(k, 100)
}

// shown returns everything visible of a tenant, without what changes in an import.
func shown(k *enginetest.Kit) (out []string) {
	k.Helper()
	add := func(v any, err error) {
		k.Helper()
		b, merr := json.Marshal(v)
		if err = errors.Join(err, merr); err != nil {
			k.Fatal(err)
		}
		out = append(out, string(b))
	}
	projects, err := k.Projects.List(k.Context(), k.Admin, records.Page{})
	if err != nil {
		k.Fatal(err)
	}
	for _, p := range projects.Data {
		out = append(out, p.ID+" "+p.Name)
		add(k.Projects.Settings(k.Context(), k.Admin, p.ID))
		sessions, err := k.Sessions.List(k.Context(), k.Admin, p.ID, records.Page{})
		add(sessions, err)
		for _, s := range sessions.Data {
			add(k.Sessions.Export(k.Context(), k.Admin, p.ID, s.ID))
			for _, format := range []string{"openai.chat", "anthropic.messages", "openai.responses", "text"} {
				for _, limits := range []string{`{}`, `{"max_messages":0,"max_tokens":0}`} {
					request := fmt.Sprintf(`{"session_id":%q,"format":%q,"budget":%s}`, s.ID, format, limits)
					var req window.Request
					if err := json.Unmarshal([]byte(request), &req); err != nil {
						k.Fatal(err)
					}
					b, err := k.Assemble(p.ID, &req, []byte(request), nil)
					var w struct {
						Messages json.RawMessage `json:"messages"`
						Text     string          `json:"text"`
						Usage    json.RawMessage `json:"usage"`
					}
					if err == nil {
						err = json.Unmarshal(b, &w)
					}
					if refused := (*fault.Error)(nil); errors.As(err, &refused) {
						out = append(out, refused.Code)
						continue
					}
					out = append(out, string(w.Messages))
					add(w, err)
				}
			}
		}
	}
	shownMemories(k, add)
	shownBoards(k, add)
	policies, err := k.Policies.List(k.Context(), k.Admin, records.Page{})
	for _, p := range policies.Data {
		if !p.BuiltIn {
			add(p, err)
			for _, v := range p.Versions {
				add(k.Policies.GetVersion(k.Context(), k.Admin, p.Name, v.Version))
			}
		}
	}
	return out
}

// A tenant that is exported and imported as another shows the same: settings, sessions, windows to the byte,
// policies.
func TestTenantRoundTrip(t *testing.T) {
	k := enginetest.New(t)
	asTenant(k, "one")
	settle(k)
	want := shown(k)
	file := export(k)
	for _, secret := range []string{"mk_", "hash", "test"} {
		if bytes.Contains(file, []byte(`"`+secret)) {
			t.Errorf("the file holds %q", secret)
		}
	}

	other := enginetest.New(t) // another server
	other.Now = k.Clock()
	asTenant(other, "two")
	r := imported(other, file)
	if r.Imported["session"] != 5 || r.Imported["project"] != 2 || r.Imported["policy"] != 1 || r.Records["turn"] != 83 ||
		r.Imported["memory"] != 29 || r.Imported["board"] != 3 {
		t.Errorf("%+v", r)
	}
	other.Drain()
	got := shown(other)
	if len(got) != len(want) {
		t.Fatalf("%d facts, want %d", len(got), len(want))
	}
	for i := range want {
		if i == 0 {
			continue
		}
		if got[i] != want[i] {
			t.Fatalf("fact %d:\n%s", i, apart(got[i], want[i]))
		}
	}
	for _, it := range other.Everything("two") {
		// A board's next retention check, and putting a few documents into blocks, are not due.
		later := bytes.HasPrefix(it.Key, []byte("j\x00e")) || bytes.HasPrefix(it.Key, []byte("j\x00f"))
		if bytes.HasPrefix(it.Key, []byte("j\x00")) && !later {
			t.Errorf("a job is left: %q", it.Key)
		}
	}
	// The open call at the end is still open, and the next turn has the next number.
	if next := other.Post("long", enginetest.Result("open", "late")); next.Turn != 81 {
		t.Errorf("the next turn is %d", next.Turn)
	}
	// A second export has the same lines, except for the header, the trailer and the project that every tenant has.
	again := enginetest.New(t)
	again.Now = k.Clock()
	asTenant(again, "one")
	imported(again, file)
	a, b := lines(file), lines(export(again))
	if len(a) != len(b) {
		t.Fatalf("%d lines, then %d", len(a), len(b))
	}
	for i := 1; i < len(a)-1; i++ {
		if a[i] != b[i] && !strings.HasPrefix(a[i], `{"type":"project","id":"default"`) {
			t.Fatalf("line %d of the export of the import is\n%.1000s\nwas\n%.1000s", i+1, b[i], a[i])
		}
	}
}

// apart shows where two texts start to differ.
func apart(got, want string) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	from := max(0, at-200)
	return fmt.Sprintf("%.600s\nwant\n%.600s", got[from:], want[from:])
}

func lines(file []byte) []string {
	return strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
}

// sealed joins lines and appends a matching last line.
func sealed(lines []string) []byte {
	body := strings.Join(lines, "\n") + "\n"
	records := map[string]int{}
	for _, l := range lines[1:] {
		var kind struct{ Type string }
		_ = json.Unmarshal([]byte(l), &kind)
		records[kind.Type]++
	}
	counts, _ := json.Marshal(records)
	sum := sha256.Sum256([]byte(body))
	return []byte(body + `{"type":"end","records":` + string(counts) + `,"sha256":"` + hex.EncodeToString(sum[:]) + "\"}\n")
}

// A file that is incomplete, or wrong anywhere, is refused with the line, and nothing is stored.
func TestImportRefusesFaultyFiles(t *testing.T) {
	k := enginetest.New(t)
	asTenant(k, "one")
	settle(k)
	file := export(k)
	good := lines(file)
	body := good[:len(good)-1]
	edit := func(old, new string) []byte {
		t.Helper()
		text := strings.Join(body, "\n")
		if !strings.Contains(text, old) {
			t.Fatalf("the file has no %s", old)
		}
		return sealed(strings.Split(strings.Replace(text, old, new, 1), "\n"))
	}
	flipped := bytes.Replace(file, []byte("question <7>"), []byte("question <8>"), 1)
	without := func(part string) []byte {
		var out []string
		dropped := false
		for _, l := range body {
			if !dropped && strings.Contains(l, part) {
				dropped = true
				continue
			}
			out = append(out, l)
		}
		return sealed(out)
	}
	asTenant(k, "two")
	before := len(k.Everything("two"))
	for name, c := range map[string]struct {
		file []byte
		code string
	}{
		"nothing":            {nil, "export_incomplete"},
		"cut in a line":      {file[:len(file)/2], ""},
		"cut between lines":  {[]byte(strings.Join(good[:len(good)/2], "\n") + "\n"), "export_incomplete"},
		"without its end":    {[]byte(strings.Join(body, "\n") + "\n"), "export_incomplete"},
		"a changed byte":     {flipped, "checksum_mismatch"},
		"more after the end": {append(bytes.Clone(file), file...), "invalid_export"},
		"no header":          {sealed(body[1:]), "invalid_export"},
		"another version":    {edit(`{"mneme_export":1`, `{"mneme_export":2`), "invalid_export"},
		"not JSON":           {edit(`{"type":"session"`, `{"type":session`), "invalid_export"},
		"an unknown type":    {edit(`{"type":"session_end"`, `{"type":"dream"`), "unknown_record"},
		"an unknown field":   {edit(`{"type":"session",`, `{"type":"session","mood":1,`), "invalid_export"},
		"an unknown project": {edit(`"type":"session","project":"default"`, `"type":"session","project":"nowhere"`), "unknown_project"},
		"a bad id":           {edit(`"id":"long"`, `"id":"lo\tng"`), "invalid_id"},
		"a session's dots":   {edit(`"id":"long"`, `"id":".."`), "invalid_id"},
		"a project's dots":   {edit(`"type":"project","id":"default"`, `"type":"project","id":"."`), "invalid_id"},
		"a memory's dots":    {edit(`"key":"fact1"`, `"key":".."`), "invalid_id"},
		"a board's dots":     {edit(`"type":"board","id":"quiet"`, `"type":"board","id":".."`), "invalid_id"},
		"a board unknown":    {edit(`"board_id":"infra","content":"/pause"`, `"board_id":"x","content":"/pause"`), "invalid_export"},
		"a board twice":      {edit(`"type":"board","id":"quiet"`, `"type":"board","id":"infra"`), "repeated"},
		"an entry's id":      {edit(`"id":"bme_`, `"id":"bmx_`), "invalid_id"},
		"an entry's number":  {edit(`_000000000002"`, `_000000000001"`), "out_of_order"},
		"an entry's chat":    {edit(`"is_chat":true`, `"is_chat":false`), "invalid_value"},
		"an entry left out":  {without(`"type":"board_entry"`), "invalid_value"},
		"a value left out":   {without(`"type":"board_value"`), "invalid_value"},
		"a value twice":      {edit(`"key":"plan"`, `"key":"owner"`), "out_of_order"},
		"a value elsewhere":  {edit(`"key":"owner","board_id":"infra"`, `"key":"owner","board_id":"quiet"`), "invalid_export"},
		"two leads":          {edit(`"lead":false`, `"lead":true`), "invalid_value"},
		"no end of board":    {without(`"type":"board_end"`), "invalid_export"},
		"an agent alone":     {without(`"type":"board"`), "invalid_export"},
		"a memory twice":     {edit(`"key":"fact1"`, `"key":"fact0"`), "repeated"},
		"a memory nowhere":   {edit(`"type":"memory","project":"default"`, `"type":"memory","project":"none"`), "unknown_project"},
		"a memory's time":    {edit(`"updated_at":"2026-`, `"updated_at":"2025-`), "out_of_range"},
		"a later version": {edit(`"expires_at":null,"trust":"model","provenance":{"origin":"api"},"version":2`,
			`"expires_at":null,"trust":"model","provenance":{"origin":"api"},"version":9`), "invalid_value"},
		"an unknown trust":  {edit(`"trust":"model"`, `"trust":"high"`), "invalid_value"},
		"an unknown origin": {edit(`"provenance":{"origin":"api"`, `"provenance":{"origin":"dream"`), "invalid_value"},
		"an unknown kind":   {edit(`"category":"daily"`, `"category":"weekly"`), "invalid_value"},
		"core for a time":   {edit(`"category":"daily"`, `"category":"core"`), "core_never_expires"},
		"a session twice":   {edit(`"id":"empty"`, `"id":"dashboard"`), "repeated"},
		"a turn left out":   {without(`"turn":7,`), "invalid_turn"},
		"no end of session": {without(`"type":"session_end","turns":80`), "invalid_export"},
		"a result no call":  {edit(`"tool_call_id":"c"`, `"tool_call_id":"x"`), "invalid_messages"},
		"settings":          {edit(`"session_history_depth":2`, `"session_history_depth":200`), "out_of_range"},
		"a policy nowhere":  {edit(`"policy":"mine@3"`, `"policy":"none"`), "unknown_policy"},
		"no module":         {edit(`"module":"AGFz`, `"module":"BGFz`), "module_refused"},
		"a module left out": {without(`"type":"policy_module"`), "invalid_value"},
		"a live version":    {edit(`"live":1`, `"live":2`), "invalid_value"},
	} {
		_, err := tryImport(k, c.file)
		refused := (*fault.Error)(nil)
		if !errors.As(err, &refused) || refused.Kind != fault.Invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.code != "" && refused.Code != c.code {
			t.Errorf("%s: %s, want %s", name, refused, c.code)
		}
		if c.code == "invalid_id" && !strings.HasPrefix(refused.Detail, "line ") {
			t.Errorf("%s: no line is named: %s", name, refused.Detail)
		}
		k.Drain()
	}
	if n := len(k.Everything("two")); n > before+1 { // the record of the daily job
		t.Errorf("%d records, %d before", n, before)
	}
	narrow := k.Admin
	narrow.Projects = []string{ident.DefaultProject}
	_, err := k.ImportTenant(t.Context(), narrow, ident.Once{}, transfer.ImportSpec{}, bytes.NewReader(file))
	enginetest.WantKind(t, err, fault.Forbidden)
	enginetest.WantKind(t, k.ExportTenant(t.Context(), narrow, io.Discard), fault.Forbidden)
	for _, way := range []string{"skip", "replace", "merge"} {
		_, err = k.ImportTenant(t.Context(), k.Admin, ident.Once{}, transfer.ImportSpec{OnConflict: way}, bytes.NewReader(file))
		if refused := enginetest.WantKind(t, err, fault.Invalid); refused.Fields[0].Field != "on_conflict" {
			t.Errorf("%s: %v", way, refused)
		}
	}
	imported(k, file) // the original file is accepted
}

// If any name is taken, nothing is imported.
func TestImportConflicts(t *testing.T) {
	k := enginetest.New(t)
	asTenant(k, "one")
	settle(k)
	file := export(k)

	asTenant(k, "two")
	k.Post("long", enginetest.User("ours"))
	k.SetIn(ident.DefaultProject, `{"session_history_depth":7}`)
	foreign := wasmtest.Policy(wasmtest.Manifest("foreign"), wasmtest.Keep())
	k.Upload("mine", foreign)
	k.Remember(memory.Spec{Key: "home", Content: "our cabin"})
	k.Write("infra", "our infrastructure", "ours")
	_, err := tryImport(k, file)
	refused := enginetest.WantKind(t, err, fault.Conflict)
	var taken []string
	for _, f := range refused.Fields {
		taken = append(taken, f.Detail)
	}
	want := []string{`policy "mine" exists`, `project "default" exists`, `session "long" of project "default" exists`,
		`memory "home" of project "default" exists`, `board "infra" exists`}
	if refused.Code != "import_conflict" || !slices.Equal(taken, want) {
		t.Errorf("%s: %q", refused, taken)
	}
	if got := k.SessionIDs(); len(got) != 1 || k.Holds("two", "Lisbon") {
		t.Errorf("a refused import left %v", got)
	}

	// After an import every name is taken, even for equal content, except for an empty project.
	asTenant(k, "three")
	r := imported(k, file)
	_, err = tryImport(k, file)
	refused = enginetest.WantKind(t, err, fault.Conflict)
	things := -1
	for _, n := range r.Imported {
		things += n
	}
	if said := fmt.Sprintf("%d things", things); !strings.HasPrefix(refused.Detail, said) {
		t.Errorf("%s, want %s", refused, said)
	}
}

// A repeated request gets the same answer, and another file with its key is refused.
func TestImportOnce(t *testing.T) {
	k := enginetest.New(t)
	asTenant(k, "one")
	k.Post("s", enginetest.User("x"))
	file := export(k)
	asTenant(k, "two")
	once := ident.Once{Key: "import-1"}
	run := func(file []byte) (transfer.ImportReport, error) {
		return k.ImportTenant(t.Context(), k.Admin, once, transfer.ImportSpec{}, bytes.NewReader(file))
	}
	first, err := run(file)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := run(file); err != nil || fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("%+v, then %+v, %v", first, again, err)
	}
	_, err = run(append([]byte(" "), file...))
	enginetest.WantKind(t, err, fault.Invalid)
}
