package recall_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
)

func day(t *testing.T, s string) *time.Time {
	t.Helper()
	at, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t.Fatal(err)
	}
	at = at.Add(12 * time.Hour)
	return &at
}

// A question that names only a time returns what is of that time, newest first. One that also names something that is
// found does not.
func TestRecallOfATime(t *testing.T) {
	k := enginetest.New(t)
	for key, m := range map[string]struct{ content, at string }{
		"opera":   {"Went to the opera with Ada", "2024-05-14"},
		"dentist": {"Had a tooth pulled", "2024-05-07"},
		"spring":  {"Planted tomatoes", "2024-03-20"},
		"later":   {"Pruned the roses", "2024-03-28"},
		"old":     {"Bought a tandem", "2023-03-02"},
	} {
		k.Remember(memory.Spec{Key: key, Content: m.content, OccurredAt: day(t, m.at)})
	}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"what did I do yesterday", []string{"opera"}},
		{"What happened yesterday?", []string{"opera"}},
		{"14 May 2024", []string{"opera"}},
		{"2024-05-14", []string{"opera"}},
		{"What did we do in March 2024?", []string{"later", "spring"}},
		{"last week", []string{"dentist"}},
		{"gestern", []string{"opera"}},
		{"Was haben wir gestern gemacht?", []string{"opera"}},
		{"qu'est-ce qu'on a fait hier?", nil},
		{"¿Qué hicimos ayer?", []string{"opera"}},
		{"anything from March 2023", []string{"old"}},
		{"what did I do yesterday and last week", []string{"opera", "dentist"}},
		{"the tandem from yesterday", []string{"old"}},
		{"what did I do on 1 January 2020", nil},
	} {
		got := k.Found(recall.Query{Query: c.query, Now: day(t, "2024-05-15"), Limit: 10})
		if c.want != nil && !slices.Equal(got, c.want) || c.query == "what did I do on 1 January 2020" && len(got) > 0 {
			t.Errorf("%q finds %q, want %q", c.query, got, c.want)
		}
	}
	r := k.Search(recall.Query{Query: "yesterday", Now: day(t, "2024-05-15")})
	if len(r.Data) != 1 || r.Data[0].Score <= 0 || r.Data[0].Score != r.Data[0].Why.Date {
		t.Errorf("%+v", r.Data)
	}
	if got := k.Found(recall.Query{Query: "yesterday", Now: day(t, "2024-05-15"), Until: "2024-05-01"}); len(got) > 0 {
		t.Errorf("outside the query's own bounds: %q", got)
	}
}

// Adjacent words of the query count more if they are also adjacent in the text.
func TestRecallPrefersNeighbouringWords(t *testing.T) {
	k := enginetest.New(t)
	for key, content := range map[string]string{
		"york": "York has new buildings and new shops", "moved": "I moved to New York",
		"green": "The apple fell on green grass next to the apple tree", "apple": "I like a green apple best of all fruit",
		"machine": "learning to repair a broken machine", "ml": "a course on machine learning",
	} {
		k.Keep(key, content)
	}
	for range 2 {
		for query, want := range map[string]string{"new york": "moved", "green apple": "apple", "machine learning": "ml"} {
			got := k.Search(recall.Query{Query: query}).Data
			if len(got) < 2 || got[0].Key != want || got[0].Why.Adjacent <= 0 || got[1].Why.Adjacent != 0 {
				t.Errorf("%q finds %+v", query, got)
			}
		}
		k.Drain()
	}
}

// No hit contains a phrase that the query excludes, whether the rest of the query is found or not.
func TestRecallLeavesOutPhrases(t *testing.T) {
	k := enginetest.New(t)
	k.Keep("door", "the red door of the house")
	k.Keep("car", "a red car near the door")
	k.Keep("who", "a poster of The Who")
	for query, want := range map[string][]string{
		`red -"red door"`: {"car"}, `door -"red car"`: {"door"}, `-"red door" red`: {"car"}, `red -"car"`: {"door"},
		`"The Who"`: {"who"}, `-"red door"`: {"door"},
	} {
		got := k.Found(recall.Query{Query: query})
		if len(got) == 0 || got[0] != want[0] || len(got) != len(want) && query != `-"red door"` {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
	}
}

// A memory is found by the names, strings and numbers of its value, which count as part of its text.
func TestRecallSearchesValues(t *testing.T) {
	k := enginetest.New(t)
	k.Remember(memory.Spec{Key: "car", Content: "The company car", Value: []byte(`{"plate":"XY-4711","colour":{"name":"turquoise"},"seats":5}`)})
	k.Remember(memory.Spec{Key: "van", Content: "The company car", Value: []byte(`{"plate":"XY-4712"}`)})
	k.Remember(memory.Spec{Key: "only", Value: []byte(`["a heron", true]`)})
	for range 2 {
		for query, want := range map[string]string{"turquoise": "car", "XY-4712": "van", "plate XY-4711": "car", "heron": "only",
			`"colour name"`: "car"} {
			if got := k.Found(recall.Query{Query: query}); len(got) == 0 || got[0] != want {
				t.Errorf("%q finds %q, want %q", query, got, want)
			}
		}
		if got := k.Found(recall.Query{Query: "company car"}); len(got) != 2 {
			t.Errorf("memories with the same content and other values: %q", got)
		}
		k.Drain()
	}
}

// A request for an order spreads its hits over the conversation and prefers what the user said.
func TestRecallSpreadsBroadQueries(t *testing.T) {
	k := enginetest.New(t)
	var messages []string
	for i := range 40 {
		text := fmt.Sprint("nothing of it, part ", i)
		if i%10 < 3 {
			text = fmt.Sprint("the budget of the garden, part ", i)
		}
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], text))
	}
	k.Post("s", messages...)
	ask := func(query string) recall.Result {
		return k.Search(recall.Query{Query: query, Scope: "transcript", Limit: 4})
	}
	r := ask("In what order did we talk about the budget of the garden?")
	if r.Breadth != "order" {
		t.Fatalf("breadth %q", r.Breadth)
	}
	tens := map[string]bool{}
	for _, h := range r.Data {
		if h.Role != "user" || h.Why.User <= 0 {
			t.Errorf("%+v", h)
		}
		var part int
		if _, err := fmt.Sscanf(h.Content, "the budget of the garden, part %d", &part); err == nil {
			tens[fmt.Sprint(part/10)] = true
		}
	}
	if len(tens) != 4 {
		t.Errorf("four hits are of the parts %v", tens)
	}
	if r := ask("the budget of the garden"); r.Breadth != "" || r.Data[0].Why.User != 0 {
		t.Errorf("%+v", r)
	}
}
