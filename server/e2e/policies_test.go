package e2e

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

const policiesPath = "/api/v1/policies"

// upload sends a policy module.
func (c client) upload(name string, module []byte) reply {
	c.t.Helper()
	return c.do("POST", policiesPath+"?name="+url.QueryEscape(name), module, "Content-Type", "application/wasm")
}

// keepByTag returns the SDK's example, as its author would upload it.
func keepByTag(t testing.TB) []byte {
	t.Helper()
	module, err := os.ReadFile("../../sdk/policy/go/examples/keep-by-tag/keep-by-tag.wasm")
	if err != nil {
		t.Fatal(err)
	}
	return module
}

func tagged(m object, tag string) object { m["tags"] = []string{tag}; return m }

// version is a policy version in a list.
type version struct {
	Name    string
	Version int
	Digest  string
	ABI     string
	Hooks   []string
	State   string
	Checks  []struct {
		Check string
		OK    bool
	}
	SetBack *struct {
		To      int
		Outcome string
	} `json:"set_back"`
}

// TestPolicyLife: a policy is uploaded, changes windows, is rolled back and deleted.
func TestPolicyLife(t *testing.T) {
	admin := own(t)
	name := mneme.unique("by-tag")
	at := policiesPath + "/" + name
	var one version
	admin.upload(name, keepByTag(t)).want(201).into(&one)
	if one.Name != name || one.Version != 1 || one.State != "live" || one.ABI != "1.1" || len(one.Hooks) != 1 ||
		!strings.HasPrefix(one.Digest, "sha256:") || one.Checks[len(one.Checks)-1].Check != "self_tests" {
		t.Fatalf("%+v", one)
	}
	for _, check := range one.Checks {
		if !check.OK {
			t.Errorf("%+v", check)
		}
	}
	var again version
	admin.upload(name, keepByTag(t)).want(200).into(&again)
	if again.Version != 1 || again.Digest != one.Digest {
		t.Errorf("%+v", again)
	}

	admin.turn("dashboard", tagged(user("kept"), "order"), assistant("dropped")).want(201)
	admin.turn("", user("dropped too")).want(201)
	admin.turn("", user("last")).want(201)
	settings := func(pipeline any) {
		t.Helper()
		admin.do("PATCH", admin.path("/settings"), object{"pipeline": pipeline}).want(200)
	}
	settings([]object{{"policy": name, "config": object{"tag": "order"}}, {"policy": "tool-pair-trim"}})
	w := admin.assemble(object{"explain": true})
	equal(t, "window", spoken(t, w), []string{"user: kept", "user: last"})
	if r := w.Report[1]; r.Action != "drop" || r.Policy != name || r.ReasonCode != "untagged" || r.Reason == "" {
		t.Errorf("%+v", r)
	}

	admin.upload(name, wasmtest.Policy(wasmtest.Manifest(name), wasmtest.Trap())).want(201)
	var replayed struct {
		Totals struct {
			ChangedMessages int `json:"changed_messages"`
			Failures        struct{ Before, After int }
		}
	}
	request := object{"project_id": admin.project, "sessions": []string{"dashboard"}, "against": "live"}
	admin.post(at+"/versions/2/replay", request).want(200).into(&replayed)
	if replayed.Totals.ChangedMessages != 2 || replayed.Totals.Failures.After != 1 ||
		replayed.Totals.Failures.Before != 0 {
		t.Errorf("%+v", replayed)
	}
	var ran struct {
		Fuel     int
		Pipeline []struct{ Outcome string }
		Report   []struct{ Action string }
	}
	admin.post(at+"/versions/2/run", object{"messages": []object{user("a")}}).want(200).into(&ran)
	if ran.Pipeline[0].Outcome != "trap" || ran.Fuel == 0 || len(ran.Report) != 1 {
		t.Errorf("%+v", ran)
	}

	admin.do("PUT", at+"/live", object{"version": 2}).wantCode(409, "config_conflict") // the settings' config has a tag
	settings([]object{{"policy": name}, {"policy": "tool-pair-trim"}})
	admin.do("PUT", at+"/live", object{"version": 2}).want(200)
	for range 5 {
		w = admin.assemble(object{})
		if w.Pipeline[0].Outcome != "trap" || len(w.Messages) != 4 {
			t.Fatalf("%+v", w.Pipeline)
		}
	}
	var policy struct {
		Live     int
		Versions []version
	}
	admin.get(at).want(200).into(&policy)
	if policy.Live != 1 || policy.Versions[1].State != "set_back" || policy.Versions[1].SetBack.Outcome != "trap" {
		t.Fatalf("%+v", policy)
	}
	equal(t, "after the breaker", spoken(t, admin.assemble(object{})), []string{"user: last"})

	admin.do("DELETE", at, nil).wantCode(409, "policy_in_use")
	admin.do("DELETE", at+"/versions/1", nil).wantCode(409, "policy_in_use")
	admin.do("DELETE", at+"/versions/2", nil).want(204)
	settings(nil)
	admin.do("DELETE", at, nil).want(204)
	admin.get(at).problem(404)
	admin.post(admin.path("/decisions/"+w.DecisionID+"/replay"), nil).wantCode(410, "module_purged")

	var audit struct {
		Data []struct {
			Action, Subject string
			KeyID           string `json:"key_id"`
		}
	}
	admin.get("/api/v1/audit?limit=1000").want(200).into(&audit)
	var seen []string
	for _, e := range audit.Data {
		if policy, _, _ := strings.Cut(e.Subject, "@"); policy == name {
			seen = append(seen, e.Action)
			if (e.KeyID == "") != (e.Action == "policy.set_back") {
				t.Errorf("%+v", e)
			}
		}
	}
	equal(t, "audit", seen, []string{"policy.delete", "policy.delete", "policy.set_back", "policy.live",
		"policy.upload", "policy.upload"})
}

