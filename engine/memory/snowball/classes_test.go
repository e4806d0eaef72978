package snowball

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// found reports whether a query finds a text by its words, as the index does in a space that contains only the text.
func found(a *Analyser, text, query string) bool {
	indexed := a.Index(text)
	terms := append(slices.Clone(indexed.Terms), indexed.Stops...)
	has := func(term string) bool { return slices.Contains(terms, term) }
	begins := func(some []rank.Beginning) bool {
		return slices.ContainsFunc(some, func(b rank.Beginning) bool {
			return slices.ContainsFunc(terms, func(term string) bool {
				more := len([]rune(term)) - len([]rune(b.Term))
				return strings.HasPrefix(term, b.Term) && more >= b.More && (b.Most == 0 || more <= b.Most)
			})
		})
	}
	return slices.ContainsFunc(a.Search(query, indexed.Languages, true).Words, func(w rank.Word) bool {
		return slices.ContainsFunc(w.Terms, has) || begins(w.Begins) || slices.ContainsFunc(w.Otherwise, has) ||
			begins(w.OtherwiseBegins) || slices.ContainsFunc(w.Within, func(stem string) bool {
			return slices.ContainsFunc(terms, func(term string) bool {
				back, compound := strings.CutPrefix(term, rank.BackwardsMark)
				at := strings.Index(back, stem)
				return compound && at >= 3 && len(back)-at-len(stem) >= 3
			})
		})
	})
}

