package prefix

// Block is a thinking block in a window.
type Block struct {
	Now  Place  // where it stands
	Made Place  // where it was made; the zero Place: nobody knows
	ID   uint64 // by Part.ID
}

// Keep is the law's rule for thinking: keep[i] tells whether blocks[i] may be sent. A block may where it was made behind
// the same messages and the thinking block that is sent before it is the one that it was made behind. Thinking that is
// older may be missing, so the newest blocks are looked at first. Where nobody knows how a block was made, it may be
// sent in a window of the whole, unchanged transcript, and where a later block that is sent names it; what stood before
// it is not known either, so elsewhere it is the oldest.
func Keep(keep []bool, blocks []Block, whole bool) []bool {
	keep = append(keep[:0], make([]bool, len(blocks))...)
	var want uint64 // the block before the oldest that is kept so far
	free := true    // it may be each
	for i := len(blocks) - 1; i >= 0; i-- {
		b := &blocks[i]
		named := !free && want == b.ID
		if known := b.Made.Known(); !free && !named || known && !b.Made.Equal(&b.Now) || !known && !whole && !named {
			continue
		}
		keep[i] = true
		want, free = b.Made.Thought, whole && !b.Made.Known()
		if !free && want == 0 {
			break
		}
	}
	return keep
}
