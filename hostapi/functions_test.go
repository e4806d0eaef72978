package hostapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// hostGuest imports all host functions of mneme, in the order of the constants below.
func hostGuest(assemble []byte, data ...datum) guest {
	i32r := []byte{i32t}
	of := func(name string, params int, results []byte) fnImport {
		return fnImport{"mneme", name, []byte(strings.Repeat("\x7f", params)), results}
	}
	return guest{
		imports: []fnImport{
			of("text", 4, i32r), of("tokens", 2, i32r), of("find", 3, i32r), of("log", 3, nil), of("fail", 2, nil),
			of("args", 5, i32r), of("name", 4, i32r), of("score", 3, i32r), of("json", 5, i32r),
			of("search", 5, i32r),
		},
		data: data, assemble: assemble,
	}
}

const (
	fnText   = 0
	fnTokens = 1
	fnFind   = 2
	fnLog    = 3
	fnFail   = 4
	fnArgs   = 5
	fnName   = 6
	fnScore  = 7
	fnJSON   = 8
	fnSearch = 9
)

func TestHostFunctions(t *testing.T) {
	for name, c := range map[string]struct {
		code []byte
		want string
	}{
		"text":              {call(fnText, 0, 0, 1024, 64), "returned -12"},
		"text cut":          {call(fnText, 0, 0, 1024, 3), "returned -12"},
		"text from the end": {call(fnText, 0, 11, 1024, 3), "returned -12"},
		"text beyond":       {call(fnText, 0, 1<<31-1, 1024, 3), "returned -12"},
		"text measured":     {call(fnText, 1, 0, 0, 0), "returned -7"},
		"tokens": {cat(call(fnText, 0, 0, 1024, 64), ins(opDropValue), call(fnTokens, 1024, 11)),
			"returned -3"},
		"no tokens":      {call(fnTokens, 0, 0), "returned -1"},
		"find":           {call(fnFind, 0, 16, 5), "returned -7"},
		"search":         {cat(call(fnSearch, 0, -1, 0, 16, 5), call(fnSearch, 0, -1, 7, 16, 5), ins(opAdd)), "returned -6"}, // 6 and -1
		"search a call":  {call(fnSearch, 0, 0, 0, 16, 5), "returned -14"},
		"search no call": {cat(call(fnSearch, 0, 1, 0, 16, 5), konst(3), ins(opAdd)), "returned -2"},
		"search nowhere": {cat(call(fnSearch, 9, -1, 0, 16, 5), konst(3), ins(opAdd)), "returned -2"},
		"search beyond":  {cat(call(fnSearch, 0, -1, 1<<31-1, 16, 5), konst(3), ins(opAdd)), "returned -3"},
		"find the empty": {call(fnFind, 0, 0, 0), "returned -1"},
		"args":           {call(fnArgs, 0, 0, 0, 1024, 64), "returned -21"},
		"args cut":       {call(fnArgs, 0, 0, 3, 1024, 2), "returned -21"},
		"args beyond":    {call(fnArgs, 1, 0, 1<<31-1, 1024, 2), "returned -16"},
		"name":           {call(fnName, 0, 0, 1024, 64), "returned -5"},
		"name measured":  {call(fnName, 1, 0, 0, 0), "returned -5"},
		"score":          {call(fnScore, 0, 16, 5), "returned -2"},
		"score by none":  {call(fnScore, 0, 0, 0), "returned -1"},
	} {
		out := runGuest(t, Options{}, hostGuest(show(c.code), datum{16, []byte("world")}))
		if out.Status != plan.StatusAuthorError || !strings.Contains(out.Detail, c.want) {
			t.Errorf("%s: %s: %s", name, out.Status, out.Detail)
		}
	}
	for name, code := range map[string][]byte{
		"text of no record":      call(fnText, 2, 0, 1024, 64),
		"text of a negative one": call(fnText, -1, 0, 1024, 64),
		"find in no record":      call(fnFind, 2, 16, 5),
		"find what is not there": call(fnFind, 1, 16, 5),
		"args of no record":      call(fnArgs, 2, 0, 0, 1024, 64),
		"args of no call":        call(fnArgs, 0, 1, 0, 1024, 64),
		"args of a negative one": call(fnArgs, 0, -1, 0, 1024, 64),
		"name of no call":        call(fnName, 0, 1, 1024, 64),
		"score in no record":     call(fnScore, -1, 16, 5),
	} {
		out := runGuest(t, Options{}, hostGuest(code, datum{16, []byte("world")}))
		if out.Status != plan.StatusAuthorError || !strings.Contains(out.Detail, "returned -1") {
			t.Errorf("%s: %s: %s", name, out.Status, out.Detail)
		}
	}
}

