package tiktoken

// A splitter returns the end of the piece that begins at a position of a text. Pieces are the matches of an encoding's
// published pattern; no token spans two of them. A piece depends only on the text from its beginning on.
//
// A pattern is a list of alternatives, of which the first match wins, with greedy repetition that backtracks. The
// functions below decide the same from the classes of characters. They examine each character a bounded number of
// times, whereas a regular expression may start again at every position.
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

// wordO200K returns the end of a word that begins with a character of class c, or at if there is none. It implements
// the first two alternatives without the contraction.
func wordO200K(text string, at int, c class, next int) int {
	const uppers, lowers = upper | letter | mark, lower | letter | mark
	start := at
	switch c {
	case number, newline:
		return at
	case mark, blank, other: // the first character may precede the word
		start = next
	}
	// Take as many capitals as possible. A small letter must follow. Otherwise the last character that can be both is
	// given back and ends the word.
	end, both := start, at
	for {
		c, next := classAt(text, end)
		if c&uppers == 0 {
			if c == lower {
				return run(text, next, lowers)
			}
			break
		}
		end = next
		if c&lowers != 0 {
			both = end
		}
	}
	switch {
	case both > at:
		return both
	case c == mark: // it is a word by itself
		return next
	case end > start: // only capitals, which the second alternative matches
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

// contraction returns the end of an English contraction that begins at a position, or the position if there is none.
func contraction(text string, at int) int {
	if len(text)-at < 2 || text[at] != '\'' {
		return at
	}
	first := text[at+1] | 0x20 // in lower case
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

// numbers returns the end of at most three digits, of which the first ends at the given position.
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

// space returns the end of a piece of blanks: after the last newline in it, or else before the last of several blanks,
// which belongs to the word that follows.
func space(text string, at int) int {
	end, last, behind := at, at, at
	for {
		c, next := classAt(text, end)
		if c&spaces == 0 {
			break
		}
		last, end = end, next
		if c == newline {
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
