package tokens

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"io"
	"regexp"
	"strconv"
)

// Estimates, for what no provider documents or whose bytes are elsewhere.
const (
	// pageWords is the number of text tokens of a page. Anthropic says that a page takes 1,500 to 3,000 tokens.
	pageWords = 2250
	// unknownPages is the assumed length of a file that a provider or a website holds.
	unknownPages = 4
	// bytesPerPage estimates the number of pages of a PDF that hides them.
	bytesPerPage = 50_000
	maxPages     = 5000

	soundPerSecond  = 10 // input
	spokenPerSecond = 20 // output of a model
	unknownSeconds  = 10
	maxSound        = 24 * 60 * 60 * soundPerSecond
)

var (
	pageObject = regexp.MustCompile(`/Type\s*/Page[^A-Za-z]`)
	pageCount  = regexp.MustCompile(`/Count\s+(\d{1,7})`)
)

// pages returns the number of pages of a PDF: as many page objects as it shows, or else the count in its page tree, or
// else an estimate from its length.
func pages(data string) int {
	pdf, _ := io.ReadAll(bytesOf64(data))
	n := len(pageObject.FindAllIndex(pdf, maxPages))
	if n == 0 {
		for _, found := range pageCount.FindAllSubmatch(pdf, maxPages) {
			count, _ := strconv.Atoi(string(found[1]))
			n = max(n, count)
		}
	}
	if n == 0 {
		n = over(len(pdf), bytesPerPage)
	}
	return min(max(1, n), maxPages)
}

// soundTokens counts a sound in base64 by its duration, from the header of a WAV or an MP3, or else assuming 128
// kbit/s.
func soundTokens(data string) int {
	total := base64.StdEncoding.DecodedLen(len(data))
	head := make([]byte, min(total, 64<<10))
	n, _ := io.ReadFull(bytesOf64(data), head)
	head = head[:n]
	rate := 128_000 / 8 // bytes per second
	if r := wavRate(head); r > 0 {
		rate = r
	} else if r := mp3Rate(head); r > 0 {
		rate = r
	}
	return min(max(1, over(total*soundPerSecond, rate)), maxSound)
}

// wavRate returns the bytes per second of a WAV; 0 if it is not one.
func wavRate(b []byte) int {
	if len(b) < 36 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return 0
	}
	if at := bytes.Index(b, []byte("fmt ")); at >= 0 && len(b) >= at+20 {
		return int(binary.LittleEndian.Uint32(b[at+16:]))
	}
	return 0
}

// Bit rates of MP3 frames in kbit/s, by index: MPEG 1 and MPEG 2, both layer 3.
var (
	mpeg1 = [16]int{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0}
	mpeg2 = [16]int{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0}
)

// mp3Rate returns the bytes per second of the first frame of an MP3; 0 if there is none.
func mp3Rate(b []byte) int {
	for at := 0; at+2 < len(b); at++ {
		if b[at] != 0xff || b[at+1]&0xe6 != 0xe2 { // a frame of layer 3
			continue
		}
		table := &mpeg2
		if b[at+1]&0x18 == 0x18 {
			table = &mpeg1
		}
		if rate := table[b[at+2]>>4]; rate > 0 {
			return rate * 1000 / 8
		}
	}
	return 0
}

// pageTokens counts n pages, each as a text and a picture.
func pageTokens(n int, picture [rules]int) (tokens [rules]int) {
	for r := range tokens {
		tokens[r] = n * (pageWords + picture[r])
	}
	return tokens
}

// hidden estimates the tokens of encrypted data in base64: one for every four bytes.
func hidden(data string) int { return (len(data)*3 + 15) / 16 }
