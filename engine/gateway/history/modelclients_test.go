package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// This file draws random conversations of clients that send their history, as TestCampaignHistories needs them.

// said is a message of a client.
type said struct {
	role  byte // u user, a reply, c call, t result
	text  string
	calls []string // the ids of its calls
	call  string   // the call that it answers
}

func (m said) raw() string {
	switch m.role {
	case 'u':
		return user(m.text)
	case 'a':
		return assistant(m.text)
	case 't':
		return result(m.call, m.text)
	}
	calls := make([]string, len(m.calls))
	for i, id := range m.calls {
		calls[i] = fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"look","arguments":"{}"}}`, id)
	}
	return fmt.Sprintf(`{"role":"assistant","content":%q,"tool_calls":[%s]}`, m.text, strings.Join(calls, ","))
}

// entry is a message in a client's own history.
type entry struct {
	said
	id int
}

var modelWords = strings.Fields("river stone maple cloud engine paper silver window garden bridge copper winter signal " +
	"orange market castle thread island planet letter")

var modelHabits = []string{"full", "trim", "half", "headtail", "cline", "summary", "aider", "dated", "rag", "ragmsg", "note",
	"clears", "images", "reorder", "loops"}

var modelEvents = []string{"edit", "redact", "delpair", "delmsg", "regen", "editlast", "goback", "restore", "retry",
	"parallel", "editfirst1", "stale"}

// picture stands for a picture in a text.
const picture = " <image>"

// conversation is a client with its own history, and what became of its texts.
type conversation struct {
	r               *rand.Rand
	name, habit     string
	kind            string
	tools           bool
	h               []entry
	given           int // ids
	deleted         []entry
	deletedAt       int
	hasDeleted      bool
	cut, k          int
	front, frontlen int
	sum             int
	unique          bool
	last            []string // the texts of its last request and its reply
	sent            map[string]bool
	check           bool // something in the last request was edited or deleted since
}

func newConversation(r *rand.Rand, name, habit, kind string, tools bool) *conversation {
	return &conversation{r: r, name: name, habit: habit, kind: kind, tools: tools, k: 4 + r.IntN(5), frontlen: 2,
		unique: r.Float64() < .8, sent: map[string]bool{}}
}

func (c *conversation) randomText(n int, tag string) string {
	list := []string{tag}
	for range n {
		list = append(list, modelWords[c.r.IntN(len(modelWords))]+strconv.Itoa(c.r.IntN(1000)))
	}
	return strings.Join(list, " ")
}

func (c *conversation) id() int { c.given++; return c.given }

func (c *conversation) say(role byte) entry {
	id := c.id()
	m := entry{id: id, said: said{role: role, text: c.randomText(4+c.r.IntN(10), fmt.Sprint(c.name, id))}}
	if !c.unique && c.r.Float64() < .3 {
		m.text = pick(c.r, "ok", "thanks", "continue", "yes")
	}
	return m
}

// turns returns the indices at which turns begin, and the end.
func (c *conversation) turns() (out []int) {
	for i, m := range c.h {
		if m.role == 'u' && (i == 0 || c.h[i-1].role == 'a') {
			out = append(out, i)
		}
	}
	return append(out, len(c.h))
}

func (c *conversation) has(text string) bool {
	return slices.ContainsFunc(c.h, func(m entry) bool { return m.text == text })
}

// lastOf returns the index of the last message of a role before an index, or 0.
func lastOf(h []said, role byte, before int) (at int) {
	for i := range before {
		if h[i].role == role {
			at = i
		}
	}
	return at
}

// question returns the index of the first user's message at or after i.
func question(h []said, i int) int {
	for i < len(h) && h[i].role != 'u' {
		i++
	}
	return i
}

// view returns what the client sends of its history.
func (c *conversation) view() []said {
	h := make([]said, len(c.h))
	for i := range h {
		h[i] = c.h[i].said
	}
	lastReply := lastOf(h, 'a', len(h))
	last := min(lastOf(h, 'u', len(h)), lastOf(h, 'u', lastReply))
	switch c.habit {
	case "trim":
		if i := question(h, min(max(0, len(h)-c.k), max(0, lastReply-1))); i < len(h) {
			c.cut = i
		}
		if c.cut < len(h) {
			return h[c.cut:]
		}
		return h
	case "half":
		if len(h)-c.cut > c.k*2 {
			c.cut = min(question(h, c.cut+(len(h)-c.cut)/2), last)
		}
		return h[c.cut:]
	case "headtail":
		return c.headTail(h)
	case "cline":
		return c.cline(h, last)
	case "summary":
		if len(h)-c.cut > c.k*2 {
			c.cut = min(question(h, len(h)-c.k), last)
			c.sum++
		}
		if c.sum == 0 {
			return h[c.cut:]
		}
		own := said{role: 'u', text: fmt.Sprintf("%sS summary %d of the conversation so far and what was decided", c.name, c.sum)}
		return slices.Concat([]said{own}, h[c.cut:])
	}
	return c.decorated(h)
}

func (c *conversation) headTail(h []said) []said {
	if len(h) <= c.k+2 {
		return h
	}
	c.cut = max(c.cut, len(h)-c.k)
	i := max(1, min(c.cut, lastOf(h, 'u', len(h)), lastOf(h, 'a', len(h))))
	for i < len(h) && h[i].role == 't' {
		i++
	}
	out := slices.Clone(h[:1])
	if i > 1 && c.k%2 == 1 {
		out = append(out, said{role: 'u', text: fmt.Sprintf("Skipped %d messages.", i-1)})
	}
	return append(out, h[i:]...)
}

func (c *conversation) cline(h []said, last int) []said {
	if len(h) <= c.k+2 {
		return h
	}
	const keep = 2
	if len(h)-max(c.cut, keep) > c.k*2 {
		c.cut = max(c.cut, keep) + (len(h)-max(c.cut, keep))/2
	}
	i := max(1, min(max(c.cut, keep), lastOf(h, 'u', len(h)), lastOf(h, 'a', len(h))))
	i = min(question(h, i), max(last, keep))
	c.cut = i
	head := slices.Clone(h[:2])
	if i > keep {
		head[1] = said{role: h[1].role, text: "NOTE some previous conversation was removed to fit"}
	}
	return append(head, h[i:]...)
}

// decorated adds or changes messages, for clients that leave none out.
func (c *conversation) decorated(h []said) []said {
	end := len(h) - 1
	switch c.habit {
	case "aider":
		if c.r.Float64() < .4 {
			c.front++
		}
		if c.r.Float64() < .15 {
			c.frontlen += 2
		}
		var out []said
		for k := range c.frontlen / 2 {
			out = append(out, said{role: 'u', text: fmt.Sprintf("%sF file %d VERSION %d with its lines and more lines", c.name, k, c.front)},
				said{role: 'a', text: "Ok."})
		}
		return append(out, h...)
	case "dated":
		if c.r.Float64() < .4 {
			c.front++
		}
		return slices.Concat([]said{{role: 'u',
			text: fmt.Sprintf("%sD today is day %d of the year and the workspace is clean", c.name, c.front)}}, h)
	case "rag", "ragmsg":
		if end < 0 || h[end].role != 'u' {
			return h
		}
		context := fmt.Sprintf("%sR context document %d says much of this", c.name, c.given)
		if c.habit == "rag" {
			return append(slices.Clone(h[:end]), said{role: 'u', text: context + " " + h[end].text})
		}
		return append(slices.Clone(h[:end]), said{role: 'u', text: context}, h[end])
	case "note":
		i := max(0, len(h)-3)
		for i < len(h) && h[i].role == 't' {
			i++
		}
		return slices.Insert(slices.Clone(h), i, said{role: 'u', text: c.name + "N the author wants a calm voice here"})
	case "clears":
		return cleared(h)
	case "images":
		questions := 0
		for i := end; i >= 0; i-- {
			if h[i].role == 'u' {
				if questions++; questions > 2 {
					h[i].text = strings.ReplaceAll(h[i].text, picture, "")
				}
			}
		}
	case "reorder":
		if c.r.Float64() < .5 {
			for i := 0; i+1 < len(h); i++ {
				if h[i].role == 't' && h[i+1].role == 't' {
					h[i], h[i+1] = h[i+1], h[i]
					i++
				}
			}
		}
	}
	return h
}

// cleared returns a history with all but the last two results of earlier turns cleared.
func cleared(h []said) []said {
	var results []int
	for i := range lastOf(h, 'u', len(h)) {
		if h[i].role == 't' {
			results = append(results, i)
		}
	}
	for _, i := range results[:max(0, len(results)-2)] {
		if len(h[i].text) > 30 {
			h[i].text = "[cleared]"
		}
	}
	return h
}
