package likeness

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/memory/snowball"
)

func newComparer(t testing.TB) *Comparer {
	t.Helper()
	a, err := snowball.New()
	if err != nil {
		t.Fatal(err)
	}
	return New(a)
}

// relation names what Compare found.
func relation(l Likeness) string {
	switch {
	case l.Equal:
		return "equal"
	case l.Covers:
		return "covers"
	case l.Covered:
		return "covered"
	case l.Digits:
		return "digits"
	}
	return ""
}

// "covers" means that the memory says all that the candidate says.
func TestRelations(t *testing.T) {
	c := newComparer(t)
	for _, one := range []struct{ candidate, memory, want string }{
		{"I live in Porto.", "I live in Porto", "equal"},
		{"I live in Porto.", "i  LIVE in\nporto!", "equal"},
		{"I live in Porto.", "i  LIVE in porto!", "equal"},
		{"The dog is called Rex", "A dog is called Rex", "equal"},
		{"I don't eat meat", "I do not eat meat", "equal"},
		{"I can't swim", "I cannot swim", "equal"},
		{"He won’t come", "He will not come", "equal"},
		{"She likes dogs", "She likes dog", "equal"},
		{"- Uses tabs, never spaces", "Uses tabs, never spaces.", "equal"},
		{"„Ich esse kein Fleisch“", "Ich esse kein Fleisch.", "equal"},
		{"Der Hund heißt Rex", "Ein Hund heißt Rex", "equal"},
		{"J'habite à Paris et je ne mange pas de viande", "j’habite à Paris et je ne mange pas de viande.", "equal"},
		{"El perro es de la casa", "Un perro es de la casa", "equal"},
		{"我住在北京。", "我住在北京", "equal"},
		{"Я живу в Москве", "я живу в москве!", "equal"},

		{"I live in Porto", "I live in Lisbon", ""},
		{"I live in Porto", "I lived in Porto", ""},
		{"I am allergic to nuts", "I am not allergic to nuts", ""},
		{"I live in LA near the sea", "I live in near the sea", ""},
		{"I use C", "I use C++", ""},
		{"My code is written in C#", "My code is written in C", ""},
		{"The offset is -5", "The offset is 5", ""},
		{"The offset is .5", "The offset is 5", ""},
		{"My blood type is A-", "My blood type is A+", ""},
		{"My blood type is A-", "My blood type is A", ""},
		{"It costs $5", "It costs €5", ""},
		{"The share is 5 %", "The share is 5", ""},
		{"The key is aB3c", "The key is Ab3c", ""},
		{"Open /srv/Data", "Open /srv/data", ""},
		{"The meeting is at 10:30", "The meeting is at 11:30", "digits"},
		{"The version is 1.2.3", "The version is 1.10", "digits"},
		{"It rained 1.1 1 hours", "It rained 1 1.1 hours", "digits"},
		{"I live in Porto?", "I live in Porto", ""},
		{"Tom beat Anna", "Anna beat Tom", ""},
		{"Er kommt mit Zucker aus", "Er kommt ohne Zucker aus", ""},

		{"I live in Porto", "I live in Porto with my wife", "covers"},
		{"I live in Porto with my wife.", "I live in Porto", "covered"},
		{"I live in Porto", "I have a dog. I live in Porto.", "covers"},
		{"I live in Porto", "I have a dog, and I live in Porto.", "covers"},
		{"I live in Porto", "I have a dog and I live in Porto.", ""},
		{"Ich wohne in Köln", "Ich wohne in Köln, mit meiner Frau", "covers"},
		{"Je vis à Lyon", "Je vis à Lyon depuis dix ans", "covers"},
		{"Vivo en Sevilla", "Vivo en Sevilla con mi madre", "covers"},
		{"I live", "I live in Porto", ""},
		{"I have a cat", "I have a cat allergy", ""},
		{"I like dogs", "I like dogs less than cats", ""},
		{"I work for Google", "I work for Google Ventures", ""},
		{"I eat meat", "I eat meat, but not pork", ""},
		{"I live in Porto", "I live in Porto. That is not true any more.", ""},
		{"I live in Porto", "If I live in Porto, I want a car", ""},
		{"I live in Porto", "I live in Porto, or I will soon", ""},
		{"I live in Porto", "I live in Porto until 2027", ""},
		{"I live in Porto", "I live in Porto, right?", "covers"},
		{"The budget is 500", "The budget is 5000 for May", ""},
		{"ok", "ok, and with", ""},
		{"", "", ""},
		{"...", "!", ""},
	} {
		got := relation(Compare(c.Read(one.candidate), c.Read(one.memory), 0))
		if got != one.want {
			t.Errorf("%q and %q: %q, want %q", one.candidate, one.memory, got, one.want)
		}
	}
}

