package tokens

import (
	"encoding/base64"
	"encoding/binary"
	"image"
	_ "image/gif" // for the sizes in their headers
	_ "image/jpeg"
	_ "image/png"
	"io"
	"math"
	"strings"
)

// Rule is the version of the providers' formulas by which pictures are counted.
type Rule int

// The rules. Providers changed their formulas with new models, and a request for a window names no model.
const (
	Current Rule = iota // OpenAI from gpt-5.2 on, Claude from 4.7 on
	Earlier             // OpenAI from gpt-4o to gpt-5.1, Claude up to 4.6
	rules
)

// size is the size of a picture in pixels.
type size struct{ w, h int }

// unknownSize is assumed for a picture whose bytes are elsewhere or cannot be read.
var unknownSize = size{1024, 1024}

// page is the assumed size of a document's page as the picture that providers make of it.
var page = size{1212, 1568}

// maxSide is the largest plausible side of a picture. No provider accepts more than 8,000 pixels.
const maxSide = 1 << 16

// sizeOf reads a picture's size from the first bytes of its base64 data.
func sizeOf(data string) size {
	var s size
	if c, _, err := image.DecodeConfig(bytesOf64(data)); err == nil {
		s = size{c.Width, c.Height}
	} else {
		s = webpSize(bytesOf64(data))
	}
	if s.w <= 0 || s.h <= 0 || s.w > maxSide || s.h > maxSide {
		return unknownSize
	}
	return s
}

func bytesOf64(data string) io.Reader {
	return base64.NewDecoder(base64.StdEncoding, strings.NewReader(data))
}

// webpSize reads the size of a WebP picture, which Go's library does not support; zero if it is not one.
func webpSize(r io.Reader) size {
	var b [30]byte
	if _, err := io.ReadFull(r, b[:]); err != nil || string(b[:4]) != "RIFF" || string(b[8:12]) != "WEBP" {
		return size{}
	}
	le := binary.LittleEndian
	switch string(b[12:16]) {
	case "VP8 ":
		return size{int(le.Uint16(b[26:]) & 0x3fff), int(le.Uint16(b[28:]) & 0x3fff)}
	case "VP8L":
		bits := le.Uint32(b[21:])
		return size{int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1}
	case "VP8X":
		return size{int(le.Uint32(b[23:])>>8) + 1, int(le.Uint32(b[26:])>>8) + 1}
	}
	return size{}
}

// openAITokens counts a picture in OpenAI's formats at a level of detail, by each rule.
func openAITokens(s size, detail string) [rules]int {
	return [rules]int{Current: patchTokens(s, detail), Earlier: tileTokens(s, detail)}
}

// patchTokens counts patches of 32 pixels, each of which costs 1.2 tokens.
func patchTokens(s size, detail string) int {
	const side, most = 32, 2500
	cols, rows := over(s.w, side), over(s.h, side)
	switch detail {
	case "low":
		s = s.within(512)
		cols, rows = over(s.w, side), over(s.h, side)
	case "high":
		s = s.within(2048)
		if cols, rows = over(s.w, side), over(s.h, side); cols*rows > most {
			// The picture is scaled down to at most that many patches, and then until one side is a whole number of
			// patches.
			cols, rows = root(s.w*most/s.h), root(s.h*most/s.w)
			if cols*s.h <= rows*s.w {
				rows = over(s.h*cols, s.w)
			} else {
				cols = over(s.w*rows, s.h)
			}
		}
	}
	return over(cols*rows*6, 5)
}

// tileTokens counts tiles of 512 pixels.
func tileTokens(s size, detail string) int {
	const base, each, side, short = 85, 170, 512, 768
	if detail == "low" {
		return base
	}
	s = s.within(2048)
	if least := min(s.w, s.h); least > short {
		s = size{s.w * short / least, s.h * short / least}
	}
	return base + each*over(s.w, side)*over(s.h, side)
}

// anthropicTokens counts a picture in Anthropic's format, by each rule.
func anthropicTokens(s size) [rules]int {
	return [rules]int{Current: squareTokens(s, 2576, 4784), Earlier: squareTokens(s, 1568, 1568)}
}

// squareTokens counts squares of 28 pixels. A picture whose longer side exceeds long, or that takes more than most
// squares, is scaled down until it satisfies both.
func squareTokens(s size, long, most int) int {
	const side = 28
	least, longer := min(s.w, s.h), max(s.w, s.h)
	across, down := over(longer, side), over(least, side)
	if longer > long {
		across, down = over(long, side), over(least*long, longer*side)
	}
	if across*down <= most {
		return across * down
	}
	best := 1
	for n := 1; n <= most; n++ { // one side has n whole squares
		if a, b := n*over(least*n, longer), n*over(longer*n, least); a <= most {
			best = max(best, a)
			if b <= most {
				best = max(best, b)
			}
		} else {
			break
		}
	}
	return best
}

// within scales a picture down until neither side exceeds limit.
func (s size) within(limit int) size {
	if longer := max(s.w, s.h); longer > limit {
		return size{max(1, s.w*limit/longer), max(1, s.h*limit/longer)}
	}
	return s
}

// over divides and rounds up.
func over(n, by int) int { return (n + by - 1) / by }

// root returns the integer square root.
func root(n int) int {
	r := int(math.Sqrt(float64(n)))
	for r*r > n {
		r--
	}
	for (r+1)*(r+1) <= n {
		r++
	}
	return max(1, r)
}
