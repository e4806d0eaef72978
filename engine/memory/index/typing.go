package index

// This file measures how far a word is from another that it may be a misspelling of.

// Edits counts the letters to replace, insert, delete or swap with the next to turn one word into the other. If there
// are more than most, it returns most + 1.
func Edits(a, b string, most int) int {
	x, y := []rune(a), []rune(b)
	if len(x)-len(y) > most || len(y)-len(x) > most {
		return most + 1
	}
	before, row, next := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		next[0] = i + 1
		least := next[0]
		for j := range y {
			same := 1
			if x[i] == y[j] {
				same = 0
			}
			n := min(row[j]+same, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				n = min(n, before[j-1]+1)
			}
			next[j+1] = n
			least = min(least, n)
		}
		if least > most {
			return most + 1
		}
		before, row, next = row, next, before
	}
	return min(row[len(y)], most+1)
}
