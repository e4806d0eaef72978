package likeness

import "strings"

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// The lists are case-folded. They are of English, German, French, Spanish, Italian, Portuguese and Dutch. In texts of
// other languages articles and negations are words like all others, so fewer texts are equal or covered.
var (
	// articles, by language, do not count in equal texts.
	articles = map[string]map[string]bool{
		"english":    set(`a an the`),
		"german":     set(`der die das den dem des ein eine einen einem einer eines`),
		"french":     set(`le la les l' un une`),
		"spanish":    set(`el la los las un una`),
		"italian":    set(`il lo la gli le l' un uno una un'`),
		"portuguese": set(`o os um uma`),
		"dutch":      set(`de het een`),
	}
	negations = set(`not no never none nobody nothing nowhere neither nor without hardly
		nicht kein keine keinen keinem keiner keines nie niemals nichts niemand weder ohne
		ne n' pas jamais rien aucun aucune personne ni sans
		nunca jamás nada nadie ningún ninguno ninguna tampoco sin
		non mai niente nessuno nessuna né senza
		não nem ninguém nenhum nenhuma sem
		niet geen nooit niets niemand zonder`)
	// elisions are the French words that lose their vowel.
	elisions = set(`j m t s n c d qu`)
	// joins begin a statement of its own behind a comma.
	joins = set(`and but und aber et mais y pero e ma mas en maar`)
	// alternatives are what a statement is not only added to by, even behind a comma.
	alternatives = set(`or oder ou o of unless until if when except than wenn falls bis außer si sauf jusqu'à excepto hasta
		se tranne finché exceto até als tot behalve`)
	// additions are words that begin what a whole statement has beside it.
	additions = set(`and with in at on since because near from who which where for
		und mit seit weil bei aus
		et avec depuis parce dans chez
		y con desde porque en
		con da perché com porque met sinds omdat`)
	// wholeWithS are English words that are not another one with an s.
	wholeWithS = set(`news his this its does goods arms glasses customs means works series physics`)
)
