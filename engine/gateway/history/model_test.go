package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// figures count what happened in all conversations: events by name, and the conversations in which each fault occurred.
type figures struct {
	requests, messages, gone int
	absent                   int // messages that are stored nowhere
	exempt, exemptRecallable int // texts that were edited or deleted where nobody can see it
	lost                     int
	cases                    map[align.Case]int
	faulty                   map[string][]uint64 // seeds
}

// world is one conversation, or two under one name, with the truth about its texts.
type world struct {
	*enginetest.Kit
	r                  *rand.Rand
	session            string
	habit, titles      string
	events             []string
	tools              bool
	convs              []*conversation
	gone, old, exempts map[string]bool // texts that were edited or deleted; superseded; or gone unseen
	faults             map[string]string
	places             map[string]bool
	writes             map[string]int
	f                  *figures
}

func newWorld(k *enginetest.Kit, seed uint64, f *figures) *world {
	r := rand.New(rand.NewPCG(seed, 29))
	w := &world{Kit: k, r: r, session: "h" + strconv.FormatUint(seed, 10), habit: pick(r, modelHabits...), f: f, gone: map[string]bool{},
		old: map[string]bool{}, exempts: map[string]bool{}, faults: map[string]string{}, places: map[string]bool{}, writes: map[string]int{}}
	mixed := r.Float64() < .12
	w.tools = r.Float64() < .7 && w.habit != "cline"
	w.convs = []*conversation{newConversation(r, "A", w.habit, fmt.Sprint("sysA", w.tools), w.tools)}
	if mixed {
		w.convs = append(w.convs, newConversation(r, "B", "full", fmt.Sprint(pick(r, "sysA", "sysB"), w.tools), w.tools))
	}
	w.titles = pick(r, "no", "no", "no", "no", "first", "between", "parallel")
	if r.Float64() >= .35 {
		all := slices.Clone(modelEvents)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		w.events = all[:1+r.IntN(3)]
	}
	return w
}

func (w *world) fault(kind, about string) {
	if w.faults[kind] == "" {
		w.faults[kind] = about
	}
}

// forbid notes texts that must be nowhere from now on, if the proxy has seen them.
func (w *world) forbid(c *conversation, edge bool, texts ...string) {
	for _, t := range texts {
		if !slices.Contains(c.last, t) || c.has(t) {
			continue
		}
		c.check = true
		if edge {
			w.exempts[t] = true
		} else {
			w.gone[t] = true
			w.f.gone++
		}
	}
}

// number returns the number of the message that a text belongs to.
func number(text string) int {
	first, _, _ := strings.Cut(text, " ")
	n, _ := strconv.Atoi(strings.Trim(first, "ABSFDRN"))
	return n
}

func trims(habit string) bool {
	return slices.Contains([]string{"trim", "half", "headtail", "cline", "summary"}, habit)
}

// unseen exempts texts in front of what the client has cut in the same request: nobody can see that they are gone.
func (w *world) unseen(c *conversation, sent []said) {
	if !c.check {
		return
	}
	c.check = false
	if !trims(c.habit) {
		return
	}
	head := 0
	if c.habit == "headtail" || c.habit == "cline" {
		head = 3
	}
	low := -1
	for _, m := range sent {
		if n := number(m.text); strings.HasPrefix(m.text, c.name) && n > head && (low < 0 || n < low) {
			low = n
		}
	}
	for t := range w.gone {
		if strings.HasPrefix(t, c.name) && number(t) < low {
			delete(w.gone, t)
			w.exempts[t] = true
		}
	}
}

// open is a request whose reply is awaited.
type open struct {
	c     *conversation
	x     *history.Exchange
	reply string
}

// begin sends a request and checks what goes on to the provider.
func (w *world) begin(c *conversation, sent []said, reply *entry, kind string, tools bool) open {
	w.Helper()
	raw := make([]string, len(sent))
	for i, m := range sent {
		raw[i] = m.raw()
	}
	body := [32]byte{}
	copy(body[:], fmt.Sprint(len(raw), raw[len(raw)-1]))
	x, err := w.Dialogues.Begin(w.Context(), w.Admin, ident.DefaultProject, history.Ask{Session: w.session, Format: chat.OpenAIChat,
		Kind: kind, Tools: tools, Messages: enginetest.Raw(raw...), Resend: true, Body: func() [32]byte { return body }})
	if err != nil {
		w.Fatal(err)
	}
	o := open{c: c, x: x}
	if reply != nil {
		o.reply = reply.text
	}
	w.f.requests++
	w.f.cases[x.Match.Case]++
	return o
}

func (w *world) call(c *conversation, sent []said, reply *entry) open {
	w.Helper()
	c.last = nil
	for _, m := range sent {
		c.last, c.sent[m.text] = append(c.last, m.text), true
	}
	if reply != nil {
		c.last, c.sent[reply.text] = append(c.last, reply.text), true
	}
	w.unseen(c, sent)
	o := w.begin(c, sent, reply, c.kind, c.tools)
	w.checkSent(c, sent, o.x)
	return o
}

// commit stores a reply.
func (w *world) commit(o open) {
	w.Helper()
	s, err := w.Dialogues.Commit(w.Context(), w.Admin, ident.DefaultProject, o.x, history.Reply{Messages: enginetest.Raw(assistant(o.reply))})
	if err != nil {
		w.Fatal(err)
	}
	if s.Reason != "" {
		w.f.lost++
	}
	w.places[s.Session] = true
	if o.c != nil && o.x.Match.Case == align.None { // Too little agrees for the proxy to see what is gone.
		for t := range w.gone {
			if strings.HasPrefix(t, o.c.name) {
				delete(w.gone, t)
				w.exempts[t] = true
			}
		}
	}
}

