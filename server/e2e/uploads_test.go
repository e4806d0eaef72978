package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/hostile"
)

// refusedUploads returns modules that are refused, by the check that refuses them. Each n gives a different module, so
// that no answer can be reused.
func refusedUploads() map[string]func(n int) []byte {
	manifest := func(n int, members string) string {
		return fmt.Sprintf(`{"abi":"1.0","hooks":["assemble"],"version":"%d"%s}`, n, members)
	}
	many := func(n int, item func(i int) string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = item(i)
		}
		return strings.Join(items, ",")
	}
	keys := many(132_000, func(i int) string { return fmt.Sprintf(`"k%d":{"type":"integer"}`, i) })
	tests := many(1_990_000, func(int) string { return `1` })
	failing := many(32, func(int) string {
		return `{"name":"fails","messages":[{"role":"user","content":"a"}],"expect":["drop"]}`
	})
	keep := func(manifest string) []byte { return wasmtest.Policy(manifest, wasmtest.Keep()) }
	return map[string]func(n int) []byte{
		"tests": func(n int) []byte { return keep(manifest(n, `,"tests":[`+tests+`]`)) },
		"keys":  func(n int) []byte { return keep(manifest(n, `,"config":{`+keys+`}`)) },
		"depth": func(n int) []byte { return keep(manifest(n, `,"tests":[`+strings.Repeat("[", 2_000_000))) },
		"description": func(n int) []byte {
			return keep(manifest(n, `,"description":"`+strings.Repeat("d", 4_100_000)+`"`))
		},
		"self-test": func(n int) []byte { return keep(manifest(n, `,"tests":[`+failing+`]`)) },
		"exports": func(n int) []byte {
			return bytes.Replace(keep(manifest(n, "")), []byte("mneme_arena"), []byte("mneme_armed"), 1)
		},
		"compile": func(n int) []byte { return wasmtest.Policy(manifest(n, ""), wasmtest.I64Const(0)) },
		"start": func(n int) []byte {
			return withManifest(named("initialize-trap"), manifest(n, ""))
		},
	}
}

func named(name string) []byte {
	attack, ok := hostile.Named(name)
	if !ok {
		panic("no attack " + name)
	}
	return attack.Build()
}

// withManifest returns a module with another manifest.
func withManifest(module []byte, manifest string) []byte {
	out := slices.Clone(module[:len(wasmtest.Header())])
	for rest := module[len(out):]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		end := 1 + n + int(size)
		if rest[0] != 0 || !bytes.Contains(rest[:min(end, 32)], []byte(wasm.ManifestSection)) {
			out = append(out, rest[:end]...)
		}
		rest = rest[end:]
	}
	name := append([]byte{byte(len(wasm.ManifestSection))}, wasm.ManifestSection...)
	return append(out, wasmtest.Section(0, append(name, manifest...))...)
}

// TestCampaignRefusedUploads: a thousand refused uploads of each kind leave nothing in the server's memory.
func TestCampaignRefusedUploads(t *testing.T) {
	seed := campaign.Seed(t)
	p := embedded(t, t.TempDir())
	c := p.client(t)
	kinds := refusedUploads()
	names := []string{"tests", "keys", "depth", "description", "self-test", "exports", "compile", "start"}
	upload := func(kind string, n int) {
		c.upload(kind, kinds[kind](n)).wantCode(422, "module_refused")
	}
	for i, kind := range names { // what only the first of each kind allocates
		upload(kind, -1-i)
	}
	before := p.anonymous(t)
	rounds := campaign.Size(3, 1000)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, kind := range names {
			upload(kind, round)
		}
		if grown := p.anonymous(t) - before; grown > 256<<10 {
			t.Fatalf("%d uploads of each kind have left %d MiB", round+1, grown>>10)
		}
	}
	t.Logf("anonymous memory %d MiB, after %d refused uploads %d MiB", before>>10, rounds*len(names),
		p.anonymous(t)>>10)
}

// TestCampaignIdleTenants: a tenant that asked for one window and then nothing more takes only kilobytes.
func TestCampaignIdleTenants(t *testing.T) {
	p := embedded(t, t.TempDir())
	c := p.client(t)
	visit := func(i int) {
		var made struct {
			Key string `json:"admin_key"`
		}
		c.as(rootKey).post("/api/v1/tenants", object{"id": fmt.Sprint("idle-", i)}).want(201).into(&made)
		own := converse(c.as(made.Key), "s")
		own.turn("s", user("a"), assistant("b")).want(201)
		own.assemble(object{"session_id": "s"})
	}
	for i := range 20 {
		visit(-1 - i)
	}
	before := p.anonymous(t)
	n := campaign.Size(20, 2000)
	for i := range n {
		visit(i)
	}
	busy := p.anonymous(t)
	t.Logf("anonymous memory %d MiB, after a window of each of %d tenants %d MiB: %d KiB each", before>>10, n, busy>>10,
		(busy-before)/n)
	if busy-before > 448<<10 {
		t.Errorf("%d MiB more than before", (busy-before)>>10)
	}
	if !campaign.Long() {
		return
	}
	// Go collects garbage at least every two minutes, and returns the memory some time after that.
	idle := busy
	for deadline := time.Now().Add(5 * time.Minute); idle-before > 96<<10 && time.Now().Before(deadline); {
		time.Sleep(time.Second)
		idle = p.anonymous(t)
	}
	t.Logf("idle, they leave %d MiB: %d KiB each", (idle-before)>>10, (idle-before)/n)
	if idle-before > 96<<10 {
		t.Errorf("idle tenants cost %d KiB each", (idle-before)/n)
	}
}

