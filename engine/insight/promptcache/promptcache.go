// Package promptcache models the prompt caches of model providers: what a sequence of requests writes, reads and pays. The
// rules are the providers' own, as their pages described them in November 2026; each provider's source is named with
// it.
//
// A prompt is a list of blocks. Two prompts share a prefix as far as their blocks are equal. Providers compare tokens
// instead, so their hits are longer, by less than a block.
package promptcache

import (
	"crypto/sha256"
	"time"
)

// TTL is how long a breakpoint asks to be kept.
type TTL int

// None is no breakpoint. Short lives 5 minutes at Anthropic and 30 at OpenAI, Long one hour and twelve.
const (
	None TTL = iota
	Short
	Long
)

// Block is a piece of a prompt.
type Block struct {
	Text       string // identifies the block: its text, or a hash
	Tokens     int
	Breakpoint TTL  // set by the client
	Input      bool // the end of a user's or a tool's message, where OpenAI sets breakpoints by itself
}

// Request is one call of a model.
type Request struct {
	At     time.Duration // since the first
	Blocks []Block
	Answer Block // what the model said; only DeepSeek keeps it
}

// Usage is what one request was billed for. Tokens are Read, Written or Fresh.
type Usage struct {
	Tokens, Read, Written, Fresh int
	Paid                         float64 // in tokens at the price of uncached input
}

// Add sums usages.
func (u *Usage) Add(v Usage) {
	u.Tokens += v.Tokens
	u.Read += v.Read
	u.Written += v.Written
	u.Fresh += v.Fresh
	u.Paid += v.Paid
}

// Provider is one set of rules.
type Provider struct {
	Name      string
	Minimum   int           // tokens of the shortest prefix that is kept
	Read      float64       // price of a token read, where fresh input costs 1
	Write     float64       // price of a token written with a short life
	WriteLong float64       // and with a long one
	Life      time.Duration // from the last use
	LifeLong  time.Duration
	step      int // hits are cut to a multiple of it, from Minimum on
	send      func(*Cache, Request, []point) Usage
}

// OpenAI56Before are the models before gpt-5.6 (OCACHE). Caching is automatic, from 1,024 tokens on, in steps of 128.
// Writing is free. Entries expire after 5 to 10 minutes without use; 5 is assumed. The price of reading is that of
// gpt-5 to 5.5.
var OpenAI56Before = Provider{Name: "OpenAI before 5.6", Minimum: 1024, Read: .1, Write: 1, Life: 5 * time.Minute,
	step: 128,
	send: longest}

// OpenAI56 are gpt-5.6 and later in their default mode (oa response_create_params, OCACHE). Entries are only at
// breakpoints: the latest user's or tool's message, and the latest 3 explicit ones.
var OpenAI56 = Provider{Name: "OpenAI from 5.6", Minimum: 1024, Read: .1, Write: 1.25, WriteLong: 1.25,
	Life:     30 * time.Minute,
	LifeLong: 12 * time.Hour, send: implicit}

// OpenAI56Explicit are the same models with mode "explicit": the latest 4 breakpoints that the client sets.
var OpenAI56Explicit = Provider{Name: "OpenAI from 5.6, explicit", Minimum: 1024, Read: .1, Write: 1.25,
	WriteLong: 1.25,
	Life:      30 * time.Minute, LifeLong: 12 * time.Hour, send: explicit}

// Anthropic returns a model with its minimum and its price of reading (D/prompt-caching, D/pricing). Entries are only
// at breakpoints. For reading, each breakpoint looks back over 20 blocks, including itself.
func Anthropic(name string, minimum int, read float64) Provider {
	return Provider{Name: name, Minimum: minimum, Read: read, Write: 1.25, WriteLong: 2, Life: 5 * time.Minute,
		LifeLong: time.Hour, send: lookback}
}

// DeepSeek is V4 (api-docs.deepseek.com/guides/kv_cache): units end at the end of the input, at the end of the answer,
// and where two prompts were found to part; a hit needs a whole unit; writing is free; units live for hours. Units at
// fixed intervals are left out, because their length is not documented: real hits are longer.
var DeepSeek = Provider{Name: "DeepSeek V4", Read: 1. / 30, Write: 1, Life: 3 * time.Hour, send: units}

// Cache is what one provider keeps for one client.
type Cache struct {
	provider Provider
	entries  map[[32]byte]entry
	seen     map[[32]byte]bool // every prefix ever sent; only DeepSeek notices where prompts differ
}

type entry struct {
	until time.Duration
	life  time.Duration
}

// New returns an empty cache.
func New(p Provider) *Cache {
	return &Cache{p, map[[32]byte]entry{}, map[[32]byte]bool{}}
}

// point is the end of a block: the prefix up to there.
type point struct {
	hash   [32]byte
	tokens int
	Block
}

// Send returns what a request costs, and keeps what the provider would keep of it.
func (c *Cache) Send(r Request) Usage {
	points := make([]point, len(r.Blocks))
	var p point
	for i, b := range r.Blocks {
		p = point{chain(p.hash, b.Text), p.tokens + b.Tokens, b}
		points[i] = p
	}
	u := c.provider.send(c, r, points)
	u.Tokens = p.tokens
	u.Fresh = u.Tokens - u.Read - u.Written
	u.Paid += float64(u.Fresh) + float64(u.Read)*c.provider.Read
	return u
}

