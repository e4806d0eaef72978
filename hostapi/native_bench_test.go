package hostapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/policies"
	delegationfilter "github.com/seed-0906e6bc/mneme/policies/delegation-filter"
	depthcompress "github.com/seed-0906e6bc/mneme/policies/depth-compress"
	"github.com/seed-0906e6bc/mneme/policies/summarise"
	toolpairtrim "github.com/seed-0906e6bc/mneme/policies/tool-pair-trim"
	toolresultclear "github.com/seed-0906e6bc/mneme/policies/tool-result-clear"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// BenchmarkAgainstNative calls the built-in policies in the sandbox, with everything that isolates them (copying the
// request, fuel, limits, checking the plan, restoring the instance), and the same source files as native code over the
// same request bytes. Every policy finds work to do.
func BenchmarkAgainstNative(b *testing.B) {
	for _, messages := range []int{50, 1000} {
		b.Run(fmt.Sprint(messages, "-messages"), func(b *testing.B) {
			h := newHost(b, Options{})
			var steps []*bothWays
			for _, m := range policies.BuiltIn() {
				if windowPolicies[m.Name] != nil {
					steps = append(steps, newBothWays(b, h, m, messages))
				}
			}
			m := benchtest.Compare(b, 200, func(n int) {
				for range n {
					for _, s := range steps {
						if out := h.Run(b.Context(), s.call); out.Status != plan.StatusOK {
							b.Fatal(out)
						}
					}
				}
			}, func(n int) {
				for range n {
					for _, s := range steps {
						if _, err := s.native(); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
			b.ReportMetric(m.Subject.Seconds()*1e6, "sandbox-µs")
			b.ReportMetric(m.Baseline.Seconds()*1e6, "native-µs")
			b.ReportMetric(m.Ratio, "x-native")
		})
	}
}

// windowPolicies are the built-in policies that change windows by their messages' number and length.
var windowPolicies = map[string]mneme.Policy{"delegation-filter": delegationfilter.Assemble, "summarise": summarise.Assemble,
	"depth-compress": depthcompress.Assemble, "tool-pair-trim": toolpairtrim.Assemble,
	"tool-result-clear": toolresultclear.Assemble}

// bothWays is one call of a policy, in the sandbox and natively.
type bothWays struct {
	call          plan.Call
	policy        mneme.Policy
	request, plan []byte
	host          nativeHost
}

func (w *bothWays) native() (planned []byte, err error) {
	n, err := mneme.Run(w.policy, w.request, w.plan, w.host)
	return w.plan[:n], err
}

// newBothWays fails unless both ways return the same ops, and at least one.
func newBothWays(b *testing.B, h *Host, m policies.Module, messages int) *bothWays {
	b.Helper()
	loaded, err := h.Load(b.Context(), "", m.Wasm)
	if err != nil {
		b.Fatal(err)
	}
	settings := map[string]string{"depth-compress": `{"depth":8}`,
		"tool-result-clear": `{"trigger":500}`,
		"summarise":         `{"enabled":true,"threshold":8,"keep_last":4}`}[m.Name]
	config, err := loaded.Manifest.Config(json.RawMessage(settings))
	if err != nil {
		b.Fatal(err)
	}
	w := &bothWays{call: conversation(loaded.Digest, config, messages)}
	r := w.call.Request
	r.BudgetMessages, r.ViewerDelegation = 40, 1
	for i := range r.Records {
		r.Records[i].Delegation = r.Records[i].Turn % 4 // the viewer sees all of 0 and 1, and nothing of 2 and 3
	}
	w.policy = windowPolicies[m.Name]
	l, err := layoutOf(r)
	if err != nil {
		b.Fatal(err)
	}
	w.request, w.plan = mnemetest.Buffer(l.end), mnemetest.Buffer(int(l.size.plan()))
	w.host = nativeHost{w.call.Texts.(texts)}
	if err := encode(w.request, r, l); err != nil {
		b.Fatal(err)
	}
	planned, err := w.native()
	if err != nil {
		b.Fatal(err)
	}
	ops, err := decode(planned, asked{minor: abiMinor, maxText: h.limits.InsertedBytes}, reasons{})
	out := h.Run(b.Context(), w.call)
	if err != nil || len(ops) == 0 || !reflect.DeepEqual(ops, out.Ops) {
		b.Fatalf("%s: natively %v (%v), in the sandbox %v", m.Name, ops, err, out)
	}
	return w
}

// nativeHost implements the host functions for a native policy.
type nativeHost struct{ texts texts }

func (h nativeHost) Text(record, offset int, buf []byte) int {
	copy(buf, h.texts[record][offset:])
	return len(h.texts[record])
}

func (h nativeHost) Tokens(text string) int { return h.texts.Tokens([]byte(text), nil) }

func (h nativeHost) Find(record int, needle string) int {
	return strings.Index(h.texts[record], needle)
}

func (h nativeHost) Search(record, call, from int, needle string) int {
	text := ""
	if call == mneme.InText {
		text = h.texts[record]
	} else {
		c, ok, _ := h.texts.Call(record, call)
		if !ok {
			return -2
		}
		text = c.Arguments
	}
	at := strings.Index(text[min(from, len(text)):], needle)
	if at < 0 {
		return -1
	}
	return from + at
}

func (h nativeHost) Args(record, call, offset int, buf []byte) int {
	c, ok, _ := h.texts.Call(record, call)
	if !ok {
		return -1
	}
	copy(buf, c.Arguments[offset:])
	return len(c.Arguments)
}

func (h nativeHost) Name(record, call int, buf []byte) int {
	c, ok, _ := h.texts.Call(record, call)
	if !ok {
		return -1
	}
	copy(buf, c.Name)
	return len(c.Name)
}

func (h nativeHost) JSON(int, string, []byte) int { return -1 }
func (h nativeHost) Score(record int, query string) int {
	return h.texts.Score([]byte(h.texts[record]), []byte(query))
}

func (h nativeHost) Log(mneme.Level, string) {}
