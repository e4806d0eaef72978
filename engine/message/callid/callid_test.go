package callid_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/callid"
)

func TestShort(t *testing.T) {
	responses := "fc_" + strings.Repeat("0", 50) // as long as ids in Responses
	short := callid.Short(responses, callid.MostInChat)
	if len(short) != 40 || short == callid.Short(responses+"1", callid.MostInChat) {
		t.Errorf("%q", short)
	}
	if got := callid.Short(responses, callid.MostInResponses); got != responses {
		t.Errorf("an id that fits became %q", got)
	}
	if got := callid.Short(short, callid.MostInResponses); got == short {
		t.Error("an id that looks like a shortened one could be taken for that of another call")
	}
}

// FuzzShort checks that two ids are never mapped to one, and that long ids become short enough.
func FuzzShort(f *testing.F) {
	f.Add("call_1", "call_2")
	f.Add(strings.Repeat("a", 41), strings.Repeat("a", 42))
	f.Add(strings.Repeat("a", 41), callid.Short(strings.Repeat("a", 41), 40))
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, most := range []int{callid.MostInChat, callid.MostInResponses} {
			x, y := callid.Short(a, most), callid.Short(b, most)
			if len(x) > most || (x == y) != (a == b) {
				t.Errorf("%q and %q became %q and %q", a, b, x, y)
			}
		}
	})
}

var legal = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// FuzzName checks that every name becomes a legal one, that legal names do not change, and that the own name is found
// again.
func FuzzName(f *testing.F) {
	for _, name := range []string{"lookup", "files.read", "files_read", "日本", "", strings.Repeat("x", 65), "a b\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		mapped := callid.Name(name)
		if !legal.MatchString(mapped) || legal.MatchString(name) && mapped != name {
			t.Errorf("%q became %q", name, mapped)
		}
		var own callid.Own
		own.Learn(name)
		if got, known := own[mapped]; known != (mapped != name) || known && got != name {
			t.Errorf("%q is remembered as %q", name, got)
		}
	})
}

func TestOwnIsBounded(t *testing.T) {
	var own callid.Own
	for i := range 1000 {
		own.Learn("t." + strings.Repeat("x", i%300) + "é")
	}
	if len(own) != 256 {
		t.Errorf("%d names are remembered", len(own))
	}
}
