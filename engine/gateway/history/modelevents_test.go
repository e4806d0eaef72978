package history_test

import (
	"fmt"
	"slices"
	"strings"
)

// run plays a conversation.
func (w *world) run() {
	w.Helper()
	steps := 4 + w.r.IntN(8)
	when := map[string]int{}
	for _, e := range w.events {
		when[e] = 1 + w.r.IntN(steps-1)
	}
	for step := range steps {
		c := w.convs[0]
		if len(w.convs) > 1 && w.r.Float64() >= .6 {
			c = w.convs[1]
		}
		for _, e := range w.events {
			if a := w.convs[0]; when[e] == step && len(a.h) > 0 {
				w.event(a, e)
				c = a
			}
		}
		w.ask(c)
		w.check()
	}
	w.end()
}

// title sends a call for a title.
func (w *world) title(c *conversation) open {
	w.Helper()
	first := "x"
	if i := slices.IndexFunc(c.h, func(m entry) bool { return m.role == 'u' }); i >= 0 {
		first = c.h[i].text
	}
	return w.begin(nil, []said{{role: 'u', text: "T Generate a title for: " + first}}, &entry{said: said{text: "T Trip"}}, "title", false)
}

// ask asks a question, with calls of tools at times, and appends the reply.
func (w *world) ask(c *conversation) {
	w.Helper()
	q := c.say('u')
	if c.habit == "images" && strings.HasPrefix(q.text, c.name) {
		q.text += picture
	}
	c.h = append(c.h, q)
	if len(c.h) == 1 && w.titles == "first" {
		w.commit(w.title(c))
	}
	if len(c.h) == 1 && w.titles == "parallel" {
		title, reply := w.title(c), c.say('a')
		both := []open{title, w.call(c, c.view(), &reply)}
		if w.r.IntN(2) == 0 {
			slices.Reverse(both)
		}
		w.commit(both[0])
		w.commit(both[1])
		c.h = append(c.h, reply)
		return
	}
	calls := c.habit == "reorder" || c.habit == "clears" || c.habit == "loops"
	if w.tools && w.r.Float64() < .4 || calls && w.r.Float64() < .7 {
		for range 1 + w.r.IntN(2) {
			id := c.id()
			m := entry{id: id, said: said{role: 'c', text: fmt.Sprintf("%s%d calls", c.name, id)}}
			for k := range 1 + w.r.IntN(2) {
				m.calls = append(m.calls, fmt.Sprintf("%sc%d.%d", c.name, id, k))
			}
			c.h = append(c.h, m)
			for _, call := range m.calls {
				id := c.id()
				c.h = append(c.h, entry{id: id, said: said{role: 't', call: call, text: c.randomText(20, fmt.Sprintf("%s%d result", c.name, id))}})
			}
		}
	}
	w.reply(c)
	if w.titles == "between" && w.r.Float64() < .3 {
		w.commit(w.title(c))
	}
}

// reply sends the history and appends the reply.
func (w *world) reply(c *conversation) {
	w.Helper()
	reply := c.say('a')
	w.commit(w.call(c, c.view(), &reply))
	c.h = append(c.h, reply)
}

func texts(list []entry) (out []string) {
	for _, m := range list {
		out = append(out, m.text)
	}
	return out
}

// supersede cuts the client's history at an index.
func (w *world) supersede(c *conversation, at int) {
	gone := c.h[at:]
	c.h = slices.Clone(c.h[:at])
	for _, m := range gone {
		if !c.has(m.text) {
			w.old[m.text] = true
		}
	}
	c.cut = min(c.cut, len(c.h))
}

// event is something that the user of a client does.
func (w *world) event(c *conversation, name string) {
	w.Helper()
	turns, end := c.turns(), len(c.h)-1
	switch name {
	case "edit", "redact":
		w.edit(c, name == "redact", turns)
	case "delpair":
		w.deletePairs(c, turns)
	case "delmsg":
		w.deleteReply(c)
	case "regen":
		if c.h[end].role == 'a' {
			w.supersede(c, end)
			w.reply(c)
		}
	case "editlast":
		if len(turns) > 1 {
			w.supersede(c, turns[len(turns)-2])
			w.ask(c)
		}
	case "goback":
		if len(turns) > 3 {
			w.supersede(c, turns[1+w.r.IntN(len(turns)-2)])
			w.ask(c)
		}
	case "restore":
		if c.hasDeleted {
			at := min(c.deletedAt, len(c.h))
			c.h, c.hasDeleted = slices.Insert(slices.Clone(c.h), at, c.deleted...), false
			for _, m := range c.h {
				delete(w.gone, m.text)
			}
		}
	case "retry":
		w.retry(c)
	case "parallel":
		w.parallel(c)
	case "stale":
		w.stale(c)
	case "editfirst1":
		if len(turns) == 2 {
			was := c.h[0].text
			c.h = []entry{{id: c.h[0].id, said: said{role: 'u', text: was + " please"}}}
			w.forbid(c, false, was)
			w.reply(c)
		}
	}
}

