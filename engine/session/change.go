package session

import (
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Sent records how much of its history a client has sent so far. It is about the main agent's messages.
type Sent struct {
	align.Edge
	// Marked are the removed runs that count as trimmed once the edge has moved often enough.
	Marked transcript.Runs `json:"marked,omitempty"`
	// Edits counts how often the first messages of the line were changed.
	Edits []uint8 `json:"edits,omitempty"`
	// Kind tells requests of different programs apart; see wire.Body.Kind. Plain says that the line began with a request
	// of one question and without tools, as the calls for titles are.
	Kind  string `json:"kind,omitempty"`
	Plain bool   `json:"plain,omitempty"`
	// Since is the message with which the client began its own history, after messages that it has never sent; 0 if it
	// began with the line.
	Since uint64 `json:"since,omitempty"`
}

// Forks are the forks of a session that hold conversations which did not continue it.
type Forks struct {
	Last   int   `json:"last"`             // the highest number given so far
	Recent []int `json:"recent,omitempty"` // the numbers of the forks used last, newest first
}

// MaxRecentForks is how many forks of a session a request is compared with.
const MaxRecentForks = 16

// With returns the forks after one was used.
func (f *Forks) With(n int) *Forks {
	out := &Forks{Last: n, Recent: []int{n}}
	if f != nil {
		out.Last = max(n, f.Last)
		for _, other := range f.Recent {
			if other != n && len(out.Recent) < MaxRecentForks {
				out.Recent = append(out.Recent, other)
			}
		}
	}
	return out
}

// NoteFork records in a session that a fork of it is used, so that later requests are compared with the fork. It does
// nothing if the session does not exist.
func (svc *Service) NoteFork(ctx context.Context, c ident.Caller, projectID, id string, known *Forks, n int) error {
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (none struct{}, err error) {
		p, err := svc.projects.Project(t, c.Unconfined(), projectID)
		if err != nil {
			return none, err
		}
		key := records.Session.Key(p.Incarnation, id)
		h, err := records.GetTx[Head](t, key)
		if err == nil {
			err = h.CheckReach(c, id)
		}
		if err != nil || h == nil {
			return none, err
		}
		if h.Forks == nil {
			h.Forks = known
		}
		h.Forks = h.Forks.With(n)
		return none, t.PutJSON(key, h)
	})
	return err
}

// Change is what a client's request does to the middle of its history.
type Change struct {
	// Remove are runs of turns, or of some messages of a turn, that the client no longer sends. Restore are runs that it
	// sends again, and that are applied first.
	Remove, Restore []transcript.Run
	// Edits are new versions of messages.
	Edits []*transcript.Edit
	// Rewrites says that turns are stored again after the rewind of the same commit, because a message among them changed.
	Rewrites bool
	Sent     *Sent // nil if unchanged
	// Begins says that the client's own history begins with the first message of the commit.
	Begins bool
	Forks  *Forks // nil if unchanged
	size   int64  // of the new versions and those of the copies, in bytes
	// Copies are changes of other sessions in the same commit, which hold copies of what is changed or removed here.
	Copies []Copy
}

// Copy is a change to a session that has copies of messages that are changed elsewhere.
type Copy struct {
	SessionID string
	Revision  uint64 // that the change is meant for
	Change
}

// prepare parses and measures the new versions of messages, including those of the copies.
func (svc *Service) prepare(ctx context.Context, c *Change) error {
	if c == nil {
		return nil
	}
	c.size = 0
	for _, e := range c.Edits {
		if err := svc.Prepare(ctx, e); err != nil {
			return err
		}
		c.size += e.Bytes()
	}
	for i := range c.Copies {
		if err := svc.prepare(ctx, &c.Copies[i].Change); err != nil {
			return err
		}
		c.size += c.Copies[i].size
	}
	return nil
}

// bytes returns the size of a request's messages and new versions of messages.
func (req *TurnRequest) bytes(t *transcript.Turn) int64 {
	if req.Change == nil {
		return t.Bytes()
	}
	return t.Bytes() + req.Change.size
}

