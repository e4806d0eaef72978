package openai_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/openai"
	"github.com/seed-0906e6bc/mneme/testdata/embedserver"
)

// Vectors are returned in the order of their texts, with the requested number of dimensions and their cost.
func TestEmbed(t *testing.T) {
	server := embedserver.New("right")
	defer server.Close()
	e, err := openai.NewEmbedder(openai.Options{BaseURL: server.URL + "/v1", APIKey: "right"})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"two words", "three other words"}
	got, err := e.Embed(t.Context(), recall.EmbedRequest{Model: "m", Dimensions: 32, Texts: texts})
	if err != nil || got.Tokens != 5 || len(got.Vectors) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, text := range texts {
		if !slices.Equal(got.Vectors[i], embedserver.Embed("m", text, 32)) {
			t.Errorf("vector %d is another", i)
		}
	}
	server.Fail(http.StatusTooManyRequests)
	_, err = e.Embed(t.Context(), recall.EmbedRequest{Model: "m", Texts: texts})
	failed, _ := errors.AsType[*recall.ProviderError](err)
	if failed == nil || failed.Code != "provider_rate_limited" || failed.RetryAfter != 7*time.Second {
		t.Errorf("%+v", err)
	}
}

// A response that does not fit the request is refused, and no error contains the key or the address.
func TestEmbedRefusesOddAnswers(t *testing.T) {
	const key = "a-key-that-is-secret"
	one := `{"object":"embedding","index":%d,"embedding":[1,2]}`
	first := fmt.Sprintf(one, 0)
	for body, code := range map[string]string{
		`{"data":[` + first + `]}`:                              "bad_reply",
		`{"data":[` + first + `,` + first + `]}`:                "bad_reply",
		`{"data":[` + first + `,` + fmt.Sprintf(one, 2) + `]}`:  "bad_reply",
		`{"data":[` + first + `,` + fmt.Sprintf(one, -1) + `]}`: "bad_reply",
		`{"data":[` + first + `,{"index":1,"embedding":[]}]}`:   "", // rank.Quantise refuses it
		`{"data":[`: "bad_reply", `null`: "bad_reply", `<html>`: "bad_reply",
		`{"data":[{"index":0,"embedding":[` + strings.Repeat("1,", 3<<20) + `1]}]}`: "bad_reply",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		e, err := openai.NewEmbedder(openai.Options{BaseURL: server.URL, APIKey: key})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Embed(t.Context(), recall.EmbedRequest{Model: "m", Texts: []string{"a", "b"}})
		server.Close()
		failed, _ := errors.AsType[*recall.ProviderError](err)
		if code == "" && err != nil || code != "" && (failed == nil || failed.Code != code) {
			t.Errorf("%.60s: %v, want %q", body, err, code)
		}
		if err != nil && (strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "127.0.0.1")) {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}
