package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/server/strictjson"
)

type step struct {
	Policy string          `json:"policy"`
	Config json.RawMessage `json:"config,omitempty"`
}

type budget struct {
	MaxTokens *int    `json:"max_tokens"`
	Ratio     float64 `json:"ratio"`
}

type request struct {
	Session  string            `json:"session_id"`
	Explain  bool              `json:"explain"`
	Budget   budget            `json:"budget"`
	Pipeline []step            `json:"pipeline"`
	Messages []json.RawMessage `json:"messages"`
	Expires  *time.Time        `json:"expires_at"`
	Until    *time.Time        `json:"until" day:"end"`
	From     netip.Addr        `json:"from"`
	hidden   int               //lint:ignore U1000 no JSON may set it
}

func TestDecodeAccepts(t *testing.T) {
	d := strictjson.For[request]()
	seven := 7
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	day, end := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 23, 59, 59, 999_000_000, time.UTC)
	for body, want := range map[string]request{
		`{}`:   {},
		`null`: {},
		` {"session_id" : "a\u00e9\"b\\" , "explain":true } `: {Session: `aé"b\`, Explain: true},
		`{"session\u005fid":"x"}`:                             {Session: "x"},
		`{"session_id":null,"budget":null,"pipeline":null}`:   {},
		`{"from":"::1"}`: {From: netip.IPv6Loopback()},
		`{"from":null}`:  {},
		`{"budget":{"max_tokens":7,"ratio":0.5}}`:           {Budget: budget{&seven, 0.5}},
		`{"budget":{"max_tokens":7.0}}`:                     {Budget: budget{&seven, 0}},
		`{"budget":{"max_tokens":70e-1 },"session_id":"s"}`: {Session: "s", Budget: budget{&seven, 0}},
		`{"pipeline":[{"policy":"p","config":{"a":{"policy":1,"b":[]}}}]}`: {
			Pipeline: []step{{"p", json.RawMessage(`{"a":{"policy":1,"b":[]}}`)}}},
		`{"messages":[{"x":1,"x":2}, 3 ,null,"\\"]}`: {Messages: raws(`{"x":1,"x":2}`, `3`, `null`,
			`"\\"`)},
		`{"expires_at":"2026-01-02T03:04:05Z"}`:                      {Expires: &at},
		`{"expires_at":"2026-01-02T03:04:05", "session_id":"after"}`: {Expires: &at, Session: "after"},
		`{"expires_at":"2026-01-02"}`:                                {Expires: &day},
		`{"until":"2026-01-02","explain":true}`:                      {Until: &end, Explain: true},
	} {
		var got request
		if err := d.Decode([]byte(body), &got); err != nil {
			t.Errorf("%s: %v", body, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
	}
}

func raws(values ...string) []json.RawMessage {
	out := make([]json.RawMessage, len(values))
	for i, v := range values {
		out[i] = json.RawMessage(v)
	}
	return out
}

func TestDecodeNamesEveryFault(t *testing.T) {
	d := strictjson.For[request]()
	for body, want := range map[string]string{
		`{"a":1,"session_id":"s","b":{"c":[1,{"d":2}]}}`: "a: unknown field; b: unknown field",
		`{"Session_ID":"s"}`:                             "Session_ID: unknown field; did you mean `session_id`?",
		`{"hidden":1}`:                                   "hidden: unknown field",
		`{"":1}`:                                         "unknown field",
		`{"budget":{"max_token":1,"ratio":"x"}}`: "budget.max_token: unknown field; did you mean `max_tokens`?; " +
			"budget.ratio: must be a number",
		`{"pipeline":[{"policy":"a"},{"polcy":"b"}]}`: "pipeline[1].polcy: unknown field; did you mean `policy`?",
		`{"session_id":"a","session\u005fid":"b"}`:    "session_id: field given twice",
		`{"session_id":7,"explain":"yes","budget":[]}`: "session_id: must be a string; " +
			"explain: must be true or false; budget: must be an object",
		`{"messages":{}}`:                 "messages: must be an array",
		`{"budget":{"max_tokens":1.5}}`:   "budget.max_tokens: must be an integer",
		`{"budget":{"max_tokens":15e-1}}`: "budget.max_tokens: must be an integer",
		`{"message":1}`:                   "message: unknown field; did you mean `messages`?",
		`{"max_tokens":1}`:                "max_tokens: unknown field; it belongs to `budget`",
		`{"budget":{"explain":true}}`:     "budget.explain: unknown field; it belongs to the body itself",
		`{"policy":"p"}`:                  "policy: unknown field; it belongs to `pipeline`",
		`{"explian":true}`:                "explian: unknown field; did you mean `explain`?",
		`{"budget":{"max_tokens":99999999999999999999}}`: "budget.max_tokens: number 99999999999999999999 does not " +
			"fit the field",
		`{"expires_at":"tomorrow"}`: "expires_at: must be an RFC 3339 time or a day",
		`{"expires_at":5}`:          "expires_at: must be an RFC 3339 time or a day",
		`{"from":5}`:                "from: must be a string",
		`{"from":"here"}`:           "from: does not fit the field: ParseAddr(\"here\"): unable to parse IP",
		`[]`:                        "must be an object",
		`"x"`:                       "must be an object",
	} {
		var got request
		err := d.Decode([]byte(body), &got)
		if _, ok := errors.AsType[*strictjson.FaultsError](err); !ok || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestDecodePlacesSyntaxErrors(t *testing.T) {
	d := strictjson.For[request]()
	for body, want := range map[string][3]int{ // offset, line, column
		``:                            {0, 1, 1},
		`{`:                           {0, 1, 1},
		`{"a":1}}`:                    {7, 1, 8},
		`{} {}`:                       {3, 1, 4},
		"{\n  \"explain\": tru\n}":    {18, 2, 17},
		"{\"session_id\":\"a\xffb\"}": {16, 1, 17},
		"\ufeff{}":                    {0, 1, 1},
		`{"a":01}`:                    {6, 1, 7},
	} {
		var got request
		err := d.Decode([]byte(body), &got)
		syntax, ok := errors.AsType[*strictjson.SyntaxError](err)
		if !ok {
			t.Errorf("%q: %v", body, err)
			continue
		}
		if at := [3]int{syntax.Offset, syntax.Line, syntax.Column}; at != want {
			t.Errorf("%q: at %v, want %v (%v)", body, at, want, err)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	body := []byte(`{"` + strings.Repeat("x", 5000) + `":1`)
	for range 5000 {
		body = append(body, `,"y":{"z":[1,2,3]}`...)
	}
	var got request
	err := strictjson.For[request]().Decode(append(body, '}'), &got)
	faults, ok := errors.AsType[*strictjson.FaultsError](err)
	if !ok || len(faults.Faults) != strictjson.MaxFaults || faults.More != 5001-strictjson.MaxFaults {
		t.Fatalf("got %d faults and %d more", len(faults.Faults), faults.More)
	}
	if n := len(err.Error()); n > 8<<10 {
		t.Errorf("the answer is %d bytes long", n)
	}
}

// Decode must agree with encoding/json if that is strict enough, and never be more lenient.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"session_id":"a\\\"b"}`, `{"session_id":"\ud800"}`, `{"session\u005fid":1}`,
		`{"budget":{"max_tokens":1,"x":[{"y":"\\"}]},"pipeline":[{"policy":"p","config":{"a":[1,2,{"b":"}"}]}},null]}`,
		`{"messages":[{"role":"user","content":"]}\""},[],{},1e9,-0.5,true,null]}`,
		`{"expires_at":"2026-01-02T03:04:05","explain":false}`, `{"expires_at":"2026-01-02T03:04:05.5+02:00"}`,
		"{\"a\xff\":1}", `{"a":1,"a":2}`, `{"SESSION_ID":"x"}`, "\t{\r\n}", `{"":{"":""}}`, `{"explain":tru`, `{} x`,
	} {
		f.Add([]byte(seed))
	}
	d := strictjson.For[request]()
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		var got, want request
		err := d.Decode(body, &got)
		if !bytes.Equal(body, before) {
			t.Fatal("the body was changed")
		}
		lax := json.NewDecoder(bytes.NewReader(body))
		lax.DisallowUnknownFields()
		laxErr := lax.Decode(&want)

		if _, syntax := errors.AsType[*strictjson.SyntaxError](err); syntax == (json.Valid(body) && utf8Valid(body)) {
			t.Fatalf("valid JSON %v, but %v", !syntax, err)
		}
		if err == nil && laxErr != nil && got.Expires == nil {
			t.Fatalf("accepted what encoding/json refuses: %v", laxErr)
		}
		if err == nil && laxErr == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if faults, ok := errors.AsType[*strictjson.FaultsError](err); ok && laxErr == nil {
			for _, fault := range faults.Faults {
				// Only these are stricter than encoding/json: repeated names, and names in another case.
				if fault.Code == strictjson.WrongType || fault.Code == strictjson.InvalidTime {
					t.Fatalf("refused what encoding/json takes: %v", err)
				}
			}
		}
	})
}

