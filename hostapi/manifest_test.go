package hostapi

import (
	"strings"
	"testing"
)

// TestManifestLimits checks each limit by itself, and that commas and brackets within strings do not count.
func TestManifestLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, test := range []struct{ raw, words string }{
		{`{"description":"` + strings.Repeat("d", maxManifestBytes) + `"}`, "bytes"},
		{`{"tests":[0` + strings.Repeat(",0", maxManifestValues) + `]}`, "values"},
		{nested(maxManifestNesting + 1), "levels of nesting"},
		{nested(maxManifestNesting), ""},
		{`{"description":"` + strings.Repeat(`\",[{`, maxManifestValues) + `"}`, ""},
		{`{"tests":[0` + strings.Repeat(",0", maxManifestValues-10) + `]}`, ""},
	} {
		refusal := limitManifest([]byte(test.raw))
		if test.words == "" && refusal != nil || test.words != "" && (refusal == nil ||
			!strings.HasSuffix(strings.Split(refusal.Detail, ",")[0], test.words) || refusal.Found <= refusal.Limit) {
			t.Errorf("%.40s: %v, want %q", test.raw, refusal, test.words)
		}
	}
}
