package rank

import "testing"

// Requests for a summary or an order are distinguished from queries that only contain the same words.
func TestBreadthOf(t *testing.T) {
	for _, c := range []struct {
		query string
		want  Breadth
	}{
		{"In what order did we plan the trip?", Order},
		{"list the recipes we tried in order", Order},
		{"Which came first? Give me the order in which I applied", Order},
		{"Put my job interviews in chronological order", Order},
		{"a timeline of the renovation", Order},
		{"how did my mood change over time", Order},
		{"what did we decide throughout our talks about the loan", Order},
		{"What is the sequence of medicines I took?", Order},
		{"In welcher Reihenfolge haben wir die Zimmer gestrichen?", Order},
		{"Dans quel ordre avons-nous visité les villes ?", Order},
		{"¿En qué orden vimos las películas?", Order},
		{"Summarize what I know about beekeeping", Summary},
		{"a summary of the court case", Summary},
		{"Give me an overview of my investments", Summary},
		{"recap our plans for the wedding", Summary},
		{"list everything we decided on the kitchen in order", Summary},
		{"How has my training progressed?", Summary},
		{"how did the plot evolve", Summary},
		{"Fasse bitte unser Gespräch über die Miete zusammen", Summary},
		{"Gib mir eine Zusammenfassung der Bewerbung", Summary},
		{"un résumé de nos vacances", Summary},

		{"What do I need in order to get a visa?", Narrow},
		{"the lift is out of order again", Narrow},
		{"when did I order a pizza", Narrow},
		{"Anna works overtime on Fridays", Narrow},
		{"the progress bar is stuck", Narrow},
		{"what is my order number", Narrow},
		{"alphabetical ordering of names", Narrow},
		{"Who ordered the flowers?", Narrow},
		{"Which CV mentions Lisbon?", Narrow},
		{"update my resume", Narrow},
		{"my timeline is tight, what did we agree", Narrow},
		{"the law and order episode", Narrow},
		{"the software developer from Oslo", Narrow},
		{"what does the tour cost", Narrow},
		{"I walked across our street", Narrow},
		{"Bestellung der Pizza", Narrow},
		{"l'ordre du médecin", Narrow},
		{"el orden público", Narrow},
		{"time flies over the hills", Narrow},
		{"the first sequel was better", Narrow},
		{"everything is fine", Narrow},
		{"summer holidays", Narrow},
	} {
		if got := BreadthOf(c.query); got != c.want {
			t.Errorf("%q is read as %q, want %q", c.query, got, c.want)
		}
	}
}

// Words about the form of an answer are removed unless nothing is left.
func TestWithoutScaffold(t *testing.T) {
	words := []Word{{Text: "summarize"}, {Text: "order"}}
	if got := WithoutScaffold(words); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if got := WithoutScaffold(append(words, Word{Text: "bees"})); len(got) != 1 || got[0].Text != "bees" {
		t.Errorf("%v", got)
	}
}