func utf8Valid(b []byte) bool { return bytes.Equal(bytes.ToValidUTF8(b, nil), b) }

func BenchmarkDecode(b *testing.B) {
	d := strictjson.For[request]()
	for name, body := range map[string][]byte{
		"small": []byte(`{"session_id":"dashboard","budget":{"max_tokens":8000},"explain":true}`),
		"64KB":  []byte(`{"session_id":"s","messages":["` + strings.Repeat(`plain text with\nescapes `, 2700) + `"]}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				var got request
				if err := d.Decode(body, &got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Every number in a body must be one that all JSON readers can represent, however deep it is in a client's own
// values.
func TestUnreadableNumbers(t *testing.T) {
	d := strictjson.For[request]()
	digits := strings.Repeat("9", 50_000)
	for number, readable := range map[string]bool{
		"1e308": true, "-1.5E-300": true, "0e999": true, "0.000": true, strings.Repeat("9", 300): true,
		"1e309": false, "1e999999": false, "-1E+400": false, "1e-999999": false, digits: false, "0." + digits: false,
		strings.Repeat("9", 400): false,
	} {
		for _, body := range []string{
			`{"messages":[{"a":[1,{"b":[[` + number + `]]}]}]}`,
			`{"pipeline":[{"config":{"c":` + number + `}}]}`,
			`{"budget":{"ratio":` + number + `}}`,
		} {
			var got request
			err := d.Decode([]byte(body), &got)
			faults, _ := errors.AsType[*strictjson.FaultsError](err)
			if readable != (err == nil) || !readable && (faults == nil || faults.Faults[0].Code != strictjson.Unreadable) {
				t.Errorf("%.60s: %.200v", body, err)
			}
		}
	}
	var got request
	err := d.Decode([]byte(`{"budget":{"max_tokens":1e999999}}`), &got)
	if _, ok := errors.AsType[*strictjson.FaultsError](err); !ok {
		t.Error(err)
	}
}

// A fault's pointer is its position as defined in RFC 6901.
func TestPointers(t *testing.T) {
	d := strictjson.For[request]()
	var got request
	err := d.Decode([]byte(`{"pipeline":[{},{"a/b~c":1}],"budget":{"max_tokens":"x"}}`), &got)
	faults, ok := errors.AsType[*strictjson.FaultsError](err)
	if !ok || len(faults.Faults) != 2 || faults.Faults[0].Pointer != "/pipeline/1/a~1b~0c" ||
		faults.Faults[1].Pointer != "/budget/max_tokens" {
		t.Errorf("%+v", err)
	}
}
