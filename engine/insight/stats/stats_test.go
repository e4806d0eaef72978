package stats_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/stats"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

func TestMain(m *testing.M) { os.Exit(compilertest.Main(m)) }

// server opens an engine on a store, with its own ids and clock.
func server(t testing.TB, raw store.Store, n byte, now time.Time) *enginetest.Kit {
	k := enginetest.Open(t, raw, func(o *engine.Options) {
		o.Random = &enginetest.LockedReader{R: rand.NewChaCha8([32]byte{n, 99})}
	})
	k.Advance(now.Sub(k.Clock()))
	return k
}

func series(k *enginetest.Kit, project string, q stats.Query) stats.Series {
	k.Helper()
	s, err := k.Stats.Series(k.Context(), k.Admin, project, q)
	if err != nil {
		k.Fatal(err)
	}
	return s
}

func write(k *enginetest.Kit) {
	k.Helper()
	if err := k.Stats.Write(k.Context()); err != nil {
		k.Fatal(err)
	}
}

func post(k *enginetest.Kit, project string, req session.TurnRequest, once ident.Once) session.TurnResponse {
	k.Helper()
	r, err := k.Sessions.AppendTurn(k.Context(), k.Admin, once, project, req)
	if err != nil {
		k.Fatal(err)
	}
	return r
}

func ask(k *enginetest.Kit, project, request string) (w enginetest.Window) {
	k.Helper()
	var req window.Request
	if err := json.Unmarshal([]byte(request), &req); err != nil {
		k.Fatal(err)
	}
	b, err := k.Assemble(project, &req, []byte(request), nil)
	if err == nil {
		err = json.Unmarshal(b, &w)
	}
	if err != nil {
		k.Fatal(err)
	}
	return w
}

// done is what happened in an hour of a project, according to the test. Of windows it contains only their number and
// tokens; the rest is checked against the list of decisions.
type done struct{ turns, windows, in, out uint64 }

// expect compares a series with what was done and with the list of decisions.
func expect(k *enginetest.Kit, project string, hours map[int64]*done, q stats.Query) {
	k.Helper()
	got := series(k, project, q)
	span := time.Hour
	if q.Bucket != stats.Hour {
		span = 24 * time.Hour
	}
	var rows []decision.Row
	for cursor := ""; ; {
		list, err := k.Decisions.List(k.Context(), k.Admin, project, decision.Filter{}, records.Page{Limit: 100, Cursor: cursor})
		if err != nil {
			k.Fatal(err)
		}
		rows = append(rows, list.Data...)
		if !list.HasMore {
			break
		}
		cursor = *list.NextCursor
	}
	from, to := q.From.Truncate(span), q.To.Add(span-1).Truncate(span)
	end := k.Clock().Truncate(span).Add(span)
	if to.After(end) {
		to = end
	}
	if !got.From.Equal(from) || !got.To.Equal(to) || len(got.Data) != int(to.Sub(from)/span) {
		k.Fatalf("%s, %v to %v: the series goes from %v to %v in %d rows", q.Bucket, q.From, q.To, got.From, got.To,
			len(got.Data))
	}
	var total stats.Sums
	for i, row := range got.Data {
		if !row.At.Equal(from.Add(time.Duration(i) * span)) {
			k.Fatalf("row %d is of %v", i, row.At)
		}
		within := func(at time.Time) bool { return !at.Before(row.At) && at.Before(row.At.Add(span)) }
		want := stats.Sums{Failures: map[plan.Status]uint64{}}
		for hour, d := range hours {
			if within(time.Unix(hour*3600, 0)) {
				want.Turns, want.Windows = want.Turns+d.turns, want.Windows+d.windows
				want.TokensIn, want.TokensOut = want.TokensIn+d.in, want.TokensOut+d.out
			}
		}
		var listed uint64
		for _, r := range rows {
			if !within(r.At) {
				continue
			}
			listed++
			want.LeftOut.Count += r.LeftOut.Count
			want.LeftOut.Tokens += r.LeftOut.Tokens
			if r.Cut {
				want.Cuts++
			}
			if p := r.Usage.Prefix; p != nil {
				want.Prefix += p.Tokens
			}
			for _, o := range r.Outcomes {
				if o.Outcome != plan.StatusOK {
					want.Failures[o.Outcome]++
				}
			}
		}
		if !reflect.DeepEqual(row.Sums, want) || listed != want.Windows {
			k.Fatalf("%s from %v: %+v, want %+v; %d decisions", q.Bucket, row.At, row.Sums, want, listed)
		}
		if (row.P50 != nil) != (want.Windows > 0) || (row.P95 != nil) != (want.Windows > 0) {
			k.Fatalf("%d windows took %v", want.Windows, row.P50)
		}
		total.Turns, total.Windows, total.Cuts = total.Turns+want.Turns, total.Windows+want.Windows, total.Cuts+want.Cuts
		total.LeftOut.Tokens += want.LeftOut.Tokens
	}
	sum := got.Total
	if sum.Turns != total.Turns || sum.Windows != total.Windows || sum.Cuts != total.Cuts ||
		sum.LeftOut.Tokens != total.LeftOut.Tokens {
		k.Fatalf("the sum is %+v, want %+v", sum, total)
	}
}