func TestTextIsCopied(t *testing.T) {
	b := planBytes("...........", opBytes(6, 0, 0, 0, 48, 11))
	code := cat(call(fnText, 0, 6, planArena+48, 5), ins(opDropValue), konst(int32(len(b))))
	out := runGuest(t, Options{}, hostGuest(code, datum{planArena, b}))
	if out.Status != plan.StatusOK || out.Ops[0].Text != "world......" {
		t.Errorf("%+v", out)
	}
}

// Whatever a guest passes, the call ends with an error that names the function, and the host continues.
func TestHostFunctionsRefuseBadArguments(t *testing.T) {
	const end = 3 * 65536
	for name, c := range map[string]struct {
		code []byte
		want string
	}{
		"text offset": {call(fnText, 0, -1, 0, 8), "mneme.text: offset -1 is negative"},
		"text cap":    {call(fnText, 0, 0, 0, -8), "mneme.text: length -8 is negative"},
		"text ptr": {call(fnText, 0, 0, end-4, 8),
			"mneme.text: 8 bytes at 196604 pass the end of memory at 196608"},
		"text far ptr":   {call(fnText, 0, 0, -1, 8), "mneme.text: 8 bytes at 4294967295"},
		"text most":      {call(fnText, 0, 0, -1, 1<<31-1), "mneme.text: 2147483647 bytes at 4294967295"},
		"tokens ptr":     {call(fnTokens, end, 1), "mneme.tokens: 1 bytes at 196608"},
		"tokens len":     {call(fnTokens, 0, -1), "mneme.tokens: length -1"},
		"find ptr":       {call(fnFind, 0, end, 1), "mneme.find: 1 bytes at 196608"},
		"find len":       {call(fnFind, 0, 0, -1<<31), "mneme.find: length -2147483648"},
		"log level":      {cat(call(fnLog, 4, 0, 0), konst(0)), "mneme.log: level 4 is not 0 to 3"},
		"negative level": {cat(call(fnLog, -1, 0, 0), konst(0)), "mneme.log: level -1 is not 0 to 3"},
		"log ptr":        {cat(call(fnLog, 0, -1, 9), konst(0)), "mneme.log: 9 bytes at 4294967295"},
		"log len":        {cat(call(fnLog, 0, 0, -9), konst(0)), "mneme.log: length -9"},
		"fail ptr":       {cat(call(fnFail, end, 1), konst(-1)), "mneme.fail: 1 bytes at 196608"},
		"fail len":       {cat(call(fnFail, 0, -1), konst(-1)), "mneme.fail: length -1"},
		"args offset":    {call(fnArgs, 0, 0, -1, 0, 8), "mneme.args: offset -1 is negative"},
		"args ptr":       {call(fnArgs, 0, 0, 0, end-4, 8), "mneme.args: 8 bytes at 196604"},
		"name cap":       {call(fnName, 0, 0, 0, -8), "mneme.name: length -8"},
		"score ptr":      {call(fnScore, 0, end, 1), "mneme.score: 1 bytes at 196608"},
		"score len":      {call(fnScore, 0, 0, -1<<31), "mneme.score: length -2147483648"},
	} {
		out := runGuest(t, Options{}, hostGuest(c.code))
		if out.Status != plan.StatusTrap || !strings.Contains(out.Detail, c.want) {
			t.Errorf("%s: %s: %s", name, out.Status, out.Detail)
		}
	}
}

