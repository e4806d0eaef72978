package engine

import "encoding/hex"

// incarnation tells apart things that bear the same id at different times.
type incarnation [8]byte

func (i incarnation) String() string { return hex.EncodeToString(i[:]) }

func (i incarnation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

func (i *incarnation) UnmarshalText(b []byte) error {
	_, err := hex.Decode(i[:], b)
	return err
}
