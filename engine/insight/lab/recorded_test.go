package lab_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// What a step saw forms a test that passes, also in a manifest. Running the step's policy on it by name does what the
// step did.
func TestRecordedCases(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("by-tag", enginetest.Tagged(t))
	for i := range 6 {
		k.Post("s", enginetest.WithTag(fmt.Sprint("question ", i), []string{"x", "y"}[i%2]), enginetest.Assistant(fmt.Sprint("answer ", i)))
	}
	w := k.Ask(`{"session_id":"s","explain":true,"viewer":{"agent":"a"},"pending":[{"role":"user","content":"now?"}],
		"pipeline":[{"policy":"delegation-filter"},{"policy":"by-tag","config":{"tag":"x"}}]}`)
	got, err := k.Trials.Recorded(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Passes || got.Policy != "by-tag" || len(got.Records) != 13 || len(got.Test.Messages) != 12 || len(got.Test.Pending) != 1 {
		t.Fatalf("%+v", got)
	}
	drops := 0
	for i, want := range got.Test.Expect {
		row := w.Report[i]
		if word := row.Action + ":" + row.ReasonCode; want != word && (want != "keep" || row.Action != "keep") {
			t.Errorf("message %d: %s, the decision says %s", i, want, word)
		}
		if row.Action == "drop" {
			drops++
		}
	}
	if drops == 0 {
		t.Error("the step dropped nothing, so nothing was tried")
	}
	// In a manifest, the test refuses a module that behaves differently and accepts one that does the same.
	test, err := json.Marshal(got.Test)
	if err != nil {
		t.Fatal(err)
	}
	manifest := func(test string) []byte {
		return wasmtest.Policy(`{"abi":"1.0","hooks":["assemble"],"config":{"tag":{"type":"string","default":""}},"tests":[`+test+`]}`,
			wasmtest.Keep())
	}
	_, _, err = k.Policies.Upload(t.Context(), k.Admin, ident.Once{}, "keeps", manifest(string(test)))
	if err == nil || !strings.Contains(err.Error(), "message ") {
		t.Errorf("a policy that keeps all passes: %v", err)
	}
	first, err := k.Trials.Recorded(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID, 0)
	if err != nil || !first.Passes {
		t.Fatalf("%+v %v", first, err)
	}
	first.Test.Config = nil
	if test, err = json.Marshal(first.Test); err != nil {
		t.Fatal(err)
	}
	if _, _, err = k.Policies.Upload(t.Context(), k.Admin, ident.Once{}, "keeps", manifest(string(test))); err != nil {
		t.Errorf("a policy that does what the step did is refused: %v", err)
	}
	body, err := json.Marshal(got.Run)
	if err != nil {
		t.Fatal(err)
	}
	r := run(k, "by-tag", 1, string(body))
	if fmt.Sprintf("%s", r.Messages) != fmt.Sprintf("%s", w.Messages) {
		t.Errorf("the run gives %s, the step gave %s", r.Raw, w.Raw)
	}
	_, err = k.Trials.Recorded(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID, 2)
	enginetest.RefusedWith(t, err, fault.Invalid, "out_of_range")
}