// After random turns and windows over several days, on two servers that are restarted and hold few counts in memory,
// every series of every server equals what was done.
func TestSeriesAreWhatWasDone(t *testing.T) {
	raw, r := memstore.New(), rand.New(rand.NewPCG(7, 15))
	begin := time.Date(2026, 3, 5, 21, 40, 0, 0, time.UTC)
	on := []*enginetest.Kit{server(t, raw, 0, begin), server(t, raw, 1, begin)}
	projects := []string{ident.DefaultProject, "other"}
	on[0].MakeProject("other")
	on[0].Upload("p", wasmtest.Policy(wasmtest.Manifest("traps"), wasmtest.Trap()))
	on[0].SetIn("other", `{"pipeline":[{"policy":"p"}],"history_max_messages":4}`)
	hours := map[string]map[int64]*done{projects[0]: {}, projects[1]: {}}
	for i := range 300 {
		n := r.IntN(len(on))
		k, project := on[n], projects[r.IntN(2)]
		if k.Stats.Held() == 3 {
			write(k) // memory is full: the next might not be counted
		}
		hour := k.Clock().Unix() / 3600
		d := hours[project][hour]
		if d == nil {
			d = new(done)
			hours[project][hour] = d
		}
		switch what := r.IntN(20); {
		case what < 8:
			req := session.TurnRequest{SessionID: fmt.Sprint("s", r.IntN(3)), Continues: r.IntN(4) == 0,
				Messages: enginetest.Raw(enginetest.User("how are you?"), enginetest.Assistant(fmt.Sprint("well ", r.Int())))}
			last := uint32(0)
			if s, err := k.Sessions.Get(t.Context(), k.Admin, project, req.SessionID); err == nil {
				last = uint32(s.Turns)
			}
			once := ident.Once{Key: fmt.Sprint(i), Seal: "x"}
			got := post(k, project, req, once)
			if r.IntN(3) == 0 {
				post(k, project, req, once) // repeated, which does nothing
			}
			if got.Turn > last {
				d.turns++
			}
			d.out += uint64(got.Messages[1].Tokens)
		case what < 15:
			w := ask(k, project, fmt.Sprintf(`{"session_id":"s%d","budget":{"max_messages":%d}}`, r.IntN(3), 3+r.IntN(9)))
			d.windows, d.in = d.windows+1, d.in+uint64(w.Usage["tokens"])
			ask(k, project, `{"session_id":"s0","record":false}`) // not recorded
		case what < 17:
			write(k)
		case what < 18: // a restart
			write(k)
			on[n] = server(t, raw, byte(2+i), k.Clock())
			on[n].Stats.Hold(3)
		default:
			by := time.Duration(r.IntN(300)) * time.Minute
			for _, k := range on {
				k.Advance(by)
			}
		}
		if i%30 != 29 {
			continue
		}
		for n, k := range on {
			write(on[1-n]) // a server includes its own counts before they are written
			for _, project := range projects {
				for _, bucket := range []stats.Bucket{stats.Hour, stats.Day} {
					from := begin.Add(time.Duration(r.Int64N(int64(k.Clock().Sub(begin)) + 1))).Add(-3 * time.Hour)
					to := from.Add(time.Duration(1 + r.Int64N(int64(72*time.Hour))))
					if !from.Before(k.Clock()) {
						continue
					}
					expect(k, project, hours[project], stats.Query{From: &from, To: &to, Bucket: bucket})
				}
			}
		}
	}
	var windows, failures uint64
	for _, project := range projects {
		s := series(on[0], project, stats.Query{})
		windows += s.Total.Windows
		failures += s.Total.Failures[plan.StatusTrap]
	}
	if windows < 50 || failures < 20 {
		t.Errorf("only %d windows and %d failures were made", windows, failures)
	}
	on[0].Sound()
}