// TestRefusedModules: each refusal is a 422 that names the failed check, and nothing is stored.
func TestRefusedModules(t *testing.T) {
	admin := shared(t)
	name := mneme.unique("refused")
	refuse := func(module []byte) (p struct {
		problem
		Check        string
		Found, Limit *int
	}) {
		t.Helper()
		admin.upload(name, module).want(422).into(&p)
		if p.Code != "module_refused" || p.Check == "" || !strings.Contains(p.Detail, p.Check) {
			t.Errorf("%+v", p)
		}
		return p
	}
	refuse([]byte("not a module"))
	refuse(wasmtest.Header())
	var large wasmtest.Module
	large.Custom("padding", make([]byte, 4<<20))
	if p := refuse(large.Bytes()); p.Found == nil || p.Limit == nil || *p.Found <= *p.Limit {
		t.Errorf("%+v", p)
	}
	manifest := `{"abi":"1.0","hooks":["assemble"],
		"tests":[{"messages":[{"role":"user","content":"x"}],"expect":["stub"]}]}`
	if p := refuse(wasmtest.Policy(manifest, wasmtest.Keep())); p.Check != "self_tests" {
		t.Errorf("%+v", p)
	}
	admin.get(policiesPath + "/" + name).problem(404)
	admin.upload("tool-pair-trim", keepByTag(t)).wantCode(409, "built_in_policy")
	admin.upload("a@1", keepByTag(t)).wantCode(422, "invalid_id")
	admin.upload(name, make([]byte, 9<<20)).problem(413)
	admin.do("POST", policiesPath+"?name="+name, object{}).wantCode(415, "unsupported_media_type")
	admin.upload(name, nil).wantCode(400, "body_missing")
}

// TestPolicyRoles: agents and readers can read policies; only a tenant's admin can change or try them, and other
// tenants cannot see them.
func TestPolicyRoles(t *testing.T) {
	admin := shared(t)
	name := mneme.unique("roles")
	at := policiesPath + "/" + name
	admin.upload(name, keepByTag(t)).want(201)
	for _, role := range []string{"agent", "reader"} {
		c := admin.as(admin.newKey(role))
		c.get(policiesPath).want(200)
		c.get(at).want(200)
		c.get(at + "/versions/1").want(200)
		c.upload(name, keepByTag(t)).problem(403)
		c.do("PUT", at+"/live", object{"version": 1}).problem(403)
		c.do("DELETE", at, nil).problem(403)
		c.post(at+"/versions/1/run", object{"messages": []object{}}).problem(403)
		c.post(at+"/versions/1/replay", object{"project_id": "default"}).problem(403)
		c.get("/api/v1/audit").problem(403)
	}
	root := admin.as(rootKey)
	root.get(at + "?tenant=default").want(200)
	var made struct {
		AdminKey string `json:"admin_key"`
	}
	root.post("/api/v1/tenants", object{"id": mneme.unique("stranger")}).want(201).into(&made)
	stranger := root.as(made.AdminKey)
	stranger.get(at).problem(404)
	stranger.do("DELETE", at, nil).problem(404)
	stranger.post("/api/v1/projects/default/context", object{"pipeline": []object{{"policy": name}}}).wantCode(422,
		"unknown_policy")
	stranger.upload(name, wasmtest.Policy(wasmtest.Manifest("mine"), wasmtest.Keep())).want(201)
}
