package rank

import "testing"

// Texts that differ only in case, punctuation, spaces and articles say the same. A question and a statement do not.
func TestStyleOf(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"User prefers dark mode", "the user prefers  DARK mode.", true},
		{"She lives in Rome", "She lives in Rome?", false},
		{"I like tea", "I do not like tea", false},
		{"I like tea", "you like tea", false},
		{"dog bites man", "man bites dog", false},
		{"ab c", "a bc", false},
		{"🎉", "🎉", true}, {"🎉", "👍", false}, {"room 4", "room 5", false}, {"passed 👍", "passed 👎", false}, {"C++ is hard", "C is hard", false},
	} {
		if same := StyleOf(c.a).Said == StyleOf(c.b).Said; same != c.same {
			t.Errorf("%q and %q say the same: %t", c.a, c.b, same)
		}
	}
	for text, want := range map[string]Style{
		"Where were you?":             {Asks: true},
		"(Really?!) 😀":                {Asks: true},
		"Is it so? Yes.":              {},
		"We met last Tuesday":         {Timed: true},
		"Ich war gestern dort":        {Timed: true},
		"in 2023":                     {Timed: true},
		"du warst im Oktober da, ja?": {Asks: true, Timed: true},
		"I may march, an apple":       {},
		"":                            {},
	} {
		if got := StyleOf(text); got.Asks != want.Asks || got.Timed != want.Timed || got.Said == 0 {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for query, want := range map[string]bool{"When did she go?": true, "since when": true, "how long was it": true,
		"Wann kommt er": true, "¿Cuándo llegó?": true, "whenever": false, "how many": false} {
		if AsksWhen(query) != want {
			t.Errorf("%q asks when: %t", query, !want)
		}
	}
}