// Classes of words, each with texts, queries that find them, and queries that must not.
var classes = map[string][]struct {
	text, finds, not string
}{
	"stop words": {
		{"Will fixes bikes.", "who is Will?", "who was Anna?"},
		{"The IT department moved.", "IT", "they"},
		{"We saw The Who live in Leeds", "The Who", "whose"},
		{"To be or not to be, that is the question", "to be or not to be", ""},
		{"May I introduce Can, our new colleague", "can", ""},
		{"Der Herr Die ist da", "die", ""},
	},
	"Turkish": {
		{"Kadıköy'de buluştuk", "Kadıköy", "Kadir"},
		{"İzmir’e gittik", "İzmir", ""},
		{"Yarın İzmir’e", "izmir", ""},
		{"KIRMIZI", "kırmızı", "kırk"},
		{"kırmızı araba aldım", "KIRMIZI", ""},
		{"İstanbul’da yaşıyor", "İstanbul", ""},
		{"We met in Beşiktaş'ta last year", "Beşiktaş", ""},
		{"DİYARBAKIR'dan geldi", "Diyarbakır", ""},
		{"ILIK süt içtim ve uyudum", "ılık", ""},
		{"Anna's bike", "Anna", ""},
		{"Üsküdar'da oturuyor", "Üsküdar", ""},
		{"Iğdır'dan geldik", "Iğdır", ""},
	},
	"compounds": {
		{"Lieferkettensorgfaltspflichtengesetz", "Gesetz", ""},
		{"Donaudampfschifffahrtsgesellschaft", "Gesellschaft", ""},
		{"Die Küchenschublade klemmt und das ist nicht gut", "Schublade", ""},
		{"verkeersveiligheidsmaatregelen", "maatregelen", ""},
		{"Lieferkettensorgfaltspflichtengesetz", "Sorgfalt", "Sorgenfalten"},
		{"verkeersveiligheidsmaatregelen", "veiligheid", ""},
		{"Die Donaudampfschifffahrt war nicht lang", "Dampfschiff", ""},
		{"Das ist die Krankenversicherungskarte", "Versicherung", "Ente"},
		{"Das ist ein Fahrradständer und er ist neu", "Ständer", "Rat"},
		{"Der Gegenstand ist weg und das ist nicht gut", "Gegenstände", "Regen"},
	},
	"umlauts": {
		{"Küche", "kueche", ""},
		{"Kueche und Bad", "Küche", ""},
		{"Grüße aus Köln", "Koeln", ""},
		{"Smørrebrød på torvet", "smoerrebroed", ""},
		{"die neue Wohnung ist groß", "neue", "nü"},
	},
	"identifiers": {
		{"commit 598f1b4d3aa broke it", "598f1b4", "598f1b5"},
		{"order 20240513-8871", "2024051", ""},
		{"trace 4bf92f3577b34da6", "4bf92f35", ""},
		{"PaymentGatewayService", "gatewayservice", "gatewayserver"},
		{"class UserAccountSettingsPage", "accountsettings", ""},
		{"parseHTTPResponse", "httpresponse", ""},
		{"call getUserDetails", "user details", ""},
	},
	"telephones": {
		{"+49 (30) 123-4567", "+49301234567", "+49301234568"},
		{"call +49 (30) 123-4567 today", "030 1234567", ""},
		{"Tel. (0221) 987 65 43", "+49 221 9876543", ""},
		{"0044 20 7946 0958", "+442079460958", ""},
		{"Ring 020 7946 0123", "+442079460123", "+442079460124"},
		{"Ring 020 7946 0123", "0044 20 7946 0123", ""},
		{"the switch is 3C:22:FB:9A:10:5E", "3c22fb9a105e", "3c22fb9a105d"},
		{"aa:bb:cc:0d:ee:1f is the printer", "AA-BB-CC-0D-EE-1F", ""},
	},
	"Ukrainian": {
		{"Ми живемо у Києві", "Київ", "Харків"},
		{"Поїзд до Львова", "Львів", ""},
		{"Вона купила книги", "книга", ""},
		{"Зустріч у Харкові", "Харків", ""},
		{"Це моя улюблена сестра", "улюблену", ""},
		{"Мы читали книги", "книга", ""},
	},
	"Hebrew": {
		{"אני גר בירושלים", "ירושלים", "תל"},
		{"הספר על השולחן", "שולחן", ""},
		{"שָׁלוֹם לכולם", "שלום", ""},
		{"ובבית שלנו", "הבית", ""},
	},
	"mixed languages": {
		{"No te preocupes, hiking boots", "hike", ""},
		{"Das ist nicht schlimm, meeting notes", "meetings", ""},
		{"Je ne sais pas. The dogs were running", "dog", ""},
		{"We ate well. Die Häuser waren sehr alt", "Haus", ""},
	},
	"apostrophes": {
		{"Ada's favourite colour is teal. <ünï>", "Ada", "Adam"},
		{"Ada’s favourite colour is teal. <ünï>", "Ada's", ""},
		{"Adaʼs favourite colour is teal", "Ada", ""},
		{"Zoë's garden. Die Blumen sind schön", "Zoë", ""},
		{"Yusuf's car is blue; arabası çok güzel", "Yusuf", ""},
		{"Pedro's dog barks. El perro es muy grande", "Pedro", "Pedrosa"},
		{"Il faut voir Mia's new flat, c'est très bien", "Mia", ""},
		{"Dat is Jan's fiets en die staat bij de deur", "Jan", ""},
		{"De foto's van het feest zijn klaar", "foto", ""},
		{"Das ist Uwe's Auto und es ist kaputt", "Uwe", ""},
		{"Nora'll bring the tent. <öï>", "Nora", ""},
		{"Bonne fête de l'an neuf", "an", ""},
		{"Elle porte une bague d’or", "or", ""},
		{"L'Élysée est à Paris", "Élysée", ""},
		{"L’ami d’Aude habite là", "Aude", ""},
		{"Nous avons vu l'été", "l’été", ""},
		{"Zeynep'in evi çok büyük", "Zeynep", ""},
		{"Kemal’e sordum ve o geldi", "Kemal", ""},
		{"We asked Elif'e about it", "Elif", ""},
	},
	"Hungarian and Finnish": {
		{"Taloissamme on lämmintä", "talo", ""},
		{"Kirjastosta löytyi kirjoja hyllylle", "kirjasto", ""},
		{"Budapesten élünk a házakban", "ház", ""},
		{"könyvekből tanulok", "könyv", ""},
	},
}

func TestClassesOfWords(t *testing.T) {
	a := newAnalyser(t)
	for class, cases := range classes {
		for _, c := range cases {
			if !found(a, c.text, c.finds) {
				t.Errorf("%s: %q does not find %q: %+v, %+v", class, c.finds, c.text, a.Index(c.text),
					a.Search(c.finds, a.Index(c.text).Languages, true).Words)
			}
			if c.not != "" && found(a, c.text, c.not) {
				t.Errorf("%s: %q finds %q: %+v, %+v", class, c.not, c.text, a.Index(c.text),
					a.Search(c.not, a.Index(c.text).Languages, true).Words)
			}
		}
	}
}
