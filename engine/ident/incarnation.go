package ident

import (
	"encoding/binary"
	"encoding/hex"
)

// Incarnation is 8 random bytes that tell apart things that bear the same id at different times. Its text is hex.
type Incarnation [8]byte

func (i Incarnation) String() string { return hex.EncodeToString(i[:]) }

func (i Incarnation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

func (i *Incarnation) UnmarshalText(b []byte) error {
	_, err := hex.Decode(i[:], b)
	return err
}

// Stream is the incarnation as a number, by which the recall index knows a session.
func (i Incarnation) Stream() uint64 { return binary.BigEndian.Uint64(i[:]) }

// IncarnationOf gives back the incarnation whose Stream this is.
func IncarnationOf(stream uint64) (i Incarnation) {
	binary.BigEndian.PutUint64(i[:], stream)
	return i
}
