package hostapi

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

const hooksManifest = `{"abi":"1.3","hooks":["assemble","admit","remember","recall","retain"]}`

// memoryCall returns a call of a hook with a candidate and a memory.
func memoryCall(d plan.Digest, h plan.Hook) plan.Call {
	c := twoRecords(d)
	c.Request.Hook = h
	if !h.Assembles() {
		c.Request.Extra = make([]plan.Extra, len(c.Request.Records))
	}
	return c
}

// The bytes below were written by hand from ABI.md.
func TestEncodeExtraGolden(t *testing.T) {
	r := &plan.Request{Hook: plan.HookRetain, Origin: plan.OriginFile, Strings: []string{"", "k", "{}", "s"},
		Records: make([]plan.Record, 1), Extra: []plan.Extra{{Key: 1, Namespace: 2, Category: 0x11, Trust: 0x12,
			Flags: 0x1314, Score: 0x15, Occurred: 0x0807060504030201, Expires: 0x1817161514131211,
			LastRecalled: 0x2827262524232221, Recalls: 0x31, Version: 0x32, Importance: 0.5, Session: 3, Group: 0x33}},
		Config: []plan.ConfigEntry{{Key: "n", Value: int64(1)}}}
	l, err := layoutOf(r)
	if err != nil || l.size != sizeLarge {
		t.Fatalf("size %d, %v", l.size, err)
	}
	got := make([]byte, l.end)
	if err := encode(got, r, l); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at   int
		want string
	}{
		"preamble": {112, "05000000" + "03000000" + "c8000000" + "40000000"}, // the table is at 128 + 72 = 200
		"config":   {24, "08010000"},                                         // 200 + 64 = 264
		"extra": {200, "01000000" + "02000000" + "11" + "12" + "1413" + "15000000" + "0102030405060708" +
			"1112131415161718" + "2122232425262728" + "31000000" + "32000000" + "0000003f" + "03000000" + "33000000" +
			"00000000"},
	} {
		if g := hex.EncodeToString(got[c.at:][:len(c.want)/2]); g != c.want {
			t.Errorf("%s: %s, want %s", name, g, c.want)
		}
	}
}

// A request of a memory hook needs an entry in the extra table for each record.
func TestExtraIsComplete(t *testing.T) {
	r := memoryCall(plan.Digest{}, plan.HookAdmit).Request
	r.Extra = r.Extra[:1]
	if _, err := layoutOf(r); err == nil || !strings.Contains(err.Error(), "1 extra entries") {
		t.Error(err)
	}
}

// If tags are left out, the strings that the extra table names stay.
func TestExtraStringsStay(t *testing.T) {
	r := &plan.Request{Hook: plan.HookRecall, Strings: []string{"", "key", "{}", "s", strings.Repeat("x", 600<<10)},
		Records: []plan.Record{{TagCount: 1}}, Tags: []uint32{4}, Extra: []plan.Extra{{Key: 1, Namespace: 2, Session: 3}}}
	l, err := layoutOf(r)
	if err != nil || l.tags {
		t.Fatalf("tags %v, %v", l.tags, err)
	}
	got := make([]byte, l.end)
	if err := encode(got, r, l); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(got), "key{}s") {
		t.Errorf("the strings end with %q", got[len(got)-8:])
	}
}