// A killed server loses only what it had not written. Its successor does not overwrite its counts.
func TestKilledServer(t *testing.T) {
	raw, now := memstore.New(), time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	turn := session.TurnRequest{SessionID: "s", Messages: enginetest.Raw(enginetest.User("hello"))}
	first := server(t, raw, 0, now)
	post(first, ident.DefaultProject, turn, ident.Once{})
	write(first)
	post(first, ident.DefaultProject, turn, ident.Once{})
	second := server(t, raw, 1, now)
	post(second, ident.DefaultProject, turn, ident.Once{})
	write(second)
	if got := series(second, ident.DefaultProject, stats.Query{}).Total.Turns; got != 2 {
		t.Errorf("%d turns, want 2: the one that was written before the kill and the one after it", got)
	}
}

// Counts that cannot be written are kept, and written once later.
func TestFullDisk(t *testing.T) {
	raw := &enginetest.FullDisk{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	k.Post("s", enginetest.User("hello"))
	raw.Full.Store(true)
	if k.Stats.Write(t.Context()) == nil {
		t.Error("a full disk was written to")
	}
	k.Advance(2 * time.Hour)
	raw.Full.Store(false)
	write(k)
	write(k)
	if got := series(k, ident.DefaultProject, stats.Query{}).Total.Turns; got != 1 || k.Stats.Held() != 0 {
		t.Errorf("%d turns, and %d counts are still held", got, k.Stats.Held())
	}
}

// Memory is limited however many projects are used in an hour. Idle projects take none.
func TestFewAreHeld(t *testing.T) {
	k := enginetest.New(t)
	k.Stats.Hold(5)
	for round := range 4 {
		for i := range byte(4) {
			k.Stats.Count(ident.DefaultTenant, ident.Incarnation{byte(round), i}, stats.Turn{})
		}
		k.Post("s", enginetest.User("hello"))
		if got := k.Stats.Held(); got != 5 {
			t.Fatalf("%d counts are held, want 5", got)
		}
		k.Post("s", enginetest.User("hello"))
		k.Stats.Count(ident.DefaultTenant, ident.Incarnation{99}, stats.Turn{}) // one too many, which is not counted
		write(k)
		if got := k.Stats.Held(); got != 0 {
			t.Fatalf("%d counts are held once all are written, want none", got)
		}
	}
	if got := series(k, ident.DefaultProject, stats.Query{}).Total.Turns; got != 8 {
		t.Errorf("%d turns, want 8", got)
	}
}

// The daily job removes counts older than 90 days, whole days at a time, and those of deleted projects.
func TestOldCountsGo(t *testing.T) {
	k := enginetest.New(t)
	k.Drain()
	turn := func() { k.Post("s", enginetest.User("hello")) }
	turn()
	orphan := ident.Incarnation{1, 2, 3}
	k.Stats.Count(ident.DefaultTenant, orphan, stats.Turn{})
	write(k)
	kept := func() (n int) {
		for _, it := range k.Everything(ident.DefaultTenant) {
			if records.Stats.Is(it.Key) {
				n++
			}
		}
		return n
	}
	if kept() != 2 {
		t.Fatalf("%d records, want 2", kept())
	}
	for _, f := range k.Verify().Findings {
		if !f.Harmless || f.Kind != "stats" {
			t.Errorf("verify finds %+v", f)
		}
	}
	k.Advance(enginetest.ADay)
	k.Drain()
	if kept() != 1 {
		t.Errorf("%d records are left after a day, want 1: the other is of no project", kept())
	}
	turn()
	write(k)
	k.Advance(89 * enginetest.ADay)
	k.Drain()
	from := k.Clock().AddDate(-1, 0, 0)
	if s := series(k, ident.DefaultProject, stats.Query{From: &from}); s.Total.Turns != 2 || len(s.Data) != 91 {
		t.Errorf("after 90 days: %d turns in %d rows, want 2 in 91", s.Total.Turns, len(s.Data))
	}
	k.Advance(enginetest.ADay)
	k.Drain()
	if kept() != 1 {
		t.Errorf("%d records after 91 days, want that of the second day", kept())
	}
	k.Sound()
}

// Deleting a project deletes its counts; another one of the same name starts from zero. Nothing is written for a
// deleted tenant.
func TestDeletion(t *testing.T) {
	k := enginetest.New(t)
	k.MakeProject("p")
	turn := session.TurnRequest{SessionID: "s", Messages: enginetest.Raw(enginetest.User("hello"))}
	post(k, "p", turn, ident.Once{})
	write(k)
	if err := k.DeleteProject(t.Context(), k.Admin, "p"); err != nil {
		t.Fatal(err)
	}
	_, err := k.Stats.Series(t.Context(), k.Admin, "p", stats.Query{})
	enginetest.WantKind(t, err, fault.NotFound)
	k.Drain()
	k.Sound()
	for _, it := range k.Everything(ident.DefaultTenant) {
		if records.Stats.Is(it.Key) {
			t.Error("counts outlive their project")
		}
	}
	k.MakeProject("p")
	if s := series(k, "p", stats.Query{}); s.Total.Turns != 0 || len(s.Data) != 30 {
		t.Errorf("a new project has %d turns in %d days", s.Total.Turns, len(s.Data))
	}

	made, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	acme, err := k.Tenants.Authenticate(t.Context(), made.AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sessions.AppendTurn(t.Context(), acme, ident.Once{}, ident.DefaultProject, turn); err != nil {
		t.Fatal(err)
	}
	if err := k.DeleteTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	write(k)
	if left := k.Everything("acme"); len(left) > 0 || k.Stats.Held() != 1 {
		t.Errorf("%d records in a tenant that is no more, %d counts held, want that of the other tenant", len(left), k.Stats.Held())
	}
}

// A quantile is within a sixteenth of the exact value.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	if stats.Quantile(nil, 50) != nil {
		t.Error("no durations have a median")
	}
	for range 2000 {
		us := make([]uint64, 1+r.IntN(60))
		for i := range us {
			us[i] = r.Uint64() >> r.IntN(64)
		}
		slices.Sort(us)
		for _, percent := range []uint64{1, 50, 95, 100} {
			want := us[(uint64(len(us))*percent+99)/100-1]
			got := stats.Quantile(us, percent)
			if got == nil || math.Abs(float64(*got)-float64(want)) > float64(want)/16 {
				t.Fatalf("%d %% of %v: %v, want about %d", percent, us, got, want)
			}
		}
	}
}