// changeCopies applies the changes of other sessions. Sessions that no longer exist are left out. It returns
// revision_changed.
func (svc *Service) changeCopies(t *records.Tx, c ident.Caller, projectID string, change *Change) error {
	if change == nil {
		return nil
	}
	for i := range change.Copies {
		of := &change.Copies[i]
		p, h, open, err := svc.forAppend(t, c, projectID, of.SessionID, false)
		if fault.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = h.checkRevision(&of.Revision)
		}
		if err != nil {
			return err
		}
		set, err := svc.projects.SetupOf(p)
		if err != nil {
			return err
		}
		changes := h.Changes
		if err := svc.change(t, set, h, open, &of.Change); err != nil {
			return err
		}
		if h.Changes == changes {
			continue
		}
		h.Revision++
		if err := svc.putSession(t, p, of.SessionID, h, open); err != nil {
			return err
		}
	}
	return nil
}

// change applies what a request does to the middle of the session. Removed turns and messages stay stored and can be
// restored; they are superseded until then.
func (svc *Service) change(t *records.Tx, set *project.Setup, h *Head, open *transcript.OpenCalls, c *Change) error {
	if c == nil {
		return nil
	}
	h.note(c)
	first := uint64(0) // the first changed message
	touch := func(r transcript.Run) {
		if first == 0 || r.Messages[0] < first {
			first = r.Messages[0]
		}
	}
	for _, r := range c.Restore {
		restored, err := svc.restore(t, h, r)
		if err != nil {
			return err
		}
		if restored {
			touch(r)
		}
	}
	for _, r := range c.Remove {
		removed, err := svc.remove(t, h, open, r)
		if err != nil {
			return err
		}
		if removed {
			touch(r)
		}
	}
	edited, err := svc.editMessages(t, h, c.Edits)
	if err != nil {
		return err
	}
	if edited.First > 0 && (first == 0 || edited.First < first) {
		first = edited.First
	}
	if first == 0 {
		return nil
	}
	h.Changes++
	h.Lineage = h.Lineage.Branch("change", h.Changes, edited.Sum)
	if h.Superseded.Message(h.Asked) {
		if h.Asked, err = svc.LastQuestion(t.Ctx, t.Tenant, h.Extent()); err != nil {
			return err
		}
	}
	return svc.fallBehind(t, set, h, first)
}

// editMessages gives new versions to those of some messages that are living.
func (svc *Service) editMessages(t *records.Tx, h *Head, edits []*transcript.Edit) (c transcript.Changed, err error) {
	var living []*transcript.Edit
	for _, e := range edits {
		if e.Seq <= h.Messages && !h.Superseded.Message(e.Seq) {
			living = append(living, e)
		}
	}
	if living == nil {
		return c, nil
	}
	if c, err = svc.ChangeMessages(t, h.Extent(), h.Revision, h.Edits+1, living); err != nil || c.First == 0 {
		return c, err
	}
	h.Edits++
	for i := range h.Tokens {
		h.Tokens[i] = uint64(max(0, int64(h.Tokens[i])+c.Tokens[i]))
	}
	h.Bytes += c.Bytes // The former versions stay stored.
	return c, nil
}

// note copies to the head what the change says about the client's history.
func (h *Head) note(c *Change) {
	if c.Sent != nil {
		h.Sent = c.Sent
	}
	if c.Forks != nil && h.Forks == nil {
		h.Forks = c.Forks
	}
	if c.Begins {
		sent := new(Sent)
		if h.Sent != nil {
			*sent = *h.Sent
		}
		sent.Since, sent.Edge, sent.Edits = h.Messages+1, align.Edge{}, nil
		h.Sent = sent
	}
	if c.Rewrites {
		h.Changes++
	}
}

