package rank

// Weights are the weights of the parts of a score. docs/RECALL.md says what each of them gains.
type Weights struct {
	Saturation    float64 // BM25's k1: how soon more of the same word stops to count
	Normalisation float64 // BM25's b: how much the length of a document matters

	// What an occurrence of a word counts in the document before, in one before that asks something, in the one
	// behind, and in those one further. All of it falls with the text's own length: a text of NearLength terms gets
	// half, because it says itself what it is about.
	Before, Asked, Behind, Second float64
	NearLength                    float64

	Session   float64 // the rest of the session, as if it were one text
	Date      float64 // a month that the query names
	When      float64 // a text that names a time, where the query asks for one
	Speaker   float64 // a text by somebody whom the query names
	Relevant  float64 // the share of the query's words from which on When and Speaker count in full; less below it
	Length    float64 // a text's length, by the logarithm and at most fullLength: short ones say little
	Question  float64 // a short text that asks loses, because answers are looked for
	Essay     float64 // a long text of an assistant loses: it mentions everything
	Important float64 // importance above or below the middle
	Typo      float64 // the part of a word's share that a guess at it has
	Adjacent  float64 // two words of the query that follow each other in the text as they do in the query
}

// Lengths at which weights begin and end, in terms.
const (
	fullLength  = 15
	askLength   = 20
	essayLength = 80
)

// Default are the weights in use.
var Default = Weights{
	Saturation: .9, Normalisation: .5,
	Before: .3, Asked: .9, Behind: .3, Second: .25, NearLength: 25,
	Session: .2, Date: .15, When: .1, Speaker: .1, Relevant: .25, Length: .08, Question: .1, Essay: .2, Important: .1,
	Typo: .5, Adjacent: .2,
}