func (w *world) edit(c *conversation, redact bool, turns []int) {
	i := w.r.IntN(len(c.h))
	m := c.h[i]
	if m.role == 'c' || m.role == 't' {
		return
	}
	was := m.text
	if redact {
		words := strings.Fields(was)
		if at := len(words) - 2; at >= 0 {
			words = slices.Delete(words, at, at+1)
		}
		m.text = strings.Join(words, " ")
	} else {
		m.text = c.randomText(6, fmt.Sprintf("%s%d edited new", c.name, m.id))
	}
	if m.text == was {
		return
	}
	c.h = slices.Clone(c.h)
	c.h[i] = m
	w.forbid(c, len(turns) <= 2 && i > 0, was)
}

func (w *world) deletePairs(c *conversation, turns []int) {
	if len(turns) <= 2 {
		return
	}
	k := 0
	if w.r.Float64() < .6 {
		k = w.r.IntN(len(turns) - 1)
	}
	z := min(k+[]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3}[w.r.IntN(20)], len(turns)-1)
	c.deleted, c.deletedAt, c.hasDeleted = slices.Clone(c.h[turns[k]:turns[z]]), turns[k], true
	c.h = slices.Concat(c.h[:turns[k]], c.h[turns[z]:])
	if c.cut > turns[k] {
		c.cut = max(turns[k], c.cut-len(c.deleted))
	}
	gone, first := texts(c.deleted), -1
	for i, t := range c.last {
		if slices.Contains(gone, t) {
			first = i
			break
		}
	}
	edge := first >= 0 && (trims(w.habit) && first <= 2 || k <= 1 && z-k >= 3)
	w.forbid(c, edge, gone...)
}

func (w *world) deleteReply(c *conversation) {
	var replies []int
	for i, m := range c.h {
		if m.role == 'a' && i > 0 && i < len(c.h)-1 && c.h[i-1].role == 'u' {
			replies = append(replies, i)
		}
	}
	if replies == nil {
		return
	}
	i := replies[w.r.IntN(len(replies))]
	was := c.h[i].text
	c.h = slices.Delete(slices.Clone(c.h), i, i+1)
	if c.cut > i {
		c.cut--
	}
	w.forbid(c, trims(w.habit) && slices.Contains(c.last[:min(3, len(c.last))], was), was)
}

// retry asks twice, because the first reply does not arrive.
func (w *world) retry(c *conversation) {
	c.h = append(c.h, c.say('u'))
	one, two := c.say('a'), c.say('a')
	sent := c.view()
	w.commit(w.call(c, sent, &one))
	w.old[one.text] = true
	w.commit(w.call(c, sent, &two))
	c.h = append(c.h, two)
	for _, m := range c.h {
		delete(w.old, m.text)
	}
}

// parallel sends two requests at once: the same, or two that differ in their questions.
func (w *world) parallel(c *conversation) {
	c.h = append(c.h, c.say('u'))
	one, two := c.say('a'), c.say('a')
	sent := c.view()
	other := sent
	if w.r.IntN(2) == 0 {
		other = append(slices.Clone(sent[:len(sent)-1]), c.say('u').said)
	}
	both := []open{w.call(c, sent, &one), w.call(c, other, &two)}
	if w.r.IntN(2) == 0 {
		slices.Reverse(both)
	}
	w.commit(both[0])
	w.commit(both[1])
	c.h = append(c.h, one)
}

// stale edits a message while an answer is under way.
func (w *world) stale(c *conversation) {
	if len(c.h) <= 2 {
		return
	}
	turns := c.turns()
	i := max(0, slices.IndexFunc(c.h, func(m entry) bool { return m.role == 'u' && slices.Contains(c.last, m.text) }))
	c.h = append(c.h, c.say('u'))
	late := c.say('a')
	waiting := w.call(c, c.view(), &late)
	was := c.h[i]
	c.h = slices.Clone(c.h[:len(c.h)-1])
	c.h[i].text += " corrected"
	w.forbid(c, len(turns) <= 2 && i > 0, was.text)
	w.ask(c)
	w.commit(waiting)
}

// end checks that each message that was sent is stored, once in its line.
func (w *world) end() {
	w.Helper()
	living, all := map[string]map[string]int{}, map[string]bool{}
	for id := range w.places {
		living[id] = map[string]int{}
		for _, m := range w.holds(id, nil, false) {
			living[id][m.text]++
		}
		for _, m := range w.holds(id, nil, true) {
			all[m.text] = true
		}
	}
	w.f.exempt += len(w.exempts)
	for t := range w.exempts {
		for _, list := range living {
			if list[t] > 0 {
				w.f.exemptRecallable++
				break
			}
		}
	}
	for _, c := range w.convs {
		for _, m := range c.h {
			stored := all[m.text]
			switch {
			case len(m.text) < 12 || c.habit == "cline" && m.id == c.h[1].id:
				continue
			case c.habit == "rag" || c.habit == "images":
				bare := strings.ReplaceAll(m.text, picture, "")
				for t := range all {
					stored = stored || strings.Contains(strings.ReplaceAll(t, picture, ""), bare)
				}
			case !c.sent[m.text]:
				continue
			}
			w.f.messages++
			if !stored {
				w.f.absent++
				w.fault("absent", m.text)
			}
			for id, list := range living {
				if list[m.text] > 1 && !isSide(id) {
					w.fault("twice", id+": "+m.text)
				}
			}
		}
	}
}
