package ident

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// numberedBytes is how many bytes of an incarnation a numbered id contains.
const numberedBytes = 5

// Numbered returns the id of a numbered thing of one incarnation: a prefix for its type, the beginning of the
// incarnation, and the number. Ids of one incarnation sort like their numbers.
func Numbered(prefix string, inc Incarnation, number uint64) string {
	return fmt.Sprintf("%s%s_%012d", prefix, series(inc), number)
}

func series(inc Incarnation) string { return Alphabet.EncodeToString(inc[:numberedBytes]) }

// ParseNumbered returns the number in an id. For an id of another incarnation it returns 0, because that incarnation is
// an earlier one, and everything that exists now is newer. It returns invalid_id for the field if Numbered cannot have
// made the id.
func ParseNumbered(prefix, field, id string, inc Incarnation) (uint64, error) {
	of, number, ok := splitNumbered(prefix, id)
	if !ok {
		return 0, fault.InvalidField(field, "invalid_id", "must be an id that was given here, like %s",
			Numbered(prefix, inc, 1))
	}
	if of != series(inc) {
		return 0, nil
	}
	return number, nil
}

// SplitNumbered returns the beginning of the incarnation in an id, and the number. ok is false if Numbered cannot have
// made the id.
func SplitNumbered(prefix, id string) (begin []byte, number uint64, ok bool) {
	of, number, ok := splitNumbered(prefix, id)
	begin, err := Alphabet.DecodeString(of)
	if !ok || err != nil || len(begin) != numberedBytes {
		return nil, 0, false
	}
	var inc Incarnation
	copy(inc[:], begin)
	return begin, number, id == Numbered(prefix, inc, number)
}

func splitNumbered(prefix, id string) (series string, number uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, prefix)
	series, digits, _ := strings.Cut(rest, "_")
	number, err := strconv.ParseUint(digits, 10, 64)
	return series, number, ok && err == nil
}
