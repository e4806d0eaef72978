package redactsecrets

// secret is a part of a text that must not be kept.
type secret struct {
	from, to int // in bytes
	kind     string
}

// The kinds of secrets.
const (
	privateKey = "private key"
	token      = "token"
	password   = "password"
	card       = "card number"
)

// next returns the first secret of a text from an offset on, and false if there is none.
func next(s string, from int) (secret, bool) {
	for i := from; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '-' && begins(s[i:], "-----BEGIN "):
			if to := keyBlock(s, i); to > 0 {
				return secret{i, to, privateKey}, true
			}
		case c == ':' && begins(s[i:], "://"):
			if at, to := urlPassword(s, i+3); to > 0 {
				return secret{at, to, password}, true
			}
		}
		if !isWord(c) || i > 0 && isWord(s[i-1]) && !(i > 1 && s[i-2] == '\\') {
			continue
		}
		if to := shaped(s, i); to > 0 {
			return secret{i, to, token}, true
		}
		if at, to := afterBearer(s, i); to > 0 {
			return secret{at, to, token}, true
		}
		if to := cardNumber(s, i); to > 0 {
			return secret{i, to, card}, true
		}
	}
	return secret{}, false
}

func begins(s, with string) bool { return len(s) >= len(with) && s[:len(with)] == with }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlnum(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isWord(c byte) bool { return isAlnum(c) || c == '_' }

// isKey reports whether a token may have a character.
func isKey(c byte) bool { return isWord(c) || c == '-' }

// run returns the end of the characters of a kind from an offset on.
func run(s string, at int, is func(byte) bool) int {
	for at < len(s) && is(s[at]) {
		at++
	}
	return at
}

// keyBlock returns the end of a PEM block or PGP block with a private key, or 0. A block without an end goes on to the
// end of the text.
func keyBlock(s string, at int) int {
	const longest = 64 // of a label
	label := at + len("-----BEGIN ")
	end := label
	for end < len(s) && end < label+longest && !begins(s[end:], "-----") {
		end++
	}
	if !contains(s[label:end], "PRIVATE KEY") {
		return 0
	}
	for i := end + 5; i < len(s); i++ {
		if s[i] != '-' || !begins(s[i:], "-----END ") {
			continue
		}
		for i += 9; i < len(s); i++ {
			if begins(s[i:], "-----") {
				return i + 5
			}
		}
	}
	return len(s)
}

func contains(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		if s[i:i+len(part)] == part {
			return true
		}
	}
	return false
}

// urlPassword returns where the password of user:password@ is behind the :// of a URL, or zeroes.
func urlPassword(s string, at int) (from, to int) {
	for i := at; i < len(s); i++ {
		switch c := s[i]; {
		case c == ':' && from == 0:
			from = i + 1
		case c == '@':
			if from == 0 || i == from {
				return 0, 0
			}
			return from, i
		case c <= ' ', c == '/', c == '?', c == '#', c == '"', c == '\'', c == '<', c == '>', c == '\\':
			return 0, 0
		}
	}
	return 0, 0
}

// shape is how the tokens of an issuer look: how they begin, and how many characters follow at least.
type shape struct {
	prefix string
	least  int
}

// shapes are published by the issuers, so that scanners find them.
var shapes = [...]shape{
	{"AKIA", 16}, {"ASIA", 16}, // AWS
	{"ghp_", 36}, {"gho_", 36}, {"ghu_", 36}, {"ghs_", 36}, {"ghr_", 36}, {"github_pat_", 22}, {"glpat-", 20},
	{"xoxb-", 10}, {"xoxp-", 10}, {"xoxa-", 10}, {"xoxr-", 10}, {"xoxs-", 10}, {"xapp-", 10}, // Slack
	{"sk-", 20}, {"sk_live_", 16}, {"rk_live_", 16}, {"sk_test_", 16}, {"rk_test_", 16}, {"whsec_", 24},
	{"AIza", 35}, {"ya29.", 20}, {"GOCSPX-", 20}, // Google
	{"npm_", 36}, {"pypi-", 50}, {"hf_", 30}, {"dop_v1_", 60}, {"shpat_", 32}, {"glsa_", 32}, {"SG.", 40},
	{"lin_api_", 32}, {"dckr_pat_", 20}, {"hvs.", 24}, {"PMAK-", 50}, {"sq0csp-", 40}, {"nvapi-", 40}, {"gsk_", 40},
	{"xai-", 40}, {"pplx-", 40}, {"r8_", 36}, {"tskey-", 20}, {"AGE-SECRET-KEY-1", 50}, {"eyJ", 0},
}