// How long windows took is reported per bucket and for the whole series.
func TestDurations(t *testing.T) {
	k := enginetest.New(t)
	p, err := k.Projects.Find(t.Context(), k.Admin, ident.DefaultProject)
	if err != nil {
		t.Fatal(err)
	}
	for day := range 2 {
		for us := range uint64(100) {
			k.Stats.Count(ident.DefaultTenant, p.Incarnation, stats.Window{Micros: (us + 1) * uint64(1+99*day)})
		}
		write(k)
		k.Advance(enginetest.ADay)
	}
	s := series(k, ident.DefaultProject, stats.Query{})
	for name, c := range map[string]struct {
		got  *uint64
		want float64
	}{
		"p50 of the first day": {s.Data[27].P50, 50}, "p95 of the first day": {s.Data[27].P95, 95},
		"p50 of the second": {s.Data[28].P50, 5000}, "p95 of the second": {s.Data[28].P95, 9500},
		"p50 of both": {s.Total.P50, 100}, "p95 of both": {s.Total.P95, 9000},
	} {
		if c.got == nil || math.Abs(float64(*c.got)-c.want) > c.want/16 {
			t.Errorf("%s is %v, want about %v", name, c.got, c.want)
		}
	}
	if s.Data[29].P50 != nil {
		t.Error("a day without windows has a median")
	}
}

// Invalid queries are refused; periods without counts produce no rows.
func TestQueries(t *testing.T) {
	k := enginetest.New(t)
	now := k.Clock()
	times := map[string]*time.Time{"none": nil}
	for name, by := range map[string]time.Duration{"now": 0, "hour": -time.Hour, "year": -365 * enginetest.ADay,
		"ages": -250 * 365 * enginetest.ADay, "later": 30 * enginetest.ADay} {
		at := now.Add(by)
		times[name] = &at
	}
	for _, from := range slices.Sorted(maps.Keys(times)) {
		for _, to := range slices.Sorted(maps.Keys(times)) {
			q := stats.Query{From: times[from], To: times[to], Bucket: stats.Hour}
			s, err := k.Stats.Series(t.Context(), k.Admin, ident.DefaultProject, q)
			if q.From != nil && q.To != nil && !q.From.Before(*q.To) {
				enginetest.RefusedWith(t, err, fault.Invalid, "out_of_range")
				continue
			}
			if err != nil || len(s.Data) > 91*24 || s.To.After(now.Add(time.Hour)) {
				t.Errorf("from %s to %s: %v, %d rows to %v", from, to, err, len(s.Data), s.To)
			}
		}
	}
	_, err := k.Stats.Series(t.Context(), k.Admin, ident.DefaultProject, stats.Query{Bucket: "week"})
	enginetest.RefusedWith(t, err, fault.Invalid, "invalid_value")
}