// restore counts the messages of a removed run again. It reports whether it did: not if nothing of the run is removed, or
// if its messages are absent.
func (svc *Service) restore(t *records.Tx, h *Head, r transcript.Run) (bool, error) {
	was := h.Superseded
	if h.Removed.Messages(r.Messages[1]) == h.Removed.Messages(r.Messages[0]-1) || h.Absent.Message(r.Messages[0]) {
		return false, nil
	}
	if r.Partial() && !was.Part(r.Messages[0]) { // The whole turn is removed, and its other messages stay so.
		first, last, err := svc.PartBounds(t.Ctx, t.Tenant, h.Extent(), r.Messages[0])
		if err != nil {
			return false, err
		}
		turn := transcript.Run{Turns: [2]uint32{r.Turns[1], r.Turns[1]}, Messages: [2]uint64{first, last}}
		h.Superseded, h.Removed = h.Superseded.Without(turn), h.Removed.Without(turn)
		if all := transcript.Part(r.Turns[1], first, last); all.Messages != r.Messages {
			h.Superseded, h.Removed = h.Superseded.Insert(all), h.Removed.Insert(all)
		}
	}
	h.Superseded, h.Removed = h.Superseded.Without(r), h.Removed.Without(r)
	hs, err := svc.headersOf(t.Ctx, t.Tenant, h, r)
	if err != nil {
		return false, err
	}
	for i := range hs {
		if was.Message(hs[i].Seq) {
			h.count(&hs[i], 1)
		}
	}
	return true, nil
}

// MaxRemoved is the number of superseded runs from which on nothing more is removed from a session.
const MaxRemoved = transcript.Max / 2

// remove supersedes the messages of a run and closes its open calls. It reports whether it did: not if the run is
// superseded already or has messages that must stay, or if the session has too many runs.
func (svc *Service) remove(t *records.Tx, h *Head, open *transcript.OpenCalls, r transcript.Run) (bool, error) {
	if len(h.Superseded) >= MaxRemoved {
		return false, nil
	}
	hs, err := svc.headersOf(t.Ctx, t.Tenant, h, r)
	if err != nil || !removable(hs) {
		return false, err
	}
	runs, err := svc.removedRuns(t, h, r, hs)
	if err != nil {
		return false, err
	}
	for i := range hs {
		h.count(&hs[i], -1)
	}
	for _, r := range runs {
		h.Superseded, h.Removed = h.Superseded.Insert(r), h.Removed.Insert(r)
	}
	open.Calls = slices.DeleteFunc(open.Calls, func(c transcript.OpenCall) bool {
		return r.Messages[0] <= c.Seq && c.Seq <= r.Messages[1]
	})
	return true, nil
}

// removedRuns returns the runs that a session is left without if a run is removed whose living messages are given: the
// run itself if it consists of several turns, and otherwise one for each turn.
func (svc *Service) removedRuns(t *records.Tx, h *Head, r transcript.Run, hs []transcript.Header) (transcript.Runs, error) {
	if !r.Partial() {
		if whole, err := svc.wholeTurns(t.Ctx, t.Tenant, h, r); err != nil || whole {
			return transcript.Runs{r}, err
		}
	}
	var out transcript.Runs
	for len(hs) > 0 {
		n := slices.IndexFunc(hs, func(m transcript.Header) bool { return m.Turn != hs[0].Turn })
		if n < 0 {
			n = len(hs)
		}
		part, err := svc.completed(t, h, hs[:n])
		if err != nil {
			return nil, err
		}
		out, hs = append(out, part), hs[n:]
	}
	return out, nil
}

// completed returns the run of some messages of a turn, or that of the whole turn if nothing else of it lives.
func (svc *Service) completed(t *records.Tx, h *Head, hs []transcript.Header) (transcript.Run, error) {
	turn := hs[0].Turn
	r := transcript.Part(turn, hs[0].Seq, hs[len(hs)-1].Seq)
	first, last, err := svc.PartBounds(t.Ctx, t.Tenant, h.Extent(), r.Messages[0])
	if err != nil {
		return r, err
	}
	living := last - first + 1 - (h.Superseded.Messages(last) - h.Superseded.Messages(first-1))
	if living > uint64(len(hs)) {
		return r, nil
	}
	whole := transcript.Run{Turns: [2]uint32{turn, turn}, Messages: [2]uint64{first, last}}
	if all, err := svc.wholeTurns(t.Ctx, t.Tenant, h, whole); err != nil || !all {
		return r, err
	}
	return whole, nil
}

