package plan

// Parts is a set of kinds of content other than text, as in the argument of a STRIP.
type Parts uint32

const (
	PartImage    Parts = 1
	PartAudio    Parts = 2
	PartDocument Parts = 4 // including files
	PartThinking Parts = 8 // including reasoning

	// PartText is the text in the documents, files and search results of a tool's message. STUB removes it. STRIP may
	// not name it.
	PartText Parts = 1 << 31

	allParts = PartImage | PartAudio | PartDocument | PartThinking
)

// Flags returns the flags of a record whose message contains these parts.
func (p Parts) Flags() (f Flags) {
	for _, of := range [...]struct {
		part Parts
		flag Flags
	}{
		{PartImage, FlagImage}, {PartAudio, FlagAudio}, {PartDocument, FlagDocument}, {PartThinking, FlagThinking},
	} {
		if p&of.part != 0 {
			f |= of.flag
		}
	}
	return f
}
