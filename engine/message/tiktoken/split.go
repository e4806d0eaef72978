package tiktoken

// A splitter gives where the piece ends that begins at a place of a text. Pieces are what an encoding's published
// pattern matches; no token spans two of them. A piece depends on the text from its beginning on and on nothing before.
//
// The patterns are alternatives of which the first that matches holds, with greedy repetition that gives characters
// back where the rest would not match. The functions below decide the same from the classes of characters. Each looks
// at a character a bounded number of times, where a regular expression's matcher may try again from every place.
type splitter func(text string, at int) int

// splitO200K is the splitter of o200k_base:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func splitO200K(text string, at int) int {
	c, next := classAt(text, at)
	if end := wordO200K(text, at, c, next); end > at {
		return contraction(text, end)
	}
	switch {
	case c == number:
		return numbers(text, next)
	case c == other || text[at] == ' ' && run(text, next, other|mark) > next:
		end := run(text, next, other|mark)
		for end < len(text) && (text[end] == '\r' || text[end] == '\n' || text[end] == '/') {
			end++
		}
		return end
	}
	return space(text, at)
}

// wordO200K gives where a word ends that begins with a character of class c, and at where there is none. It is the
// first two alternatives without the contraction.
func wordO200K(text string, at int, c class, next int) int {
	const uppers, lowers = upper | letter | mark, lower | letter | mark
	start := at
	switch c {
	case number, newline:
		return at
	case mark, blank, other: // the first character may stand before the word
		start = next
	}
	// The capitals are taken as far as they go. A small letter must follow, or else the last character that can be
	// both is given back and is the end of the word.
	end, both := start, at
	for {
		c, next := classAt(text, end)
		if c&uppers == 0 {
			if c == lower {
				return run(text, next, lowers)
			}
			break
		}
		if end = next; c&lowers != 0 {
			both = end
		}
	}
	switch {
	case both > at:
		return both
	case c == mark: // It is a word by itself.
		return next
	case end > start: // There are only capitals, which the second alternative takes.
		return end
	}
	return at
}

// splitCL100K is the splitter of cl100k_base:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)
//	[^\r\n\p{L}\p{N}]?\p{L}+
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func splitCL100K(text string, at int) int {
	if end := contraction(text, at); end > at {
		return end
	}
	c, next := classAt(text, at)
	switch {
	case c&letters != 0:
		return run(text, next, letters)
	case c == number:
		return numbers(text, next)
	case c == newline:
		return space(text, at)
	}
	if end := run(text, next, letters); end > next {
		return end
	}
	if c&(other|mark) != 0 || text[at] == ' ' && run(text, next, other|mark) > next {
		return run(text, run(text, next, other|mark), newline)
	}
	return space(text, at)
}

// contraction gives where an English contraction ends that begins at a place, and the place where there is none.
func contraction(text string, at int) int {
	if len(text)-at < 2 || text[at] != '\'' {
		return at
	}
	first := text[at+1] | 0x20 // as a small letter
	switch first {
	case 's', 't', 'm', 'd':
		return at + 2
	}
	if len(text)-at < 3 {
		return at
	}
	switch second := text[at+2] | 0x20; {
	case first == 'r' && second == 'e', first == 'v' && second == 'e', first == 'l' && second == 'l':
		return at + 3
	}
	return at
}

// numbers gives where at most three digits end, of which the first ends at a place.
func numbers(text string, at int) int {
	for range 2 {
		c, next := classAt(text, at)
		if c != number {
			break
		}
		at = next
	}
	return at
}

// space gives where a piece of blanks ends: behind the last newline among them, else before the last of several, which
// goes with the word that follows.
func space(text string, at int) int {
	end, last, behind := at, at, at
	for {
		c, next := classAt(text, end)
		if c&spaces == 0 {
			break
		}
		if last, end = end, next; c == newline {
			behind = end
		}
	}
	switch {
	case behind > at:
		return behind
	case end == len(text) || last == at:
		return end
	}
	return last
}
