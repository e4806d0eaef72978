package prefix

// Block is a thinking block in a window.
type Block struct {
	Now  Place  // position in the window
	Made Place  // position at which it was made; the zero Place if unknown
	ID   uint64 // see Part.ID
}

// Keep is the validity rule for thinking: keep[i] reports whether blocks[i] may be sent. A block may be sent if it was
// made after the same messages, and if the thinking block sent before it is the one that it was made after. Older
// thinking may be missing, so Keep decides on the newest blocks first. If it is unknown how a block was made, the block
// may be sent in a window of the whole, unchanged transcript, or if a later block that is sent refers to it. What
// preceded it is unknown, too, so unless the window is whole, it is the oldest thinking block that is sent.
func Keep(keep []bool, blocks []Block, whole bool) []bool {
	keep = append(keep[:0], make([]bool, len(blocks))...)
	var want uint64 // the block required before the oldest one kept so far
	free := true    // any block may come before
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