// Each hook calls its own export, with its own preamble, arena and limit of texts. The guest returns what it finds at
// offset 112 of the request, and the size of the plan's arena in KiB.
func TestHooksCallTheirExport(t *testing.T) {
	said := func(base int32) []byte {
		return cat(konst(base), cat(ins(opLocalGet, 0), ins(opLoad, 2, 112)), ins(opSub),
			ins(opLocalGet, 3), konst(10), []byte{0x76}, ins(opSub)) // shifted right, unsigned
	}
	h := newHost(t, Options{})
	d := mustLoad(t, h, guest{manifest: hooksManifest, assemble: said(-1000), plan: said(-2000)}.build())
	for _, hook := range plan.Hooks() {
		name, want, room := "mneme_plan", 2000+int(hook), 32
		if hook.Assembles() {
			name, want = "mneme_assemble", 1001
		}
		if hook == plan.HookRemember || hook == plan.HookRetain {
			room = 256
		}
		out := h.Run(t.Context(), memoryCall(d, hook))
		if out.Status != plan.StatusAuthorError || out.Detail != fmt.Sprintf("%s returned %d", name, -want-room) {
			t.Errorf("%s: %s: %s", hook, out.Status, out.Detail)
		}
	}
	if out := h.Run(t.Context(), twoRecords(d)); !strings.Contains(out.Detail, "mneme_assemble returned") {
		t.Errorf("no hook: %+v", out)
	}
}

