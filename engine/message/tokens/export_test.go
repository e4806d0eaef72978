package tokens

// MiddleWhole is Middle without seams: it counts every cut text as a whole.
func MiddleWhole(text string, limit int, count func(string) int) string {
	whole := func(keep int) (string, int) {
		head, mark, tail := cutMiddle(text, keep, "")
		return head + mark + tail, count(head + mark + tail)
	}
	best, n := whole(0)
	if n > limit {
		switch {
		case count(text) <= limit:
			return text
		case count(ellipsis) <= limit:
			return ellipsis
		}
		return ""
	}
	low, high := 0, 4*limit+4
	for high < len(text) {
		cut, n := whole(high)
		if n > limit {
			break
		}
		best, low, high = cut, high, 2*high
	}
	if high >= len(text) {
		if count(text) <= limit {
			return text
		}
		high = len(text)
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		if cut, n := whole(middle); n <= limit {
			best, low = cut, middle
		} else {
			high = middle
		}
	}
	return best
}