// count adds or subtracts the tokens of a message.
func (h *Head) count(m *transcript.Header, sign int64) {
	for i, n := range m.Tokens {
		h.Tokens[i] = uint64(max(0, int64(h.Tokens[i])+sign*int64(n)))
	}
	if sign > 0 && m.Role == plan.RoleUser && m.Delegation == "" {
		h.Asked = max(h.Asked, m.Seq)
	}
}

// headersOf reads the headers of a run of messages that are not removed.
func (svc *Service) headersOf(ctx context.Context, tenant string, h *Head, r transcript.Run) ([]transcript.Header, error) {
	x := h.Extent()
	x.Messages = r.Messages[1]
	x.Turns = min(x.Turns, r.Turns[1])
	hs, _, err := svc.ReadHeaders(ctx, tenant, x, int(r.Messages[1]-r.Messages[0])+1, nil)
	if err != nil {
		return nil, err
	}
	from := slices.IndexFunc(hs, func(h transcript.Header) bool { return h.Seq >= r.Messages[0] })
	if from < 0 {
		return nil, nil
	}
	return hs[from:], nil
}

// wholeTurns reports whether a run consists of whole turns: no message next to it belongs to one of its turns.
func (svc *Service) wholeTurns(ctx context.Context, tenant string, h *Head, r transcript.Run) (bool, error) {
	for _, seq := range [...]uint64{r.Messages[0] - 1, r.Messages[1] + 1} {
		if seq == 0 || seq > h.Messages || h.Superseded.Message(seq) {
			continue
		}
		bodies, err := svc.ReadBodies(ctx, tenant, h.Incarnation, seq, seq)
		if err != nil {
			return false, err
		}
		beside, _, err := transcript.ParseBody(bodies[0])
		if err != nil || r.Turns[0] <= beside.Turn && beside.Turn <= r.Turns[1] {
			return false, nil
		}
	}
	return true, nil
}

// removable reports whether turns can be removed separately: they are the main agent's, and include every call with its
// result.
func removable(hs []transcript.Header) bool {
	waiting := map[uint64]int{}
	for i := range hs {
		h := &hs[i]
		if h.Delegation != "" || h.Lost() {
			return false
		}
		if h.Calls > 0 {
			waiting[h.Seq] = int(h.Calls)
		}
		if h.Call != h.Seq {
			if _, ok := waiting[h.Call]; !ok {
				return false
			}
			waiting[h.Call]--
		}
	}
	for _, n := range waiting {
		if n > 0 {
			return false
		}
	}
	return len(hs) > 0
}

// fallBehind replaces the summary of a session whose messages changed from first on. The new version copies the newest
// version that covers none of these messages, or there is no summary. No later rewind returns to an earlier version.
func (svc *Service) fallBehind(t *records.Tx, set *project.Setup, h *Head, first uint64) error {
	now, x := h.Covered(), h.Extent()
	if now.Covers < first {
		return nil
	}
	x.Messages = first - 1
	x.Superseded = x.Superseded.Upto(x.Messages)
	h.Retire(t, set)
	rec, _, err := svc.newestWithin(t.Ctx, t.Tenant, now, x)
	if err != nil {
		return err
	}
	h.Summary = &SummaryHead{Version: now.Version, Since: now.Version + 1}
	if rec == nil {
		return nil
	}
	h.Summary = rec.HeadOf(now)
	h.Summary.Since = h.Summary.Version
	return t.PutJSON(records.Summary.Key(h.Incarnation, h.Summary.Version), rec)
}