func TestHostQuotas(t *testing.T) {
	calls, text, log, inserted := DefaultLimits(), DefaultLimits(), DefaultLimits(), DefaultLimits()
	calls.HostCalls, text.TextBytes, log.LogBytes, inserted.InsertedBytes = 2, 21, 23, 3
	two := cat(call(fnText, 0, 0, 1024, 64), ins(opDropValue), call(fnText, 0, 0, 1024, 64), ins(opDropValue))
	args := call(fnArgs, 0, 0, 0, 1024, 64)
	insert := planBytes("text", opBytes(6, 0, 0, 0, 48, 4))
	for name, c := range map[string]struct {
		limits Limits
		guest  guest
		want   string
	}{
		"calls":    {calls, hostGuest(cat(two, call(fnText, 0, 0, 0, 0))), "mneme.text: more than 2 host calls"},
		"copied":   {text, hostGuest(cat(two, konst(0))), "mneme.text: more than 21 bytes of text"},
		"searched": {text, hostGuest(cat(call(fnFind, 0, 0, 0), call(fnFind, 0, 0, 0), ins(opAdd))), "mneme.find"},
		"counted":  {text, hostGuest(call(fnTokens, 0, 22)), "mneme.tokens"},
		"args": {text, hostGuest(cat(args, ins(opDropValue), args, ins(opDropValue), args, call(fnName, 0, 0, 1024, 64), ins(opAdd))),
			"mneme.name: more than 61 bytes of text"}, // 21, and twice the arguments' 20
		"scored": {text, hostGuest(call(fnScore, 0, 16, 11)), "mneme.score"},
		"logged": {log, hostGuest(cat(call(fnLog, 1, 0, 4), call(fnFail, 0, 4), konst(-1))),
			"mneme.fail: more than 23 bytes"},
		"inserted": {inserted, returnsPlan(insert), "exceed 3 bytes"},
	} {
		out := runGuest(t, Options{Limits: c.limits}, c.guest)
		if out.Status != plan.StatusHostQuota || !strings.Contains(out.Detail, c.want) {
			t.Errorf("%s: %s: %s", name, out.Status, out.Detail)
		}
	}
	if out := runGuest(t, Options{Limits: calls}, hostGuest(cat(two, konst(0)))); out.Status != plan.StatusOK {
		t.Errorf("two calls of two: %+v", out)
	}
}

func TestHostWorkCostsFuel(t *testing.T) {
	limits := DefaultLimits()
	limits.Fuel, limits.FuelPerRecord = 10_000, 0
	out := runGuest(t, Options{Limits: limits}, hostGuest(call(fnTokens, 0, 10_000)))
	if out.Status != plan.StatusFuelExhausted || !strings.Contains(out.Detail, "mneme.tokens: more than 10000 fuel") {
		t.Errorf("%+v", out)
	}
}