// TestCampaignBurningUploads: uploads whose self-tests use up all their fuel are answered, one after another.
func TestCampaignBurningUploads(t *testing.T) {
	c := embedded(t, t.TempDir()).client(t)
	const records = 210
	tests := make([]string, campaign.Size(4, 32))
	for i := range tests {
		tests[i] = fmt.Sprintf(`{"messages":[%s],"expect":[%s],"outcome":"timeout"}`,
			strings.Join(slices.Repeat([]string{`{"role":"user","content":"a"}`}, records), ","),
			strings.Join(slices.Repeat([]string{`"keep"`}, records), ","))
	}
	burner := named("cache-misses")
	statuses := make([]string, 8)
	var uploads sync.WaitGroup
	for i := range statuses {
		uploads.Go(func() {
			manifest := fmt.Sprintf(`{"abi":"1.0","hooks":["assemble"],"version":"%d","tests":[%s]}`, i,
				strings.Join(tests, ","))
			r, err := c.try("POST", fmt.Sprint(policiesPath, "?name=burner-", i), withManifest(burner, manifest),
				"Content-Type", "application/wasm")
			statuses[i] = fmt.Sprint(r.status, " ", clip(string(r.body), 400), " ", err)
		})
	}
	uploads.Wait()
	for _, s := range statuses {
		t.Log(s)
		if strings.HasPrefix(s, "503") {
			t.Error("an upload was not served")
		}
	}
}

// chatty returns a policy that logs as much as a call may and keeps everything.
func chatty() []byte {
	i32 := func(n int) wasmtest.Types { return slices.Repeat(wasmtest.Types{wasm.I32}, n) }
	const request, plan, pages, line, lines = 1 << 16, 1<<16 + 1<<19, 16, 1000, 4
	var m wasmtest.Module
	log := m.Import("mneme", "log", i32(3), nil)
	m.Memory(pages, pages)
	m.Data(8, bytes.Repeat([]byte("chatter "), line/8))
	m.Export("memory", wasm.KindMemory, 0)
	m.Export("mneme_abi", wasm.KindFunc, m.Func(nil, i32(1), nil, wasmtest.I32Const(1<<16)))
	m.Export("mneme_arena", wasm.KindFunc, m.Func(i32(2), i32(1), nil, wasmtest.I32Const(plan),
		wasmtest.I32Const(request), wasmtest.Op(opcode.LocalGet, 0), []byte{opcode.Select}))
	one := slices.Concat(wasmtest.I32Const(1), wasmtest.I32Const(8), wasmtest.I32Const(line),
		wasmtest.Op(opcode.Call, log))
	m.Export("mneme_assemble", wasm.KindFunc, m.Func(i32(4), i32(1), nil, bytes.Repeat(one, lines), wasmtest.Keep()))
	m.Custom(wasm.ManifestSection, []byte(wasmtest.Manifest("chatty")))
	return m.Bytes()
}

// TestCampaignChattyPolicies: with a pipeline of policies that log as much as they may, decisions have a limited size.
func TestCampaignChattyPolicies(t *testing.T) {
	p := embedded(t, t.TempDir())
	c := converse(p.client(t), "s")
	c.upload("chatty", chatty()).want(201)
	c.turn("s", user("a")).want(201)
	pipeline := slices.Repeat([]object{{"policy": "chatty"}}, 16)
	c.do("PATCH", c.path("/settings"), object{"pipeline": pipeline}).want(200)
	before := p.anonymous(t)
	windows := campaign.Size(50, 10_000)
	var last *window
	for range windows {
		last = c.assemble(object{"session_id": "s"})
	}
	decision := c.get(c.path("/decisions/" + last.DecisionID)).want(200)
	var said struct {
		Pipeline []struct{ Log []struct{ Message string } }
	}
	decision.into(&said)
	logged := 0
	for _, step := range said.Pipeline {
		for _, line := range step.Log {
			logged += len(line.Message)
		}
	}
	t.Logf("%d windows: %d bytes of log in each decision, anonymous memory %d MiB before and %d MiB after", windows,
		logged, before>>10, p.anonymous(t)>>10)
	if logged == 0 || logged > 8<<10 {
		t.Errorf("%d bytes of log in a decision", logged)
	}
}
