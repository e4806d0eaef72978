package engine

import (
	"encoding/binary"
	"encoding/hex"
)

// incarnation tells apart things that bear the same id at different times.
type incarnation [8]byte

func (i incarnation) String() string { return hex.EncodeToString(i[:]) }

func (i incarnation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

func (i *incarnation) UnmarshalText(b []byte) error {
	_, err := hex.Decode(i[:], b)
	return err
}

// stream is the incarnation as a number, by which the recall index knows a session.
func (i incarnation) stream() uint64 { return binary.BigEndian.Uint64(i[:]) }

func incarnationOf(stream uint64) (i incarnation) {
	binary.BigEndian.PutUint64(i[:], stream)
	return i
}
