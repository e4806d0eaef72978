package engine

// bodySeq reads the message's number out of a body key.
func bodySeq(key []byte) uint64 {
	_, seq, _ := kindBody.Split(key)
	return seq
}
