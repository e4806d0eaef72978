package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/embedserver"
)

// TestVectorsOfAProcess runs the program with a provider of embeddings. Texts without the query's words are found once
// the project names a model and the job has run, also after a kill. While the provider is away, only words count.
func TestVectorsOfAProcess(t *testing.T) {
	t.Parallel()
	provider := embedserver.New("sk-vectors-of-a-process")
	defer provider.Close()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	environment := []string{"OPENAI_EMBEDDING_URL=" + provider.URL + "/v1",
		"OPENAI_EMBEDDING_API_KEY=sk-vectors-of-a-process"}
	p, err := launchWith(binary, data, environment)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { p.kill() }()
	c := p.client(t)
	const project = "/api/v1/projects/default"
	type found struct {
		Vectors string
		Data    []struct {
			Key string
			Why struct{ Vector float64 }
		}
	}
	ask := func() (f found) {
		c.post(project+"/memories/recall", object{"query": "automotive"}).want(200).into(&f)
		return f
	}
	// The job runs in the background, so the test waits for its result.
	wait := func(what string, done func(found) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			f := ask()
			if done(f) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, f)
			}
		}
	}
	near := func(f found) bool {
		return f.Vectors == "used" && len(f.Data) > 0 && f.Data[0].Key == "cars" && f.Data[0].Why.Vector > 0
	}
	settings := c.do("PATCH", project+"/settings", object{"embedding_model": "near", "embedding_timeout_ms": 10_000})
	settings.want(200)
	c.post(project+"/memories", object{"key": "cars", "content": "Our automobiles are red"}).want(201)
	c.post(project+"/memories", object{"key": "cake", "content": "A cake with apples"}).want(201)
	wait("a vector is made", near)

	p.kill()
	if p, err = launchWith(binary, data, environment); err != nil {
		t.Fatal(err)
	}
	key := c.key
	c = p.client(t).as(key)
	wait("vectors are kept", near)
	provider.Fail(503)
	if f := ask(); f.Vectors != "provider_error" || len(f.Data) != 0 {
		t.Errorf("the provider is away: %+v", f)
	}
	c.do("PATCH", project+"/settings", object{"embedding_model": nil}).want(200)
	if f := ask(); f.Vectors != "" || len(f.Data) != 0 {
		t.Errorf("without a model: %+v", f)
	}
	c.do("PATCH", project+"/settings", object{"embedding_dimensions": 9000}).want(422)
}
