package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// reading counts the reads of a store: the calls and the records returned.
type reading struct {
	store.Store
	calls, records atomic.Int64
}

func (r *reading) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	out, err := r.Store.Read(ctx, tenant, q)
	r.calls.Add(1)
	r.records.Add(int64(len(out.Keys) + len(slices.Concat(out.Ranges...))))
	return out, err
}

// long returns the client of a session with the given number of messages.
func long(tb testing.TB, k *enginetest.Kit, messages int) *client {
	c := &client{Kit: k, session: fmt.Sprint("long-", messages)}
	for n := 0; len(c.history) < messages; n++ {
		c.history = append(c.history, user(fmt.Sprint("question ", n)), assistant(fmt.Sprint("answer ", n)))
	}
	for part := range slices.Chunk(c.history, 500) {
		c.Post(c.session, part...)
	}
	return c
}

// TestExtendingReads checks that a request that continues a session needs as many reads of as many records in a long
// session as in a short one. For a session that is not in memory, this holds for the number of calls.
func TestExtendingReads(t *testing.T) {
	type cost struct{ calls, records int64 }
	var warm []cost
	for _, messages := range []int{10, 1000, 5000} {
		r := &reading{Store: memstore.New()}
		c := long(t, enginetest.Open(t, r), messages)
		measure := func(c *client) (out cost) {
			calls, records := r.calls.Load(), r.records.Load()
			x, s := c.exchange(assistant("Sure."), user("Go on"))
			if x.Match.Case != align.Extend || s.Turn == 0 {
				t.Fatalf("%+v %+v", x.Match, s)
			}
			return cost{r.calls.Load() - calls, r.records.Load() - records}
		}
		cold := measure(c)
		now := measure(c)
		t.Logf("%d messages: %d reads of %d records, the first time %d of %d", messages, now.calls, now.records, cold.calls, cold.records)
		if warm = append(warm, now); now != warm[0] || cold.calls > now.calls+1 {
			t.Errorf("%d messages: %+v, the first time %+v; in the shortest session %+v", messages, now, cold, warm[0])
		}
	}
}

// BenchmarkExtending measures a request that continues a session, and its commit, for several session lengths.
func BenchmarkExtending(b *testing.B) {
	for _, messages := range []int{10, 1000, 5000} {
		for _, part := range []string{"begin", "commit"} {
			b.Run(fmt.Sprint(messages, "/", part), func(b *testing.B) {
				db := enginetest.OpenBadger(b, b.TempDir())
				defer func() { _ = db.Close() }()
				c := long(b, enginetest.Open(b, db), messages)
				c.history = append(c.history, user("Go on"))
				x := c.begin()
				b.ResetTimer()
				for b.Loop() {
					if part == "begin" {
						x = c.begin()
						continue
					}
					c.commit(x, assistant("Sure."))
					b.StopTimer()
					c.history = append(c.history, user("Go on"))
					x = c.begin()
					b.StartTimer()
				}
			})
		}
	}
}

// dying is a store whose process dies: after some commit, nothing is written and nothing can be read.
type dying struct {
	store.Store
	left  atomic.Int64
	after bool // the last commit is written, but not reported
}

var errDead = errors.New("the process is dead")

func (d *dying) Commit(ctx context.Context, tenant string, b store.Batch) error {
	left := d.left.Add(-1)
	if left == -1 && d.after {
		if err := d.Store.Commit(ctx, tenant, b); err != nil {
			return err
		}
	}
	if left < 0 {
		return errDead
	}
	return d.Store.Commit(ctx, tenant, b)
}

func (d *dying) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	if d.left.Load() < 0 {
		return store.Result{}, errDead
	}
	return d.Store.Read(ctx, tenant, q)
}

// TestCampaignDeaths kills the process before or after each commit in turn, during a conversation of each kind of
// client, and restarts it. The client gets no reply and asks again. Every session holds each message once.
func TestCampaignDeaths(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	conversation := made(r, 1)[0]
	for len(conversation) < 12 || len(conversation) > 40 {
		conversation = made(r, 1)[0]
	}
	for i := range 6 {
		sort, deaths := []string{"history", "new alone", "by response"}[i%3], 0
		for at := int64(0); ; at++ {
			raw := memstore.New()
			enginetest.Open(t, raw)
			d := &dying{Store: raw, after: i > 2}
			d.left.Store(at + 1000)
			k := enginetest.Open(t, d)
			d.left.Store(at)
			format := chat.OpenAIChat
			if sort == "by response" {
				format = chat.OpenAIResponses
			}
			p := newPerson(k, habits[0], format, "s", "", conversation, nil, nil)
			died, retries, sent, previous := false, false, 0, ""
			first := 3 // the client starts with a history that is stored in several commits
			for n := first; n < len(p.messages); n++ {
				if !p.replies(n) {
					continue
				}
				ask := history.Ask{Session: p.session, Format: p.format, Weak: true, Messages: elements(p.messages[:n])}
				if sort != "history" {
					ask.Messages, ask.Previous, ask.Delta = elements(p.messages[sent:n]), previous, sort == "new alone"
				}
				reply := history.Reply{Messages: elements(p.messages[n : n+1])}
				if sort == "by response" {
					reply.ResponseID = fmt.Sprintf("resp_%d_%t", n, died)
				}
				ask.Body = func() [32]byte { return [32]byte{byte(n)} }
				if retries {
					ask.Retries = 1
				}
				retries = false
				x, err := k.Dialogues.Begin(t.Context(), k.Admin, ident.DefaultProject, ask)
				var s history.Stored
				if err == nil {
					s, err = k.Dialogues.Commit(t.Context(), k.Admin, ident.DefaultProject, x, reply)
				}
				if err != nil && !died && errors.Is(err, errDead) {
					died, retries = true, true
					d.left.Store(1 << 40)
					k = enginetest.Open(t, raw)
					p.Kit = k
					n--
					continue
				}
				if err != nil || s.Session != "s" || s.Reason != "" {
					t.Fatalf("%s, death at %d, call %d: %+v %v", sort, at, n, s, err)
				}
				previous, sent, p.at = reply.ResponseID, n+1, n+1
				if s.Turn > 0 {
					p.holds()
				}
			}
			if r := enginetest.Verified(t, raw); len(r.Findings) > 0 {
				t.Fatalf("%s, death at %d: %+v", sort, at, r.Findings[0])
			}
			deaths++
			if !died {
				break
			}
		}
		t.Log(sort, deaths, "deaths")
	}
}