func TestScore(t *testing.T) {
	c := newComparer(t)
	for _, one := range []struct {
		a, b string
		want uint32
	}{
		// live 4, porto 5: two of three words; cat 3.
		{"I live in Porto", "I live in Porto", MaxScore},
		{"living in Porto", "cats live in Porto", 2 * 9 * MaxScore / (9 + 12)},
		{"Porto", "not Porto", MaxScore},
		{"Porto", "Lisbon", 0},
		{"room 12", "room 13", 2 * 4 * MaxScore / 28},
		{"", "", 0},
		{"die Häuser sind nicht alt", "das Haus ist alt", MaxScore},
		{"не работает", "я живу в Москве", 0},
	} {
		got := Compare(c.Read(one.a), c.Read(one.b), 0).Score
		if got != one.want {
			t.Errorf("%q and %q: %d, want %d", one.a, one.b, got, one.want)
		}
	}
}

// wordsOfMany are parts of random texts.
var wordsOfMany = strings.Fields(`I live lives lived in Porto Lisbon the a not don't never and, but, with 5 6 -5 5.5 C++ C . ? !
	Ich wohne nicht in Köln der ein mit l'homme j'aime pas la casa no vive en 我住在北京 。 Я живу aB3 /srv/x`)

func randomText(r *rand.Rand) string {
	words := make([]string, r.IntN(12))
	for i := range words {
		words[i] = wordsOfMany[r.IntN(len(wordsOfMany))]
	}
	return strings.Join(words, " ")
}

// Comparing is symmetric, a text with words is equal to itself, what is equal has the highest score, at most one relation
// holds, and covering grows no text shorter.
func TestProperties(t *testing.T) {
	c := newComparer(t)
	r := rand.New(rand.NewPCG(1, 2))
	found := map[string]int{}
	for range 20_000 {
		a, b := randomText(r), randomText(r)
		if r.IntN(2) == 0 {
			b = a + " " + b
		} else if r.IntN(3) == 0 {
			b = strings.ReplaceAll(a, "5", "6")
		}
		x, y := c.Read(a), c.Read(b)
		there, back := Compare(x, y, 0), Compare(y, x, 0)
		if back.Score != there.Score || back.Equal != there.Equal || back.Digits != there.Digits ||
			back.Covers != there.Covered || back.Covered != there.Covers {
			t.Fatalf("%q and %q: %+v, and back %+v", a, b, there, back)
		}
		if there.Score > MaxScore || there.Equal && there.Score != MaxScore {
			t.Fatalf("%q and %q: score %d", a, b, there.Score)
		}
		holds := 0
		for _, one := range []bool{there.Equal, there.Covers, there.Covered, there.Digits} {
			if one {
				holds++
			}
		}
		if holds > 1 {
			t.Fatalf("%q and %q: %+v", a, b, there)
		}
		if there.Covers && len(x.spoken) >= len(y.spoken) {
			t.Fatalf("%q, of %d words, is covered by %q, of %d", a, len(x.spoken), b, len(y.spoken))
		}
		if self := Compare(x, c.Read(a), 0); len(x.spoken) > 0 && !self.Equal {
			t.Fatalf("%q is not equal to itself: %+v", a, self)
		}
		found[relation(there)]++
	}
	for _, want := range []string{"equal", "covers", "digits", ""} {
		if found[want] == 0 {
			t.Errorf("no pair of the random texts is %q", want)
		}
	}
}

// Of long texts only the beginning is compared, so nothing is known to be equal or covered.
func TestLongTexts(t *testing.T) {
	c := newComparer(t)
	long := strings.Repeat("ä", 3) + strings.Repeat("Porto is nice. ", 2000)
	a, b := c.Read(long+"yes"), c.Read(long+"no")
	if l := Compare(a, b, 0); l.Equal || l.Covers || l.Covered || l.Digits || l.Score != MaxScore {
		t.Errorf("long texts that differ behind the limit: %+v", l)
	}
}

func FuzzCompare(f *testing.F) {
	f.Add("I don't live in Porto.", "l'homme, and (5")
	f.Add("\xff '", "…?")
	c := newComparer(f)
	f.Fuzz(func(t *testing.T, a, b string) {
		there, back := Compare(c.Read(a), c.Read(b), 0), Compare(c.Read(b), c.Read(a), 0)
		if there.Score != back.Score || there.Equal != back.Equal || there.Covers != back.Covered {
			t.Errorf("%+v, and back %+v", there, back)
		}
	})
}

// BenchmarkCompare compares a candidate with the 32 memories that recall finds, one of which is alike.
func BenchmarkCompare(b *testing.B) {
	c := newComparer(b)
	candidate := "The deployment window of the billing service is on Thursdays between 14:00 and 16:00."
	memories := []string{"Billing deployments are done on Thursday afternoons, and never before a holiday."}
	for len(memories) < 32 {
		memories = append(memories, "The database is backed up each night, and the service of the customers is told about it.")
	}
	b.ReportAllocs()
	for b.Loop() {
		text := c.Read(candidate)
		for _, m := range memories {
			Compare(text, c.Read(m), 300_000)
		}
	}
}
