package engine_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
)

// A memory keeps its trust and its sources in a file, and its words are found in the messages that the file brings.
func TestSourcesTravel(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", `{"role":"user","content":"Hello! I am allergic to nuts."}`, `{"role":"assistant","content":"Noted."}`)
	k.Remember(memory.Spec{Key: "nuts", Content: "I am allergic to nuts", Pinned: true, Standing: true,
		Sources: []memory.Source{{SessionID: "s", Seq: 1}}})
	k.Remember(memory.Spec{Key: "rule", Content: "Answer in German", Trust: memory.TrustOperator})

	other := enginetest.New(t)
	if _, err := tryImport(other, export(k)); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]memory.Trust{"nuts": "user", "rule": "operator"} {
		m, err := other.Memories.Get(other.Context(), other.Admin, ident.DefaultProject, key)
		if err != nil || m.Trust != want || m.Pinned != (key == "nuts") || m.Standing != (key == "nuts") {
			t.Errorf("%s: %+v, %v", key, m, err)
		}
	}
	why, err := other.Memories.Why(other.Context(), other.Admin, ident.DefaultProject, "nuts")
	if err != nil || len(why.Versions) != 1 || len(why.Versions[0].Quotes) != 1 ||
		why.Versions[0].Quotes[0].Text != "I am allergic to nuts." {
		t.Errorf("%+v, %v", why, err)
	}
	other.Sound()
}
