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
		"find the empty": {call(fnFind, 0, 0, 0), "returned -1"},
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

// Whatever a guest passes, the call ends in words that name the function, and the host goes on.
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

// brokenTexts stands for a store that cannot be read.
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
	c.Texts = texts{} // record 0 is in the table but not in the texts: a bug of the host's
	out := h.Run(t.Context(), c)
	if out.Status != plan.StatusUnavailable || !strings.Contains(out.Detail, "the host failed") {
		t.Errorf("%+v", out)
	}
}
