package promptcache

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// prompt is blocks of so many tokens each, named by their place, with marks: a negative number is a breakpoint behind
// the block, and every second block is input.
func prompt(tokens ...int) []Block {
	out := make([]Block, len(tokens))
	for i, n := range tokens {
		b := Block{Text: fmt.Sprintf("%d:%d", i, max(n, -n)), Tokens: max(n, -n), Input: i%2 == 0}
		if n < 0 {
			b.Breakpoint = Short
		}
		out[i] = b
	}
	return out
}

// other is the same prompt with another block at a place.
func other(at int, blocks []Block) []Block {
	blocks[at].Text = "other"
	return blocks
}

// long makes the breakpoint at a place a long one.
func long(at int, blocks []Block) []Block {
	blocks[at].Breakpoint = Long
	return blocks
}

// many is a prompt of n blocks of 100 tokens with a breakpoint at the last.
func many(n int) []Block {
	tokens := make([]int, n)
	for i := range tokens {
		tokens[i] = 100
	}
	tokens[n-1] = -100
	return prompt(tokens...)
}

type call struct {
	after                time.Duration // the one before
	blocks               []Block
	read, written, fresh int
	paid                 float64
}

func TestProviders(t *testing.T) {
	opus := Anthropic("Opus 5", 512, .1)
	old := Anthropic("Opus 4.6", 4096, .1)
	for _, c := range []struct {
		name     string
		provider Provider
		calls    []call
	}{
		{"a prefix in steps of 128", OpenAI56Before, []call{
			{0, prompt(1000, 300), 0, 0, 1300, 1300},
			{time.Minute, prompt(1000, 300, 50), 1280, 0, 70, 198}, // 1024 + 2*128
			{time.Minute, other(1, prompt(1000, 300, 50)), 0, 0, 1350, 1350},
		}},
		{"1023 tokens are too few", OpenAI56Before, []call{
			{0, prompt(1023), 0, 0, 1023, 1023}, {0, prompt(1023), 0, 0, 1023, 1023}}},
		{"1024 are enough", OpenAI56Before, []call{
			{0, prompt(1024), 0, 0, 1024, 1024}, {0, prompt(1024), 1024, 0, 0, 102.4}}},
		{"idle for more than 5 minutes", OpenAI56Before, []call{
			{0, prompt(2048), 0, 0, 2048, 2048},
			{5 * time.Minute, prompt(2048), 2048, 0, 0, 204.8},
			{5 * time.Minute, prompt(2048), 2048, 0, 0, 204.8},
			{5*time.Minute + 1, prompt(2048), 0, 0, 2048, 2048},
		}},

		{"the latest input is a breakpoint", OpenAI56, []call{
			{0, prompt(1000, 200, 30), 0, 1230, 0, 1537.5},
			{0, prompt(1000, 200, 30, 40, 50), 1230, 90, 0, 123 + 112.5},
			{0, prompt(1000, 200, 30, 40, 50, 60), 1320, 0, 60, 132 + 60}, // the answer behind it is not written
			{30 * time.Minute, prompt(1000, 200, 30), 1230, 0, 0, 123},
			{30*time.Minute + 1, prompt(1000, 200, 30), 0, 1230, 0, 1537.5},
		}},
		{"an edit behind an explicit breakpoint", OpenAI56, []call{
			{0, prompt(1000, -200, 30), 0, 1230, 0, 1537.5},
			{0, other(2, prompt(1000, -200, 30)), 1200, 30, 0, 120 + 37.5},
		}},
		{"without one all is lost", OpenAI56, []call{
			{0, prompt(1000, 200, 30), 0, 1230, 0, 1537.5},
			{0, other(2, prompt(1000, 200, 30)), 0, 1230, 0, 1537.5},
		}},
		{"the fourth explicit one from the end is not written", OpenAI56, []call{
			{0, prompt(-2000, -100, -100, -100, 100), 0, 2400, 0, 3000},
			{0, other(1, prompt(-2000, -100, -100, -100, 100)), 0, 2400, 0, 3000},
		}},
		{"explicit without breakpoints", OpenAI56Explicit, []call{
			{0, prompt(3000), 0, 0, 3000, 3000}, {0, prompt(3000), 0, 0, 3000, 3000}}},
		{"explicit with four", OpenAI56Explicit, []call{
			{0, prompt(-2000, -100, -100, -100, 100), 0, 2300, 100, 2975},
			{0, other(1, prompt(-2000, -100, -100, -100, 100)), 2000, 300, 100, 200 + 375 + 100}}},
		{"twelve hours", OpenAI56Explicit, []call{
			{0, long(0, prompt(2000)), 0, 2000, 0, 2500}, {12 * time.Hour, long(0, prompt(2000)), 2000, 0, 0, 200},
			{12*time.Hour + 1, long(0, prompt(2000)), 0, 2000, 0, 2500}}},

		{"a moving breakpoint", opus, []call{
			{0, prompt(500, -100), 0, 600, 0, 750},
			{0, prompt(500, 100, 70, -30), 600, 100, 0, 60 + 125},
			{5 * time.Minute, prompt(500, 100, 70, -30, 8), 700, 0, 8, 78},
			{5*time.Minute + 1, prompt(500, -100), 0, 600, 0, 750}, // not refreshed by the longer one
		}},
		{"511 tokens are too few", opus, []call{
			{0, prompt(-511, 5), 0, 0, 516, 516}, {0, prompt(-511, 5), 0, 0, 516, 516}}},
		{"4,096 at Opus 4.6", old, []call{
			{0, prompt(-4095), 0, 0, 4095, 4095}, {0, prompt(-4095, -1), 0, 4096, 0, 5120},
			{0, prompt(-4095, -1), 4096, 0, 0, 409.6}}},
		{"the hour costs twice", opus, []call{
			{0, long(0, prompt(1000, -500)), 0, 1500, 0, 2000 + 625},
			{59 * time.Minute, long(0, prompt(1000, -500)), 1000, 500, 0, 100 + 625}}},
		{"an edit before the breakpoint", opus, []call{
			{0, prompt(-1000, 500, -500), 0, 2000, 0, 2500},
			{0, other(1, prompt(-1000, 500, -500)), 1000, 1000, 0, 100 + 1250}}},
		{"19 blocks further on", opus, []call{{0, many(10), 0, 1000, 0, 1250}, {0, many(29), 1000, 1900, 0,
			100 + 2375}}},
		{"20 blocks further on", opus, []call{{0, many(10), 0, 1000, 0, 1250}, {0, many(30), 0, 3000, 0, 3750}}},

		{"whole units", DeepSeek, []call{
			{0, prompt(600, 300), 0, 0, 900, 900},
			{0, prompt(600, 300, 90), 900, 0, 90, 120},
			{0, other(1, prompt(600, 300)), 0, 0, 900, 900}, // 600 are shared, and are no unit yet
			{0, prompt(600, 900), 600, 0, 900, 920},         // now they are
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache, now := New(c.provider), time.Duration(0)
			for i, k := range c.calls {
				now += k.after
				u := cache.Send(Request{At: now, Blocks: k.blocks})
				if u.Read != k.read || u.Written != k.written || u.Fresh != k.fresh || math.Abs(u.Paid-k.paid) > 1e-6 {
					t.Errorf("call %d: %+v, not read %d written %d fresh %d paid %g", i, u, k.read, k.written,
						k.fresh, k.paid)
				}
			}
		})
	}
}

// TestAnswer sends an answer back as a part of the next prompt: DeepSeek has kept it.
func TestAnswer(t *testing.T) {
	c, blocks := New(DeepSeek), prompt(600, 300, 90)
	c.Send(Request{Blocks: blocks[:1], Answer: blocks[1]})
	if u := c.Send(Request{Blocks: blocks}); u.Read != 900 || u.Fresh != 90 {
		t.Errorf("%+v", u)
	}
}
