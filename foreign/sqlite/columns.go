package sqlite

import "strings"

// parseColumns returns the names of the columns in a CREATE TABLE statement, in lower case, and the column that is the
// row's number; -1 if there is none.
func parseColumns(sql string) (columns []string, rowid int) {
	rowid = -1
	open := strings.IndexByte(sql, '(')
	if open < 0 {
		return nil, rowid
	}
	for _, def := range splitTop(sql[open+1:]) {
		name, rest := firstName(def)
		word := strings.ToUpper(name)
		if name == "" || !quotedFirst(def) && (word == "PRIMARY" || word == "UNIQUE" || word == "CHECK" || word == "FOREIGN" ||
			word == "CONSTRAINT") {
			continue
		}
		fields := strings.Fields(strings.ToUpper(rest))
		if len(fields) >= 3 && fields[0] == "INTEGER" && strings.Contains(strings.Join(fields, " "), "PRIMARY KEY") {
			rowid = len(columns)
		}
		columns = append(columns, strings.ToLower(name))
	}
	return columns, rowid
}

// splitTop splits the definitions of columns at the commas outside parentheses and quotes, up to the closing one.
func splitTop(s string) (parts []string) {
	depth, quote, from := 0, byte(0), 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"' || c == '`':
			quote = c
		case c == '[':
			quote = ']'
		case c == '-' && strings.HasPrefix(s[i:], "--"):
			if end := strings.IndexByte(s[i:], '\n'); end >= 0 {
				s = s[:i] + strings.Repeat(" ", end) + s[i+end:]
			}
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return append(parts, s[from:i])
			}
		case c == ',' && depth == 0:
			parts, from = append(parts, s[from:i]), i+1
		}
	}
	return append(parts, s[from:])
}

func quotedFirst(def string) bool {
	def = strings.TrimSpace(def)
	return def != "" && strings.IndexByte("\"`['", def[0]) >= 0
}

// firstName returns the first name of a definition, without its quotes, and the rest.
func firstName(def string) (name, rest string) {
	def = strings.TrimSpace(def)
	if !quotedFirst(def) {
		if end := strings.IndexAny(def, " \t\r\n("); end >= 0 {
			return def[:end], def[end:]
		}
		return def, ""
	}
	closing := def[0]
	if closing == '[' {
		closing = ']'
	}
	end := strings.IndexByte(def[1:], closing)
	if end < 0 {
		return def[1:], ""
	}
	return def[1 : 1+end], def[2+end:]
}
