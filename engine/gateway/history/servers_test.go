package history_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// TestCampaignTwoServers has two servers on one store, and a client whose calls reach either of them while its user edits
// messages, deletes some and takes that back. After each call, the session lives with what the client sends. An answer
// to a request that one server got before a change that the other one stored brings nothing back. Every decision
// replays on both servers.
func TestCampaignTwoServers(t *testing.T) {
	seed := campaign.Seed(t)
	decisions, late := 0, 0
	for n := range campaign.Size(2, 25) {
		st := memstore.New()
		s := &servers{kits: [2]*enginetest.Kit{enginetest.Open(t, st)}, r: rand.New(rand.NewPCG(seed, uint64(n)))}
		s.removing = removing{client: &client{Kit: s.kits[0], session: "s"}, deleted: map[int]bool{}}
		s.exchange(s.add("reply", "the first reply says hello to everybody"), s.add("user", "the first question"))
		s.kits[1] = enginetest.Open(t, st)
		s.all[0], s.all[1] = s.all[1], s.all[0] // The reply was made first.
		for range 40 {
			s.turn()
		}
		s.kits[0].Sound()
		for i, id := range s.made {
			s.kits[i%2].Replay(id)
		}
		decisions += len(s.made)
		late += s.late
	}
	t.Logf("%d decisions replayed, %d answers came too late", decisions, late)
	if late == 0 || decisions < 80 {
		t.Error("too little happened")
	}
}

// servers is a client whose calls reach two servers.
type servers struct {
	removing
	kits   [2]*enginetest.Kit
	r      *rand.Rand
	edited map[int]int // how often each message was edited
	made   []string    // decisions
	late   int         // answers that were not stored
}

// either returns one of the servers.
func (s *servers) either() *enginetest.Kit { return s.kits[s.r.IntN(2)] }

// change edits, deletes or brings back a message of the middle, with its result if it is a call.
func (s *servers) change() bool {
	i := 5 + s.r.IntN(max(1, len(s.all)-8)) // Clients that trim leave out the first ones.
	if i >= len(s.all)-2 {
		return false
	}
	if strings.Contains(s.all[i], "tool_call_id") {
		i--
	}
	if s.r.IntN(2) == 0 || s.isCall(i) || s.deleted[i] || s.edited[i] > 1 {
		s.deleted[i] = !s.deleted[i]
		if s.isCall(i) {
			s.deleted[i+1] = s.deleted[i]
		}
		return true
	}
	if s.edited == nil {
		s.edited = map[int]int{}
	}
	s.edited[i]++
	s.all[i] = strings.Replace(s.all[i], " "+s.words[i], " "+s.words[i]+"e", 1)
	s.words[i] += "e"
	return true
}

// turn makes an exchange after some changes, sometimes while an answer is awaited from the other server.
func (s *servers) turn() {
	s.Helper()
	s.Kit = s.either()
	late := s.r.IntN(4) == 0 && len(s.all) > 12
	for range s.r.IntN(3) {
		if !late {
			s.change()
		}
	}
	var answer func()
	if late {
		old := &client{Kit: s.either(), session: "s", history: append(s.sends(), user("a question that is answered too late"))}
		x := old.begin()
		answer = func() {
			if got := old.commit(x, assistant("an answer that comes too late")); got.Turn != 0 || got.Reason != "changed_meanwhile" {
				s.Fatalf("%+v", got)
			}
			s.late++
		}
		for !s.change() {
		}
	}
	s.history = s.sends()
	first := s.add("user", "a question about the harvest in the valley")
	if s.r.IntN(2) == 0 {
		s.exchange(s.add("call", "looking into it"), first)
		first = s.add("result", "the answer to the call is written here")
	}
	x, stored := s.exchange(s.add("reply", "a reply that tells of the harvest at length"), first)
	if stored.Session != "s" || stored.Turn == 0 {
		s.Fatalf("%+v %+v: %+v\n%s", x.Match, x.Differs(), stored, strings.Join(s.history, "\n"))
	}
	if answer != nil {
		answer()
	}
	s.made = append(s.made, s.either().Ask(`{"session_id":"s"}`).DecisionID)
	s.Kit = s.either()
	got, want := s.texts("s"), s.sends()
	for i := range got { // What was stored again keeps its time.
		got[i] = strings.Replace(got[i], `,"created_at":"2026-03-05T12:00:00Z"`, "", 1)
	}
	if !slices.Equal(got, want) {
		s.Fatalf("%+v %+v: it lives with\n%s\nand not with\n%s", x.Match, x.Differs(), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