// inOrder returns messages with the results of each call message sorted.
func inOrder(list []said) []string {
	out := slices.Clone(list)
	for i := 0; i < len(out); i++ {
		from := i
		for i < len(out) && out[i].role == 't' {
			i++
		}
		slices.SortFunc(out[from:i], func(a, b said) int { return strings.Compare(a.text, b.text) })
	}
	texts := make([]string, len(out))
	for i, m := range out {
		texts[i] = string(m.role) + m.text
	}
	return texts
}

// holds returns the messages of a session, of turns up to one.
func (w *world) holds(id string, upto *uint32, superseded bool) (out []said) {
	w.Helper()
	page := enginetest.All
	for {
		list, err := w.Sessions.ListMessages(w.Context(), w.Admin, ident.DefaultProject, id, page, session.MessageOrder{Superseded: superseded})
		if err != nil {
			w.Fatal(err)
		}
		for i := range list.Data {
			if m := &list.Data[i]; upto == nil || m.Turn <= *upto {
				out = append(out, said{role: m.Role[0], text: m.Content})
			}
		}
		if list.NextCursor == nil {
			return out
		}
		page.Cursor = *list.NextCursor
	}
}

// checkSent checks that the provider gets the client's messages, and before them nothing that is gone or another's.
func (w *world) checkSent(c *conversation, sent []said, x *history.Exchange) {
	w.Helper()
	var shown []said
	if x.Head != nil {
		shown = w.holds(x.Session, x.AsOf, false)
	}
	for _, e := range x.Pending() {
		parsed, _, bad := chat.Parse(chat.OpenAIChat, enginetest.Raw(string(e.Raw)))
		if len(bad) > 0 {
			w.Fatal(bad)
		}
		for _, m := range parsed {
			shown = append(shown, said{role: chat.RoleName(m.Role)[0], text: m.Text})
		}
	}
	want := slices.Clone(sent)
	for i := range want {
		if want[i].role == 'c' {
			want[i].role = 'a'
		}
	}
	got, wanted := inOrder(shown), inOrder(want)
	older := len(got) - len(wanted)
	if older < 0 || !slices.Equal(got[older:], wanted) {
		w.fault("sent_not_request", fmt.Sprintf("%s: sent %q, the client sent %q", x.Match.Case, short(got), short(wanted)))
	}
	for _, m := range shown {
		if slices.ContainsFunc(sent, func(s said) bool { return s.text == m.text }) {
			continue
		}
		switch {
		case w.gone[m.text]:
			w.fault("sent_gone", m.text)
		case w.old[m.text]:
			w.fault("sent_superseded", m.text)
		}
		if of := m.text[:min(1, len(m.text))]; strings.Contains("ABT", of) && of != c.name {
			w.fault("sent_mixed", m.text)
		}
	}
}

func short(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = t[:min(len(t), 24)]
	}
	return out
}

func isSide(id string) bool {
	_, n := ident.Forked(id)
	return n == ident.Side
}

// check checks what is stored: nothing that is gone lives, and no line has messages of two conversations.
func (w *world) check() {
	w.Helper()
	for id := range w.places {
		if isSide(id) {
			continue
		}
		of := map[byte]bool{}
		for _, m := range w.holds(id, nil, false) {
			if w.gone[m.text] && len(m.text) > 10 {
				w.fault("recall_gone", id+": "+m.text)
			}
			if len(m.text) > 0 && strings.IndexByte("AB", m.text[0]) >= 0 {
				of[m.text[0]] = true
			}
		}
		if len(of) > 1 {
			w.fault("mixed", id)
		}
	}
}

// TestCampaignHistories draws conversations, clients and what their users do, and keeps the truth beside them. The
// provider gets the client's request and at most older messages before it; what is gone is neither sent nor stored as
// living, as far as it can be seen; lines of two conversations never meet; and every message is stored.
func TestCampaignHistories(t *testing.T) {
	first := (campaign.Seed(t) - 1) * 1_000_000
	n := campaign.Size(150, 20_000)
	f := &figures{cases: map[align.Case]int{}, faulty: map[string][]uint64{}}
	var k *enginetest.Kit
	for i := range n {
		if i%100 == 0 {
			k = enginetest.New(t)
		}
		w := newWorld(k, first+uint64(i), f)
		w.run()
		for kind, about := range w.faults {
			if f.faulty[kind] = append(f.faulty[kind], first+uint64(i)); len(f.faulty[kind]) < 4 {
				t.Logf("%s: seed %d, a client that is %s, titles %s, events %v: %s", kind, first+uint64(i), w.habit, w.titles, w.events, about)
			}
		}
		if i%100 == 99 || i == n-1 {
			k.Sound()
		}
	}
	t.Logf("%d conversations, %d requests, %d messages, %d texts gone, cases %v, %d not stored", n, f.requests, f.messages, f.gone, f.cases, f.lost)
	t.Logf("%d messages are stored nowhere, in %d conversations", f.absent, len(f.faulty["absent"]))
	if 1000*f.absent > f.messages {
		t.Errorf("%d of %d messages are stored nowhere: %v", f.absent, f.messages, f.faulty["absent"])
	}
	t.Logf("%d texts are gone where nobody can see it, %d of them live", f.exempt, f.exemptRecallable)
	for kind, share := range map[string]float64{"sent_not_request": 0, "sent_mixed": 0, "mixed": 0, "twice": 0, "sent_gone": 10. / 20_000,
		"recall_gone": 40. / 20_000} {
		if most := max(share*float64(n), min(1, share*1e6)); float64(len(f.faulty[kind])) > most {
			t.Errorf("%s in %d of %d conversations, at most %.0f may: %v", kind, len(f.faulty[kind]), n, most, f.faulty[kind][:min(20, len(f.faulty[kind]))])
		}
	}
}