// Reading a part of a call is charged like a text of that length, once if it is read in pieces. Scoring is charged for
// splitting text and query into words, but only for as much as it reads.
func TestChargesOfReading(t *testing.T) {
	cost := func(record string, code ...[]byte) uint64 {
		h := newHost(t, Options{})
		c := twoRecords(mustLoad(t, h, hostGuest(cat(append(code, konst(0))...)).build()))
		c.Texts = texts{record, ""}
		out := h.Run(t.Context(), c)
		if out.Status != plan.StatusOK {
			t.Fatal(out)
		}
		return out.Fuel - fuelPerCall*uint64(len(code))
	}
	drop := func(code []byte) []byte { return cat(code, ins(opDropValue)) }
	near := func(what string, got, want uint64) {
		if got < want || got > want+60 { // some instructions of the guest
			t.Errorf("%s costs %d, want %d", what, got, want)
		}
	}
	const n = 8000
	text := strings.Repeat("a", n)
	wrapped := uint64(n + len(`{"of":""}`))
	near("text", cost(text, drop(call(fnText, 0, 0, 1024, n))), 2*n/bytesPerFuel)
	near("args", cost(text, drop(call(fnArgs, 0, 0, 0, 1024, n))), (wrapped+n)/bytesPerFuel)
	near("args in pieces", cost(text, drop(call(fnArgs, 0, 0, 0, 1024, n/2)), drop(call(fnArgs, 0, 0, n/2, 1024, n/2))),
		(wrapped+n)/bytesPerFuel)
	near("args after a text", cost(text, drop(call(fnArgs, 0, 0, 0, 0, 0)), drop(call(fnText, 0, 0, 0, 0)),
		drop(call(fnArgs, 0, 0, 0, 0, 0))), (2*wrapped+n)/bytesPerFuel)
	near("name", cost(text, drop(call(fnName, 0, 0, 1024, 64))), 0)
	near("score", cost(text, drop(call(fnScore, 0, 16, 40))), n/bytesPerFuel+(n+40)/bytesPerFuel+(n+40)*fuelPerAnalysed)
	const most = scoredText + scoredQuery
	near("score of much", cost(strings.Repeat("a", 1<<20), drop(call(fnScore, 0, 16, 50_000))),
		(1<<20+most)/bytesPerFuel+most*fuelPerAnalysed)
}

func TestLogAndFail(t *testing.T) {
	data := datum{64, []byte("warn\xffno good")}
	out := runGuest(t, Options{}, hostGuest(cat(call(fnLog, 2, 64, 5), call(fnFail, 69, 7), konst(-3)), data))
	if out.Status != plan.StatusAuthorError || out.Detail != "no good" {
		t.Errorf("%s: %s", out.Status, out.Detail)
	}
	if len(out.Log) != 1 || out.Log[0] != (plan.LogLine{Level: 2, Message: "warn\uFFFD"}) {
		t.Errorf("%+v", out.Log)
	}
}

func TestHostFunctionsBeforeTheCall(t *testing.T) {
	for name, code := range map[string][]byte{
		"text": cat(call(fnText, 0, 0, 0, 0), ins(opDropValue)), "tokens": cat(call(fnTokens, 0, 0), ins(opDropValue)),
		"find": cat(call(fnFind, 0, 0, 0), ins(opDropValue)), "log": call(fnLog, 0, 0, 0),
		"args": cat(call(fnArgs, 0, 0, 0, 0, 0), ins(opDropValue)), "name": cat(call(fnName, 0, 0, 0, 0), ins(opDropValue)),
		"score": cat(call(fnScore, 0, 0, 0), ins(opDropValue)), "search": cat(call(fnSearch, 0, -1, 0, 0, 0), ins(opDropValue)),
	} {
		g := hostGuest(nil)
		g.initialize = code
		_, err := newHost(t, Options{}).Load(t.Context(), "t", g.build())
		var refusal *plan.Refusal
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "mneme."+name+": called before mneme_assemble") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// brokenTexts is a store that cannot be read.
type brokenTexts struct{ texts }

func (brokenTexts) Text(int) ([]byte, error) { return nil, errors.New("disk gone") }

func TestFailureOfTheHostIsNotTheGuests(t *testing.T) {
	h := newHost(t, Options{})
	c := twoRecords(mustLoad(t, h, hostGuest(call(fnText, 0, 0, 0, 0)).build()))
	c.Texts = brokenTexts{}
	if out := h.Run(t.Context(), c); out.Status != plan.StatusUnavailable ||
		!strings.Contains(out.Detail, "disk gone") {
		t.Errorf("%+v", out)
	}
	c.Texts = texts{} // record 0 is in the table but not in the texts: a bug of the host
	out := h.Run(t.Context(), c)
	if out.Status != plan.StatusUnavailable || !strings.Contains(out.Detail, "the host failed") {
		t.Errorf("%+v", out)
	}
}