// A module exports what its hooks need, and nothing else is checked.
func TestHooksNeedExports(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		guest    guest
		want     string // "" means admitted
	}{
		"a window's":         {okManifest, guest{}, ""},
		"without plan":       {`{"abi":"1.3","hooks":["admit"]}`, guest{}, "there is no function mneme_plan"},
		"without assemble":   {`{"abi":"1.3","hooks":["admit","retain"]}`, guest{plan: konst(0), drop: "mneme_assemble"}, ""},
		"assemble is needed": {hooksManifest, guest{plan: konst(0), drop: "mneme_assemble"}, "no function mneme_assemble"},
		"too old":            {`{"abi":"1.2","hooks":["admit"]}`, guest{plan: konst(0)}, `hook "admit" is of mneme/1.3, and abi is 1.2`},
		"unknown":            {`{"abi":"1.3","hooks":["forget"]}`, guest{plan: konst(0)}, `hook "forget" is unknown`},
		"no name":            {`{"abi":"1.3","hooks":[""]}`, guest{plan: konst(0)}, `hook "" is unknown`},
		"newer":              {`{"abi":"1.4","hooks":["admit"]}`, guest{plan: konst(0)}, "speaks 1.0 to 1.3"},
		"another function of that name": {okManifest,
			guest{plan: konst64(0), results: map[string]byte{"mneme_plan": i64t}}, ""},
		"another signature": {hooksManifest,
			guest{plan: konst64(0), results: map[string]byte{"mneme_plan": i64t}}, "mneme_plan has the signature"},
	} {
		t.Run(name, func(t *testing.T) {
			c.guest.manifest = c.manifest
			_, err := newHost(t, Options{}).Load(context.Background(), "", c.guest.build())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A module is never called for a hook that it does not have.
func TestRunNeedsTheHook(t *testing.T) {
	h := newHost(t, Options{})
	d := mustLoad(t, h, guest{manifest: `{"abi":"1.3","hooks":["admit"]}`, plan: konst(0)}.build())
	for _, hook := range plan.Hooks() {
		out := h.Run(t.Context(), memoryCall(d, hook))
		if (out.Status == plan.StatusOK) != (hook == plan.HookAdmit) {
			t.Errorf("%s: %s: %s", hook, out.Status, out.Detail)
		}
	}
}

// Every op is taken by its hooks and by no other, from its version on, with text and argument as its row says.
func TestOpsByHook(t *testing.T) {
	all := map[plan.OpCode]string{
		plan.OpDrop: "assemble, recall", plan.OpReplace: "assemble, remember",
		plan.OpRefuse: "admit", plan.OpPatch: "admit, retain", plan.OpMerge: "admit, retain", plan.OpStore: "remember",
		plan.OpForget: "retain", plan.OpAsk: "remember", plan.OpRank: "recall",
	}
	for i := range opSpecs {
		s := &opSpecs[i]
		want := all[s.code]
		if want == "" || s.template == plan.ReplaceArguments {
			want = "assemble"
		}
		var takers []string
		for _, hook := range plan.Hooks() {
			_, err := decode(one(byte(s.code), s.template, 0, 0, 0, 0, 48, 4), asked{hook, abiMinor, testMaxText}, reasons{})
			if err == nil {
				takers = append(takers, hook.String())
			} else if !strings.Contains(err.Error(), s.name+", which "+hook.String()+" does not take") {
				t.Errorf("%s in %s: %v", s.name, hook, err)
			}
		}
		if got := strings.Join(takers, ", "); got != want {
			t.Errorf("%s is taken by %q, want %q", s.name, got, want)
		}
		checkOpFields(t, s)
	}
}

// checkOpFields checks what a row says about version, text and argument.
func checkOpFields(t *testing.T, s *opSpec) {
	t.Helper()
	hook := plan.HookAssemble
	for _, h := range plan.Hooks() {
		if s.takenBy(h) {
			hook = h
		}
	}
	for minor := range uint32(abiMinor + 1) {
		_, err := decode(one(byte(s.code), s.template), asked{hook, minor, testMaxText}, reasons{})
		if (err == nil) != (minor >= s.since) {
			t.Errorf("%s with abi 1.%d: %v", s.name, minor, err)
		}
	}
	for name, c := range map[string]struct {
		plan []byte
		ok   bool
		want plan.Op
	}{
		"text": {one(byte(s.code), s.template, 1, 2, 57, 4, 48, 9), s.text,
			plan.Op{Code: s.code, Template: s.template, First: 1, Last: 2, Text: "text", Reason: "code: why"}},
		"argument": {one(byte(s.code), s.template, 2, 1, 0, 0, 0, 0, 7), s.argument,
			plan.Op{Code: s.code, Template: s.template, First: 2, Last: 1, Argument: 7}},
	} {
		got, err := decode(c.plan, asked{hook, abiMinor, testMaxText}, reasons{})
		if (err == nil) != c.ok || c.ok && !reflect.DeepEqual(got, []plan.Op{c.want}) {
			t.Errorf("%s of %s: %+v, %v", name, s.name, got, err)
		}
	}
}

// Texts of a plan are limited by the hook.
func TestTextsByHook(t *testing.T) {
	storing := func(code byte, size int) guest {
		b := planBytes(strings.Repeat("x", size), opBytes(code, 0, 0, 0, 48, uint32(size)))
		return guest{manifest: hooksManifest, plan: cat(ins(opLocalGet, 2), konst(16), konst(int32(len(b))),
			[]byte{0xfc, 10, 0, 0}, konst(int32(len(b)))), data: []datum{{16, b}}, pages: 20}
	}
	limits := DefaultLimits()
	for hook, code := range map[plan.Hook]byte{plan.HookAdmit: 12, plan.HookRemember: 14, plan.HookRetain: 12} {
		limit := limits.InsertedBytes
		if longPlans(hook) {
			limit = limits.StoredBytes
		}
		for over := range 2 {
			h := newHost(t, Options{})
			g := storing(code, limit+over)
			g.data[0].at = 2 << 20 >> 2
			g.plan = cat(ins(opLocalGet, 2), konst(g.data[0].at), konst(int32(len(g.data[0].bytes))),
				[]byte{0xfc, 10, 0, 0}, konst(int32(len(g.data[0].bytes))))
			out := h.Run(t.Context(), memoryCall(mustLoad(t, h, g.build()), hook))
			want := []plan.Status{plan.StatusOK, plan.StatusHostQuota}[over]
			if out.Status != want {
				t.Errorf("%s with %d bytes: %s: %s", hook, limit+over, out.Status, out.Detail)
			}
		}
	}
}

func TestJSONAt(t *testing.T) {
	const text = ` {"a": [1, {"b c": "x\n\"y"}, [], {}], "m~n/": null, "twice": 1, "twice": {"d": -2.5e3}, "": true} `
	for pointer, want := range map[string]string{
		"": strings.TrimSpace(text), "/a/0": "1", "/a/1/b c": "x\n\"y", "/a/2": "[]", "/a/3": "{}", "/m~0n~1": "null",
		"/twice/d": "-2.5e3", "/": "true", "/a/1": `{"b c": "x\n\"y"}`,
	} {
		if got, err := jsonAt([]byte(text), pointer); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v; want %q", pointer, got, err, want)
		}
	}
	for _, pointer := range []string{"a", "/b", "/a/4", "/a/00", "/a/-", "/a/0/x", "/a/2/0", "/a/3/", "/m~n/", "/a/-1"} {
		if got, err := jsonAt([]byte(text), pointer); err != nil || got != nil {
			t.Errorf("%q: %q, %v", pointer, got, err)
		}
	}
	for _, text := range []string{"", " ", "{", "nul", `{"a":1}x`, `"`} {
		if _, err := jsonAt([]byte(text), "/a"); err == nil {
			t.Errorf("%q is taken for JSON", text)
		}
	}
}

// For any text and any name the pointer finds what encoding/json finds.
func FuzzJSONAt(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,2]},"a":{"b":"c\u00e9\\"}}`), "a", "b")
	f.Add([]byte(" [ [ {} , \"x\" ] , 3 ] "), "0", "1")
	f.Fuzz(func(t *testing.T, text []byte, first, second string) {
		var whole any
		valid := json.Unmarshal(text, &whole) == nil
		escape := strings.NewReplacer("~", "~0", "/", "~1").Replace
		got, err := jsonAt(text, "/"+escape(first)+"/"+escape(second))
		if (err == nil) != valid {
			t.Fatalf("%v, valid %v", err, valid)
		}
		if !valid || !utf8.ValidString(first) || !utf8.ValidString(second) {
			return
		}
		want, ok := step(whole, first)
		if ok {
			want, ok = step(want, second)
		}
		if ok != (got != nil) {
			t.Fatalf("%q, want %v", got, want)
		}
		if s, isText := want.(string); ok && isText && s != string(got) {
			t.Fatalf("%q, want %q", got, s)
		}
		var found any
		if _, isText := want.(string); ok && !isText && (json.Unmarshal(got, &found) != nil || !reflect.DeepEqual(found, want)) {
			t.Fatalf("%q, want %v", got, want)
		}
	})
}

func step(value any, name string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		found, ok := v[name]
		return found, ok
	case []any:
		for i := range v {
			if fmt.Sprint(i) == name {
				return v[i], true
			}
		}
	}
	return nil, false
}

// The host function copies what it finds, and is charged for the whole text, and again for each part of the pointer.
func TestHostJSON(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 8000) + `","b":7}`
	run := func(code []byte) plan.Outcome {
		h := newHost(t, Options{})
		g := hostGuest(nil, datum{16, []byte("/b/a")})
		g.manifest, g.plan = hooksManifest, show(code)
		c := memoryCall(mustLoad(t, h, g.build()), plan.HookAdmit)
		c.Request.Records = make([]plan.Record, 3)
		c.Request.Extra = make([]plan.Extra, 3)
		c.Texts = texts{long, "no JSON", " nothing"}
		return h.Run(t.Context(), c)
	}
	fuel := map[string]uint64{}
	for name, c := range map[string]struct {
		code []byte
		want string
	}{
		"a number": {call(fnJSON, 0, 16, 2, 1024, 64), "returned -2"}, "a text": {call(fnJSON, 0, 18, 2, 1024, 3), "returned -8001"},
		"the whole": {call(fnJSON, 0, 16, 0, 1024, 0), fmt.Sprint("returned -", len(long)+1)},
		"nothing":   {call(fnJSON, 0, 16, 4, 1024, 64), "returned 0"}, "not JSON": {call(fnJSON, 1, 16, 2, 1024, 64), "returned 1"},
		"no spec": {call(fnJSON, 2, 16, 2, 1024, 64), "returned 0"}, "no record": {call(fnJSON, 3, 16, 2, 1024, 64), "returned 0"},
		"copied": {cat(call(fnJSON, 0, 16, 2, 1024, 64), ins(opDropValue), load(1024)), "returned -56"},
	} {
		out := run(c.code)
		fuel[name] = out.Fuel
		returned := strings.TrimPrefix(out.Detail, "mneme_plan ")
		if strings.HasSuffix(c.want, " 0") || strings.HasSuffix(c.want, " 1") { // show makes 0 of -1 and 1 of -2
			if out.Status == plan.StatusAuthorError || out.Status == plan.StatusOK && c.want != "returned 0" {
				t.Errorf("%s: %s: %s", name, out.Status, out.Detail)
			}
			continue
		}
		if out.Status != plan.StatusAuthorError || returned != c.want {
			t.Errorf("%s: %s: %s, want %s", name, out.Status, out.Detail, c.want)
		}
	}
	if part := fuel["nothing"] - fuel["a number"]; part < 1000 || part > 1100 {
		t.Errorf("a part of a pointer costs %d fuel for %d bytes", part, len(long))
	}
	for name, code := range map[string][]byte{
		"pointer beyond": call(fnJSON, 0, -4, 64, 1024, 64), "out beyond": call(fnJSON, 0, 16, 2, -4, 64),
		"negative length": call(fnJSON, 0, 16, -1, 1024, 64), "negative cap": call(fnJSON, 0, 16, 2, 1024, -1),
	} {
		if out := run(code); out.Status != plan.StatusTrap || !strings.Contains(out.Detail, "mneme.json") {
			t.Errorf("%s: %s: %s", name, out.Status, out.Detail)
		}
	}
}

