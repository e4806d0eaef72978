package tokens

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// What is estimated, because no provider says how to count it, or because its bytes are elsewhere.
const (
	// pageWords is the text of a page. Anthropic says that one takes 1,500 to 3,000 tokens.
	pageWords = 2250
	// unknownPages is how long a file is taken for that a provider or a website holds.
	unknownPages = 4
	// bytesPerPage tells the pages of a PDF that hides them.
	bytesPerPage = 50_000
	maxPages     = 5000

	soundPerSecond  = 10 // what goes in
	spokenPerSecond = 20 // what a model said
	unknownSeconds  = 10
	maxSound        = 24 * 60 * 60 * soundPerSecond
)

var (
	pageObject = regexp.MustCompile(`/Type\s*/Page[^A-Za-z]`)
	pageCount  = regexp.MustCompile(`/Count\s+(\d{1,7})`)
)

// pages tells how many pages a PDF has: as many as it names, else as its tree of pages counts, else by its length.
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

// soundTokens counts a sound in base64 by its length: from the header of a WAV or an MP3, else as of 128 kbit a second.
func soundTokens(data string) int {
	total := base64.StdEncoding.DecodedLen(len(data))
	head := make([]byte, min(total, 64<<10))
	n, _ := io.ReadFull(bytesOf64(data), head)
	head = head[:n]
	rate := 128_000 / 8 // bytes a second
	if r := wavRate(head); r > 0 {
		rate = r
	} else if r := mp3Rate(head); r > 0 {
		rate = r
	}
	return min(max(1, over(total*soundPerSecond, rate)), maxSound)
}

// wavRate reads the bytes a second of a WAV; 0: it is none.
func wavRate(b []byte) int {
	if len(b) < 36 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return 0
	}
	if at := bytes.Index(b, []byte("fmt ")); at >= 0 && len(b) >= at+20 {
		return int(binary.LittleEndian.Uint32(b[at+16:]))
	}
	return 0
}

// Bits a second of MP3 frames in thousands, by index: of MPEG 1 and of MPEG 2, both layer 3.
var (
	mpeg1 = [16]int{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0}
	mpeg2 = [16]int{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0}
)

// mp3Rate reads the bytes a second of the first frame of an MP3; 0: there is none.
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

// pageTokens counts so many pages, each as its text and a picture.
func pageTokens(n int, picture [rules]int) (tokens [rules]int) {
	for r := range tokens {
		tokens[r] = n * (pageWords + picture[r])
	}
	return tokens
}

// plainText is the text of a file in base64; false where it is no text.
func plainText(data string) (string, bool) {
	b, err := io.ReadAll(bytesOf64(data))
	return string(b), err == nil && utf8.Valid(b)
}

// hidden estimates what stands behind encrypted data in base64: a token for four of its bytes.
func hidden(data string) int { return (len(data)*3 + 15) / 16 }
