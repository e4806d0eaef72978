package rank

// Weights are the weights of the parts of a score. docs/RECALL.md says what each of them gains.
type Weights struct {
	Saturation    float64 // BM25's k1: how soon further occurrences of a word stop counting
	Normalisation float64 // BM25's b: how much the length of a document matters

	// These are the weights of an occurrence of a word in the document before, in a question before, in the document
	// after, and in the next ones further away. All are reduced by the text's own length: for a text of NearLength
	// terms by half, because a long text is clear by itself.
	Before, Asked, Behind, Second float64
	NearLength                    float64

	Session   float64 // the rest of the session, as if it were one text
	Date      float64 // a month that the query names
	When      float64 // a text that names a time, if the query asks for one
	Speaker   float64 // a text by a speaker whom the query names
	Relevant  float64 // the share of the query's words from which When and Speaker count fully; below it they count less
	Length    float64 // a text's length, by its logarithm up to fullLength: short ones say little
	Question  float64 // subtracted from a short question, because answers are wanted
	Essay     float64 // subtracted from a long text of an assistant: it mentions everything
	Important float64 // importance above or below the middle
	Typo      float64 // the part of a word's share that a guess at it gets
	Adjacent  float64 // two words of the query that are adjacent in the text as in the query
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
	Session: .2, Date: .15, When: .1, Speaker: .1, Relevant: .25, Length: .05, Question: .1, Essay: .2, Important: .1,
	Typo: .5, Adjacent: .2,
}
