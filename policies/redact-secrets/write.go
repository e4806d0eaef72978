package redactsecrets

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// way is how a text is written.
type way int

const (
	asText   way = iota // as it is
	asJSON              // as it is, and it is JSON
	asQuoted            // as a string of JSON
)

// sink writes into a plan, or only counts.
type sink struct {
	text     mneme.Text
	counting bool
	size     int
}

func (s *sink) str(words string) {
	s.size += len(words)
	if !s.counting && words != "" {
		s.text = s.text.Str(words)
	}
}

const hex = "0123456789abcdef"

// quoted writes the inside of a JSON string.
func (s *sink) quoted(words string) {
	from := 0
	for i := range len(words) {
		c := words[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		s.str(words[from:i])
		from = i + 1
		switch c {
		case '"':
			s.str(`\"`)
		case '\\':
			s.str(`\\`)
		case '\n':
			s.str(`\n`)
		default:
			s.str(`\u00`)
			s.str(hex[c>>4 : c>>4+1])
			s.str(hex[c&15 : c&15+1])
		}
	}
	s.str(words[from:])
}

// redacted writes a text without its secrets. named says that one of them is in a name of the JSON.
func (s *sink) redacted(text string, how way) (named bool) {
	part := s.str
	if how == asQuoted {
		part = s.quoted
		s.str(`"`)
	}
	inString, at := false, 0
	for {
		one, ok := next(text, at)
		if !ok {
			break
		}
		part(text[at:one.from])
		bare := false
		if how == asJSON {
			inString = stringAt(text[at:one.from], inString)
			bare = !inString
			named = named || inString && isName(text[one.to:])
		}
		if bare {
			s.str(`"`)
		}
		s.str("[redacted: ")
		s.str(one.kind)
		s.str("]")
		if bare {
			s.str(`"`)
		}
		at = one.to
	}
	part(text[at:])
	if how == asQuoted {
		s.str(`"`)
	}
	return named
}

// stringAt reports whether the end of a part of JSON is inside a string. in says whether its beginning is.
func stringAt(part string, in bool) bool {
	for i := 0; i < len(part); i++ {
		switch {
		case part[i] == '"':
			in = !in
		case in && part[i] == '\\':
			i++
		}
	}
	return in
}

// isName reports whether the string that JSON is in the middle of is the name of a member.
func isName(rest string) bool {
	i := 0
	for i < len(rest) && rest[i] != '"' {
		if rest[i] == '\\' {
			i++
		}
		i++
	}
	for i++; i < len(rest) && (rest[i] == ' ' || rest[i] == '\n' || rest[i] == '\t' || rest[i] == '\r'); i++ {
	}
	return i < len(rest) && rest[i] == ':'
}

// write writes a text without its secrets into a plan.
func write(plan *mneme.Plan, text string, how way) mneme.Text {
	to := sink{text: plan.Text("")}
	to.redacted(text, how)
	return to.text
}

// patch is a JSON merge patch that is being written.
type patch struct {
	to         sink
	fields     int
	impossible bool // A field cannot be replaced.
}

// add adds a field, if it has a secret.
func (p *patch) add(field, text string, how way) {
	if !found(text) || p.impossible {
		return
	}
	count := sink{counting: true}
	if count.redacted(text, how) || p.to.size+count.size > maxText {
		p.impossible = true
		return
	}
	p.to.str([]string{"{", ","}[min(p.fields, 1)])
	p.to.str(`"`)
	p.to.str(field)
	p.to.str(`":`)
	p.to.redacted(text, how)
	p.fields++
}

// end returns the whole patch.
func (p *patch) end() mneme.Text {
	p.to.str("}")
	return p.to.text
}

// wayOf returns how a field of the candidate is written: an object or an array is JSON. The host gives strings without
// their quotes, so a string that looks like one is told apart by what is in it.
func wayOf(req *mneme.Request, field, text string) way {
	if field == "metadata" {
		return asJSON
	}
	inside := ""
	switch text[0] {
	case '[':
		inside = "/0"
	case '{':
		from := 1
		for from < len(text) && text[from] != '"' {
			from++
		}
		to := from + 1
		for to < len(text) && text[to] != '"' {
			if text[to] == '\\' || text[to] == '/' || text[to] == '~' {
				return asQuoted
			}
			to++
		}
		if to >= len(text) {
			return asQuoted
		}
		inside = "/" + text[from+1:to]
	default:
		return asQuoted
	}
	if req.JSON(0, "/value"+inside, nil) < 0 {
		return asQuoted
	}
	return asJSON
}
