package refusenoise

// marks are what the signs of a text say.
type marks struct {
	technical int  // words that look like code: paths, calls, identifiers, settings
	bars      int  // signs that separate columns, and arrows
	commas    int  // between items of a list
	numbers   int  // words that begin with a digit
	trailing  bool // The text ends with three dots.
}

// looksLikeCode reports whether a text of so many words is mostly code, or a list of it.
func (m *marks) looksLikeCode(words int) bool {
	return m.technical >= minTechnical && m.technical*technicalPart >= words || m.bars >= 3 && m.technical >= 2 ||
		m.commas >= minTechnical && m.technical >= minTechnical
}

// read prepares a text: it folds case, splits it into words and counts its signs.
func (t *text) read(raw string) {
	t.raw, t.size, t.count, t.half, t.marks = raw, 0, 0, 0, marks{}
	first := true
	for i := 0; i < len(raw) && t.size < maxRead-8 && t.count < maxWords; {
		c, size := letterAt(raw, i)
		if c == 0 {
			switch raw[i] {
			case '.', '!', '?', ':', ';', '\n', ']':
				first = true
			case ',':
				t.marks.commas++
			case '|':
				t.marks.bars++
			case '-':
				if i+1 < len(raw) && raw[i+1] == '>' {
					t.marks.bars++
				}
			}
			if raw[i] >= 0xE3 { // scripts without spaces, and emoji
				t.half++
				i += 3
				continue
			}
			i++
			continue
		}
		_ = size
		i = t.readWord(i, first)
		first = false
	}
	n := len(raw)
	for n > 0 && (raw[n-1] == ' ' || raw[n-1] == '\n') {
		n--
	}
	t.marks.trailing = n >= 3 && (raw[n-3:n] == "..." || raw[n-3:n] == "…")
}

// readWord reads the word at i and returns where it ends. Points, slashes and such within a word belong to it.
func (t *text) readWord(i int, first bool) int {
	t.words[t.count] = word{t.size, first}
	t.count++
	inner, humps, digits, letters := 0, 0, 0, 0
	lower := false
	for i < len(t.raw) && t.size < maxRead {
		c, size := letterAt(t.raw, i)
		if c == 0 {
			if !isInner(t.raw[i]) || i+1 >= len(t.raw) {
				break
			}
			next, _ := letterAt(t.raw, i+1)
			if next == 0 && t.raw[i] != '_' {
				break
			}
			if t.raw[i] != '\'' && t.raw[i] != '-' {
				inner++
			}
			t.folded[t.size] = t.raw[i]
			t.size++
			i++
			continue
		}
		if size == 3 { // a typographic apostrophe
			t.folded[t.size] = '\''
			t.size++
			i += size
			continue
		}
		upper := size == 1 && t.raw[i] >= 'A' && t.raw[i] <= 'Z'
		if upper && lower {
			humps++
		}
		lower = !upper
		if c >= '0' && c <= '9' {
			digits++
		} else {
			letters++
		}
		if size == 2 {
			t.folded[t.size] = t.raw[i]
			t.size++
		}
		t.folded[t.size] = c
		t.size++
		i += size
	}
	t.folded[t.size] = ' '
	t.size++
	call := i < len(t.raw) && t.raw[i] == '('
	if digits > 0 && t.folded[t.words[t.count-1].at] <= '9' {
		t.marks.numbers++
	}
	if inner > 0 && letters > 0 || humps > 0 || digits > 0 && letters > 1 && inner+humps > 0 || call && letters > 0 &&
		i+1 < len(t.raw) && t.raw[i+1] == ')' {
		t.marks.technical++
	}
	return i
}

// letterAt returns the last byte of the letter or digit at i in lower case, with its size, or 0 if there is none. A
// typographic apostrophe between letters counts as one.
func letterAt(s string, i int) (c byte, size int) {
	c = s[i]
	switch {
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A', 1
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		return c, 1
	case c >= 0xC3 && c <= 0xDF && i+1 < len(s): // Latin, Greek, Cyrillic, Hebrew and Arabic
		last := s[i+1]
		if c == 0xC3 && last >= 0x80 && last <= 0x9E && last != 0x97 {
			last += 0x20
		}
		return last, 2
	case c == 0xE2 && i > 0 && i+3 < len(s) && s[i+1] == 0x80 && s[i+2] == 0x99:
		if before, _ := letterOnly(s[i-1]); before {
			return '\'', 3
		}
	}
	return 0, 0
}

func letterOnly(c byte) (bool, byte) {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80, c
}

// isInner reports whether a sign may be inside a word.
func isInner(c byte) bool {
	switch c {
	case '\'', '-', '.', '_', '/', '@', '=':
		return true
	}
	return false
}

// emptyJSON reports whether the text is JSON, perhaps in a fence, in which nothing is said: no string that is a value has
// three words.
func (t *text) emptyJSON() bool {
	s := unfenced(t.raw)
	if s == "" || s[0] != '{' && s[0] != '[' {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] >= '0' && s[i] <= '9':
			return false
		case s[i] != '"':
			continue
		}
		from := i + 1
		for i++; i < len(s) && s[i] != '"'; i++ {
			if s[i] == '\\' {
				i++
			}
		}
		next := i + 1
		for next < len(s) && (s[next] == ' ' || s[next] == '\n') {
			next++
		}
		if next < len(s) && s[next] == ':' {
			continue // a name
		}
		if i > len(s) || says(s[from:min(i, len(s))]) {
			return false
		}
	}
	return s[len(s)-1] == '}' || s[len(s)-1] == ']'
}

// says reports whether a string says more than that there is nothing.
func says(s string) bool {
	switch s {
	case "", "none", "None", "ok", "OK", "n/a", "N/A", "null", "nothing", "empty", "success", "nothing new", "no facts",
		"no new facts", "unknown":
		return false
	}
	return true
}

// unfenced returns a text without spaces around it and without a code fence.
func unfenced(s string) string {
	s = trimmed(s)
	if len(s) > 6 && s[:3] == "```" && s[len(s)-3:] == "```" {
		s = s[3 : len(s)-3]
		for s != "" && s[0] >= 'a' && s[0] <= 'z' {
			s = s[1:]
		}
		s = trimmed(s)
	}
	return s
}

func trimmed(s string) string {
	space := func(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
	for s != "" && space(s[0]) {
		s = s[1:]
	}
	for s != "" && space(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}
