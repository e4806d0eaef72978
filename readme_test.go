package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
)

// TestReadme follows the README: its call through the proxy that is made twice, its other curl commands, and its
// programs, with a provider that knows the number of the order only if it is in the window.
func TestReadme(t *testing.T) {
	for _, runtime := range []string{"python3", "node"} {
		if _, err := exec.LookPath(runtime); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip("the README's programs need it:", err)
		}
	}
	var remembered atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Model    string
			Messages []struct{ Role, Content string }
		}
		err := json.NewDecoder(r.Body).Decode(&request)
		if err != nil || request.Model == "" || r.URL.Path != "/v1/chat/completions" ||
			r.Header.Get("Authorization") != "Bearer the-provider's-key" {
			t.Errorf("%s %s with %+v: %v", r.Method, r.URL, request, err)
		}
		reply := "Noted."
		if n := len(request.Messages); n == 3 && request.Messages[0].Content == "My order is number 17." &&
			request.Messages[1].Content == reply && request.Messages[2].Content == "Which number is my order?" {
			reply = "It is number 17."
			remembered.Add(1)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
			"message": map[string]any{"role": "assistant", "content": reply, "refusal": nil, "annotations": []any{}}}}})
	}))
	defer provider.Close()
	follow(t, "README.md", "OPENAI_BASE_URL="+provider.URL+"/v1", "OPENAI_API_KEY=the-provider's-key")
	if n := remembered.Load(); n != 3 {
		t.Errorf("%d of 3 programs gave the model what was said before", n)
	}
}
