package strictjson

import (
	"iter"
	"strings"
)

// DidYouMean returns a hint with the known name that is most similar to name: it differs in case, or in at most a
// third of its letters. It returns "" if no name is similar.
func DidYouMean(name string, known iter.Seq[string]) string {
	best, distance := "", len(name)/3+1
	if len(name) > 64 {
		return ""
	}
	for candidate := range known {
		d := edits(strings.ToLower(name), candidate)
		if d < distance || d == distance && best != "" && candidate < best {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean `" + best + "`?"
}

// edits returns the number of letters to insert, delete, replace or swap with a neighbour to turn a into b.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
