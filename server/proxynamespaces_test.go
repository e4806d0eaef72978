package server

import (
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// TestProxyNamespaceSetting lets models of two sessions call memory tools while the project's setting memory_namespace gives
// each session its own: what one stores only it finds, under keys that both use.
func TestProxyNamespaceSetting(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, ada *apiClient) {
		ada.patch(`{"memory_namespace":["chats","{session}"]}`)
		ada.session = "ada"
		bob := *ada
		bob.session = "bob"
		for c, drink := range map[*apiClient]string{ada: "green tea", &bob: "black coffee"} {
			c.ask("I like " + drink + ".")
			c.rounds(providers.Use("memory_store", `{"key":"drink","content":"The user likes `+drink+`."}`), providers.Say("Noted."))
			c.lawful()
		}
		for c, drinks := range map[*apiClient][2]string{ada: {"green tea", "black coffee"}, &bob: {"black coffee", "green tea"}} {
			c.ask("What do I drink?")
			c.rounds(providers.Use("memory_recall", `{"query":"likes"}`), providers.Say("You know."))
			c.lawful()
			sent := c.sent()
			last := string(sent[len(sent)-1])
			if !strings.Contains(last, "user likes "+drinks[0]) || strings.Contains(last, drinks[1]) {
				t.Errorf("the model of %s gets %s", c.session, last)
			}
			found := string(c.do("POST", "/api/v1/projects/default/memories/recall",
				`{"query":"likes","namespace":["chats","`+c.session+`"]}`).body)
			if !strings.Contains(found, drinks[0]) || strings.Contains(found, drinks[1]) {
				t.Errorf("the namespace of %s has %s", c.session, found)
			}
		}
		// Forgetting reaches the session's own memory alone.
		bob.ask("Forget it.")
		bob.rounds(providers.Use("memory_forget", `{"key":"drink"}`), providers.Say("Forgotten."))
		for session, want := range map[string]int{"ada": 200, "bob": 404} {
			if got := ada.do("GET", "/api/v1/projects/default/memories/drink?namespace=chats&namespace="+session, ""); got.status != want {
				t.Errorf("%s: %d %s", session, got.status, got.body)
			}
		}
		ada.headers = []string{"X-Mneme-Memory-Namespace", "chats/bob"}
		ada.ask("And now?")
		if got := ada.post(); got.status != 409 || !strings.Contains(string(got.body), "since its first turn") {
			t.Errorf("the session in another namespace: %d %s", got.status, got.body)
		}
	})
}