// Any bytes are refused with an explanation, or decoded to ops that the hook takes.
func FuzzDecodeHooks(f *testing.F) {
	for i := range opSpecs {
		f.Add(uint32(2+i%4), one(byte(opSpecs[i].code), opSpecs[i].template, 0, 0, 57, 4, 48, 9, 1))
	}
	f.Fuzz(func(t *testing.T, hook uint32, b []byte) {
		h := plan.Hook(hook)
		ops, err := decode(b, asked{h, abiMinor, testMaxText}, reasons{})
		if err != nil {
			if ops != nil || err.Error() == "" {
				t.Fatalf("%d ops beside the error %q", len(ops), err)
			}
			return
		}
		for _, op := range ops {
			s := specOf(op.Code, op.Template)
			if s == nil || s.template != op.Template || !s.takenBy(h) || op.Text != "" && !s.text ||
				op.Argument != 0 && !s.argument {
				t.Fatalf("%s takes %+v", h, op)
			}
		}
	})
}

// What a guest writes during a call of mneme_plan is gone at the next one, whichever export that uses.
func TestHooksKeepNothing(t *testing.T) {
	counting := cat(store(512, cat(load(512), konst(1), ins(opAdd))), show(load(512)))
	h := newHost(t, Options{})
	d := mustLoad(t, h, guest{manifest: hooksManifest, assemble: counting, plan: counting}.build())
	for i := range 12 {
		hook := plan.Hooks()[i%len(plan.Hooks())]
		if out := h.Run(t.Context(), memoryCall(d, hook)); !strings.HasSuffix(out.Detail, "returned -2") {
			t.Fatalf("call %d, %s: %+v", i, hook, out)
		}
	}
}

// A request of a hook has the version of this host, whatever the module's.
func TestPreambleVersion(t *testing.T) {
	r := memoryCall(plan.Digest{}, plan.HookAdmit).Request
	l, err := layoutOf(r)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, l.end)
	if err := encode(b, r, l); err != nil {
		t.Fatal(err)
	}
	if v := binary.LittleEndian.Uint32(b[preABI:]); v != 1<<16|3 {
		t.Errorf("abi %#x", v)
	}
}