// shapesFrom lists the shapes by their first byte, so that most words are compared with none.
var shapesFrom = func() (by [256][]shape) {
	for _, p := range shapes {
		by[p.prefix[0]] = append(by[p.prefix[0]], p)
	}
	return by
}()

// shaped returns the end of a token of a known shape that begins at an offset, or 0.
func shaped(s string, at int) int {
	from := shapesFrom[s[at]]
	for n := range from {
		p := &from[n]
		if !begins(s[at:], p.prefix) {
			continue
		}
		if p.prefix == "eyJ" {
			return webToken(s, at)
		}
		end := run(s, at+len(p.prefix), isKey)
		if p.prefix == "SG." || p.prefix == "ya29." || p.prefix == "hvs." {
			end = run(s, at+len(p.prefix), func(c byte) bool { return isKey(c) || c == '.' })
		}
		if end-at-len(p.prefix) >= p.least && hasDigit(s[at+len(p.prefix):end]) {
			return end
		}
	}
	return 0
}

func hasDigit(s string) bool {
	for i := range len(s) {
		if isDigit(s[i]) {
			return true
		}
	}
	return false
}

// webToken returns the end of a JSON Web Token: two parts that begin like an object in base64, and a signature.
func webToken(s string, at int) int {
	const least = 10
	first := run(s, at, isKey)
	if first-at < least || !begins(s[first:], ".eyJ") {
		return 0
	}
	second := run(s, first+1, isKey)
	if second-first < least || second >= len(s) || s[second] != '.' {
		return 0
	}
	return run(s, second+1, isKey)
}

// afterBearer returns where the credentials are behind the words "Bearer" or "Basic" of an Authorization header, or
// zeroes.
func afterBearer(s string, at int) (from, to int) {
	const least = 16
	for _, scheme := range [...]string{"Bearer ", "bearer ", "Basic "} {
		if !begins(s[at:], scheme) {
			continue
		}
		from = at + len(scheme)
		to = run(s, from, func(c byte) bool {
			return isKey(c) || c == '.' || c == '~' || c == '+' || c == '/' || c == '='
		})
		if to-from >= least && hasDigit(s[from:to]) {
			return from, to
		}
	}
	return 0, 0
}

// cardNumber returns the end of the number of a payment card: 13 to 19 digits in groups, whose first digits some network
// has and whose check digit is right, or 0.
func cardNumber(s string, at int) int {
	var digits [19]byte
	n, end := 0, at
	for i := at; i < len(s); i++ {
		switch c := s[i]; {
		case isDigit(c):
			if n == len(digits) {
				return 0
			}
			digits[n] = c - '0'
			n++
			end = i + 1
			continue
		case (c == ' ' || c == '-') && i+1 < len(s) && isDigit(s[i+1]) && n >= 4 && i == end:
			continue
		}
		break
	}
	if n < 13 || end < len(s) && (isWord(s[end]) || s[end] == '.' && end+1 < len(s) && isDigit(s[end+1])) ||
		!network(digits[:n]) || !luhn(digits[:n]) {
		return 0
	}
	return end
}

// network reports whether a payment network issues numbers that begin so and have so many digits.
func network(digits []byte) bool {
	two := int(digits[0])*10 + int(digits[1])
	four := two*100 + int(digits[2])*10 + int(digits[3])
	n := len(digits)
	switch {
	case digits[0] == 4:
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720, four == 6011, two == 65, four >= 6440 && four <= 6499,
		four >= 3528 && four <= 3589:
		return n == 16
	case two == 34, two == 37:
		return n == 15
	case two == 36, two == 38, four >= 3000 && four <= 3059:
		return n == 14
	}
	return false
}

// luhn reports whether the check digit is right (ISO/IEC 7812-1, annex B).
func luhn(digits []byte) bool {
	sum := 0
	for i := range digits {
		d := int(digits[len(digits)-1-i])
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
