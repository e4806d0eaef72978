package snowball

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func newAnalyser(t testing.TB) *Analyser {
	t.Helper()
	a, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDocument(t *testing.T) {
	a := newAnalyser(t)
	for _, c := range []struct{ text, want, latin string }{
		{"The dogs were running!", "dog run", "english"},
		{"I don't know Anna's café", "know anna cafe", "english"},
		{"Ich habe die Häuser nicht gesehen", "haus geseh", "german"},
		{"l'homme et la femme dans les maisons", "homm femm maison", "french"},
		{"dell'arte e della musica", "arte music", "italian"},
		{"el perro y los gatos de la casa", "perr gat cas", "spanish"},
		{"Мы читали книги", "чита книг", ""},
		{"我去东京", "我去 去东 东京", ""},
		{"猫", "猫", ""},
		{"v2.0_beta", "v2 0 beta", "english"},
		{"👍🏽 🇵🇹🇩🇪 👩‍👩‍👧", "👍 🇵🇹 🇩🇪 👩 👩 👧", ""},
		{"pass\u200bword\ufeff", "password", "english"},
		{"ＡＢＣ ﬁre ①", "abc fire 1", "english"},
		{"STRASSE straße", "strass strass", "english"},
		{"to be or not to be", "to be or not to be", "english"},
		{"'' ' ’quoted’ rock'n'roll", "quot rock'n roll", "english"},
		{"!?… ", "", ""},
		{"", "", ""},
	} {
		terms, latin := a.Document(c.text)
		if got := strings.Join(terms, " "); got != c.want || latin != c.latin {
			t.Errorf("%q gives %q in %q, want %q in %q", c.text, got, latin, c.want, c.latin)
		}
	}
}

func TestQuery(t *testing.T) {
	a := newAnalyser(t)
	for _, c := range []struct {
		query, want string
		languages   []string
	}{
		{"What did the dogs do?", "dogs:dog", nil},
		{"running running runs", "running:run", nil},
		{"Häuser", "häuser:hauser", nil},
		{"Häuser", "häuser:hauser,haus", []string{"german"}},
		{"what did die in the war", "die:die war:war", []string{"english", "german"}},
		{"книги", "книги:книг", nil},
		{"the who", "the:the who:who", nil},
		{" ... ", "", nil},
	} {
		var got []string
		for _, w := range a.Query(c.query, c.languages) {
			got = append(got, w.Text+":"+strings.Join(w.Terms, ","))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%q in %v gives %q, want %q", c.query, c.languages, got, c.want)
		}
	}
}

// Each word of a document is found by itself, in the document's language, unless it is one of its stop words.
func TestQueryFindsDocument(t *testing.T) {
	a := newAnalyser(t)
	for _, text := range []string{
		"Die Nachbarn haben gestern neue Fahrräder gekauft", "Los niños estaban jugando en los jardines",
		"Les étudiantes travaillaient dans leurs bibliothèques", "The children's toys were lying everywhere",
		"De kinderen speelden in de tuinen van het huis", "Barnen lekte i trädgårdarna och det var roligt"} {
		terms, latin := a.Document(text)
		for _, word := range strings.Fields(text) {
			for _, w := range a.Query(word, []string{latin}) {
				stop := a.stops[fold(word)].has(a.languageNamed(latin))
				if !stop && !slices.ContainsFunc(w.Terms, func(t string) bool { return slices.Contains(terms, t) }) {
					t.Errorf("%q of %q gives %q, indexed is %q", word, text, w.Terms, terms)
				}
			}
		}
	}
}

func (a *Analyser) languageNamed(name string) *language {
	for _, l := range a.latin {
		if l.name == name {
			return l
		}
	}
	return nil
}

// For any bytes, terms are valid, not too long, contain no zero byte, and are the same for the same text in a query.
func FuzzAnalyse(f *testing.F) {
	a := newAnalyser(f)
	for _, s := range []string{"The dogs' café", "東京都へ", "👩‍👩‍👧 ﷺ", "a\x00b", "\xff\xfe", "ẞß ŉ İI", "'''a'bcd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		terms, latin := a.Document(s)
		for _, term := range terms {
			if term == "" || len(term) > 512 || strings.ContainsRune(term, 0) || !utf8.ValidString(term) {
				t.Fatalf("%q gives the term %q", s, term)
			}
		}
		found := len(terms) == 0
		for _, w := range a.Query(s, []string{latin}) {
			for _, term := range w.Terms {
				found = found || slices.Contains(terms, term)
			}
		}
		if !found {
			t.Fatalf("%q is not found by itself: %q", s, terms)
		}
	})
}

func BenchmarkDocument(b *testing.B) {
	a := newAnalyser(b)
	for name, text := range map[string]string{
		"english":  strings.Repeat("The quick brown fox was jumping over the lazy dogs of the neighbours. ", 3),
		"japanese": strings.Repeat("彼女は昨日、東京でピアノを弾きました。", 4),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				a.Document(text)
			}
		})
	}
}
