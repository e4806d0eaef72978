package recall_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
)

// The order of several memories that have words of a query.
func TestRecallRanks(t *testing.T) {
	high, above, low := 1.0, 0.7, 0.1
	for name, c := range map[string]struct {
		stored []memory.Spec // an hour apart
		query  string
		want   string // keys of the first hits
	}{
		"a fact before the chatter of a session": {[]memory.Spec{
			{Key: "fact", Content: "Anna's favourite colour is green"},
			{Key: "a", Content: "we painted all day, what a colour!", SessionID: "s", Category: "conversation"},
			{Key: "b", Content: "any colour is fine with me", SessionID: "s", Category: "conversation"},
			{Key: "c", Content: "colour again, my favourite subject", SessionID: "s", Category: "conversation"},
			{Key: "d", Content: "that colour suits the hall", SessionID: "s", Category: "conversation"},
		}, "Anna's favourite colour", "fact"},
		"an answer before its question": {[]memory.Spec{
			{Key: "answer", Content: "The bakery opens at seven"},
			{Key: "question", Content: "When does the bakery open?"},
		}, "when does the bakery open", "answer question"},
		"an answer that repeats nothing, behind its question": {[]memory.Spec{
			{Key: "question", Content: "What is the wifi password?", SessionID: "s", Category: "conversation"},
			{Key: "answer", Content: "swordfish, all in lower case letters", SessionID: "s", Category: "conversation"},
			{Key: "thanks", Content: "thank you very much indeed", SessionID: "s", Category: "conversation"},
		}, "what is the wifi password", "answer question"},
		"the newer of two that contradict each other": {[]memory.Spec{
			{Key: "old", Content: "The user lives in Berlin"},
			{Key: "new", Content: "The user lives in Lisbon now, since the spring"},
		}, "where does the user live", "new old"},
		"the newer one, although the older is a bit more important": {[]memory.Spec{
			{Key: "old", Content: "The user's phone number is 5551234", Importance: &above},
			{Key: "new", Content: "The user's phone number is 5559999"},
		}, "phone number of the user", "new old"},
		"the more important of two that fit alike": {[]memory.Spec{
			{Key: "important", Content: "Peanuts are dangerous for Tom", Importance: &high},
			{Key: "newer", Content: "Tom bought peanuts for squirrels", Importance: &low},
		}, "Tom peanuts", "important newer"},
		"what fits better, although the other is important": {[]memory.Spec{
			{Key: "fits", Content: "Tom's sister plays the violin", Importance: &low},
			{Key: "important", Content: "Tom must not eat peanuts, ever", Importance: &high},
		}, "sister violin Tom", "fits important"},
		"the newer of messages too": {[]memory.Spec{
			{Key: "old", Content: "my favourite dish is lasagne", SessionID: "s", Category: "conversation"},
			{Key: "between", Content: "nice to hear about", SessionID: "s", Category: "conversation"},
			{Key: "new", Content: "my favourite dish is risotto these days", SessionID: "t", Category: "conversation"},
		}, "favourite dish", "new old"},
		"a rare word at the end of a long query": {[]memory.Spec{
			{Key: "common", Content: strings.Repeat("word0 word1 word2 ", 3)},
			{Key: "needle", Content: "the needle is in the haystack"},
		}, longQuery(700) + "needle", "common needle"},
	} {
		t.Run(name, func(t *testing.T) {
			k := enginetest.New(t)
			for _, spec := range c.stored {
				k.Remember(spec)
				k.Advance(time.Hour)
			}
			for _, how := range []string{"fresh", "in blocks"} {
				got := k.Found(recall.Query{Query: c.query})
				if !slices.Equal(got[:min(len(got), len(strings.Fields(c.want)))], strings.Fields(c.want)) {
					t.Errorf("%s: %s come first, want %s; %+v", how, got, c.want, k.Search(recall.Query{Query: c.query}))
				}
				fill(k)
			}
		})
	}
}

// longQuery returns a query with so many words that many texts contain, and as many that none does.
func longQuery(words int) string {
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "word%d absent%d ", i%3, i)
	}
	return b.String()
}

// What several memories say word for word appears once, and leaves room for others.
func TestRecallShowsDuplicatesOnce(t *testing.T) {
	k := enginetest.New(t)
	for i := range 7 {
		k.Remember(memory.Spec{Key: fmt.Sprint("same", i),
			Content: []string{"User prefers dark mode", "the user prefers DARK mode."}[i%2]})
		k.Advance(time.Hour)
	}
	k.Remember(memory.Spec{Key: "not", Content: "User prefers no dark mode on phones"})
	k.Remember(memory.Spec{Key: "light", Content: "The lamp has a light mode"})
	for _, how := range []string{"fresh", "in blocks"} {
		found := map[string]int{}
		for _, h := range k.Search(recall.Query{Query: "user prefers dark mode"}).Data {
			found[h.Key] = h.Duplicates
		}
		if len(found) != 3 || found["same6"] != 6 || found["not"] != 0 {
			t.Errorf("%s: %v", how, found)
		}
		fill(k)
	}
	for i := range 7 {
		k.Forget(fmt.Sprint("same", 6-i))
		if i == 6 {
			break
		}
		h := k.Search(recall.Query{Query: "user prefers dark mode"}).Data
		if at := slices.IndexFunc(h, func(h recall.Hit) bool { return strings.HasPrefix(h.Key, "same") }); at < 0 ||
			h[at].Duplicates != 5-i {
			t.Errorf("with %d forgotten: %+v", i+1, h)
		}
	}
}

// The name of a message's participant is shown, found and preferred. If it is that of a frequent speaker, it is not
// looked for in texts.
func TestRecallKnowsSpeakers(t *testing.T) {
	k := enginetest.New(t)
	say := func(name, text string) string {
		return fmt.Sprintf(`{"role":"user","name":%q,"content":%q}`, name, text)
	}
	k.Post("s", say("Caroline_Smith", "the garden needs water"), say("Melanie", "my garden is dry"),
		say("Melanie", "Caroline, Caroline! Look at this"), say("Tom", "pottery is fun"))
	speakers := func(query string) (out []string) {
		for _, h := range k.Search(recall.Query{Query: query, Scope: "transcript"}).Data {
			out = append(out, h.Speaker+": "+h.Content)
		}
		return out
	}
	for _, how := range []string{"not indexed", "indexed"} {
		for query, want := range map[string]string{
			"Caroline garden":          "Caroline_Smith: the garden needs water",
			"What of Melanie's garden": "Melanie: my garden is dry",
			"smith":                    "Caroline_Smith: the garden needs water",
			"Tom":                      "Tom: pottery is fun",
			"Tom pottery":              "Tom: pottery is fun",
		} {
			got := speakers(query)
			if len(got) == 0 || got[0] != want {
				t.Errorf("%s: %q finds %q, want %q first", how, query, got, want)
			}
		}
		for i := range 30 {
			k.Post("other", enginetest.User(fmt.Sprint("chatter ", i)), enginetest.Assistant(fmt.Sprint("well ", i)))
		}
		k.Drain()
	}
}