func chain(before [32]byte, text string) [32]byte {
	return sha256.Sum256(append(before[:], text...))
}

// hit reports whether a prefix is kept, and extends its life if it is.
func (c *Cache) hit(p point, now time.Duration) bool {
	e, ok := c.entries[p.hash]
	if !ok || now > e.until || p.tokens < c.provider.Minimum {
		return false
	}
	e.until = now + e.life
	c.entries[p.hash] = e
	return true
}

// keep stores a prefix, and reports whether it is long enough to be kept.
func (c *Cache) keep(p point, now time.Duration, ttl TTL) bool {
	if p.tokens < c.provider.Minimum {
		return false
	}
	life := c.provider.Life
	if ttl == Long {
		life = c.provider.LifeLong
	}
	if e, ok := c.entries[p.hash]; ok && e.until > now+life {
		return true
	}
	c.entries[p.hash] = entry{now + life, life}
	return true
}

// longest reads the longest prefix that was sent before, cut to a multiple of step, and keeps the whole prompt.
func longest(c *Cache, r Request, points []point) (u Usage) {
	for i := len(points) - 1; i >= 0; i-- {
		if c.hit(points[i], r.At) {
			over := points[i].tokens - c.provider.Minimum
			u.Read = c.provider.Minimum + over - over%c.provider.step
			break
		}
	}
	for _, p := range points {
		c.keep(p, r.At, Short)
	}
	return u
}

// breakpoints keeps the prefixes that end at some points, and bills the tokens between the hit and the last point.
func (c *Cache) breakpoints(now time.Duration, read int, at []point, ttl func(point) TTL) (u Usage) {
	u.Read = read
	for _, p := range at {
		if !c.keep(p, now, ttl(p)) || p.tokens <= u.Read+u.Written {
			continue
		}
		n := p.tokens - u.Read - u.Written
		u.Written += n
		price := c.provider.Write
		if ttl(p) == Long {
			price = c.provider.WriteLong
		}
		u.Paid += float64(n) * price
	}
	return u
}

// implicit writes at the latest user's or tool's message and at the latest 3 explicit breakpoints. It reads at the
// latest 80 places where a breakpoint is or would have been: the ends of user's and tools' messages, and explicit
// ones.
func implicit(c *Cache, r Request, points []point) Usage {
	var at []point
	explicits, latest := 0, true
	for i := len(points) - 1; i >= 0; i-- {
		switch p := points[i]; {
		case p.Input && latest:
			latest = false
			at = append([]point{p}, at...)
		case p.Breakpoint != None && explicits < 3:
			explicits++
			at = append([]point{p}, at...)
		}
	}
	return c.breakpoints(r.At, c.newest(r, points, func(p point) bool { return p.Input || p.Breakpoint != None }),
		at, asked)
}

// explicit writes and reads only at the client's breakpoints.
func explicit(c *Cache, r Request, points []point) Usage {
	var at []point
	for i := len(points) - 1; i >= 0 && len(at) < 4; i-- {
		if points[i].Breakpoint != None {
			at = append([]point{points[i]}, at...)
		}
	}
	return c.breakpoints(r.At, c.newest(r, points, func(p point) bool { return p.Breakpoint != None }), at, asked)
}

// newest returns how many tokens can be read at the latest 80 of some points.
func (c *Cache) newest(r Request, points []point, is func(point) bool) int {
	for i, left := len(points)-1, 80; i >= 0 && left > 0; i-- {
		if !is(points[i]) {
			continue
		}
		left--
		if c.hit(points[i], r.At) {
			return points[i].tokens
		}
	}
	return 0
}

func asked(p point) TTL { return max(p.Breakpoint, Short) }

// lookback reads from each breakpoint, the last first, over the 20 blocks that end there.
func lookback(c *Cache, r Request, points []point) Usage {
	var at []point
	read := 0
	for i := len(points) - 1; i >= 0; i-- {
		if points[i].Breakpoint == None {
			continue
		}
		at = append([]point{points[i]}, at...)
		for j := i; j >= 0 && j > i-20 && read == 0; j-- {
			if c.hit(points[j], r.At) {
				read = points[j].tokens
			}
		}
	}
	return c.breakpoints(r.At, read, at, asked)
}

// units reads the longest prefix that is a unit. It makes units at the end of the prompt, at the end of the answer, and
// where the prompt begins to differ from an earlier one.
func units(c *Cache, r Request, points []point) (u Usage) {
	parted := -1
	for i := len(points) - 1; i >= 0; i-- {
		if parted < 0 && c.seen[points[i].hash] {
			parted = i
		}
		if c.hit(points[i], r.At) {
			u.Read = points[i].tokens
			break
		}
	}
	if parted >= 0 {
		c.keep(points[parted], r.At, Short)
	}
	for _, p := range points {
		c.seen[p.hash] = true
	}
	if len(points) > 0 {
		last := points[len(points)-1]
		c.keep(last, r.At, Short)
		if r.Answer.Tokens > 0 {
			end := point{chain(last.hash, r.Answer.Text), last.tokens + r.Answer.Tokens, r.Answer}
			c.keep(end, r.At, Short)
			c.seen[end.hash] = true
		}
	}
	return u
}
