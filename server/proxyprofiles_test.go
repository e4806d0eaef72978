package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder is a provider of Chat Completions that answers with given bodies and keeps what it was sent.
type recorder struct {
	*httptest.Server
	mu      sync.Mutex
	replies []string
	refuses string // calls whose body contains it are a 422; empty: none
	bodies  []string
	headers []http.Header
}

// startRecorder starts a recorder. A reply that begins with "data:" is a stream, every other one a whole body.
func startRecorder(t *testing.T, replies ...string) *recorder {
	r := &recorder{replies: replies}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies, r.headers = append(r.bodies, string(body)), append(r.headers, req.Header)
		if r.refuses != "" && strings.Contains(string(body), r.refuses) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"detail":[{"loc":["body","`+r.refuses+`"],"msg":"Extra inputs are not permitted"}]}`)
			return
		}
		reply := r.replies[min(len(r.bodies), len(r.replies))-1]
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(reply, "data:") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(r.Close)
	return r
}

// sent returns the messages of the request with this index, from 0.
func (r *recorder) sent(t *testing.T, n int) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var body struct{ Messages []json.RawMessage }
	if n >= len(r.bodies) || json.Unmarshal([]byte(r.bodies[n]), &body) != nil {
		t.Fatalf("request %d of %q", n, r.bodies)
	}
	out := make([]string, len(body.Messages))
	for i := range out {
		out[i] = string(body.Messages[i])
	}
	return out
}

// choice is a whole answer with a message and a reason why it ends.
func choice(message, reason string) string {
	return `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":` + message +
		`,"finish_reason":"` + reason + `"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}`
}

// profiled starts a server in front of a recorder whose upstream has a profile.
func profiled(t *testing.T, r *recorder, profile string) *site {
	t.Helper()
	s := inFront(t, r.URL)
	a := s.do("PATCH", "/api/v1/projects/default/settings", `{"upstreams":[{"name":"up","protocol":"openai","base_url":"`+r.URL+
		`/v1","allow_private":true,"profile":`+profile+`}]}`)
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return s
}

// say makes a call of a session in mode assemble.
func (s *site) say(more string, messages ...string) answer {
	return s.do("POST", "/v1/chat/completions", `{"model":"m",`+more+`"messages":[`+strings.Join(messages, ",")+`]}`,
		callHeaders("X-Mneme-Session", "s", "X-Mneme-Mode", "assemble")...)
}

// The messages of a turn with a tool. reasoned and dropped are the same, with and without its reasoning.
const (
	question1 = `{"role":"user","content":"look"}`
	reasoned  = `{"role":"assistant","content":"","reasoning_content":"I must look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	dropped   = `{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	result1   = `{"role":"tool","tool_call_id":"c1","content":"r"}`
	reply2    = `{"role":"assistant","content":"It is there."}`
	question2 = `{"role":"user","content":"thanks, and now?"}`
)

// TestReasoningGoesBackByProfile checks whose reasoning goes to the provider: in the open turn that of the client's
// messages, an empty text included and under the client's name, and before it what the client sends or the profile wants.
func TestReasoningGoesBackByProfile(t *testing.T) {
	t.Parallel()
	empty := strings.Replace(reasoned, "I must look.", "", 1)
	other := strings.Replace(reasoned, "reasoning_content", "reasoning", 1)
	for _, test := range []struct {
		name, profile, call, later, open, want string
	}{
		{"as sent", `{}`, reasoned, reasoned, `"reasoning_content":"I must look."`, `"reasoning_content":"I must look."`},
		{"as sent, dropped later", `{}`, reasoned, dropped, `"reasoning_content":"I must look."`, ``},
		{"as sent, dropped", `{}`, dropped, dropped, ``, ``},
		{"all, dropped later", `{"reasoning":"all"}`, reasoned, dropped, `"reasoning_content":"I must look."`, `"reasoning_content":"I must look."`},
		{"empty", `{}`, empty, empty, `"reasoning_content":""`, `"reasoning_content":""`},
		{"another name", `{}`, other, other, `"reasoning":"I must look."`, `"reasoning":"I must look."`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := startRecorder(t, choice(reasoned, "tool_calls"), choice(reply2, "stop"), choice(reply2, "stop"))
			s := profiled(t, r, test.profile)
			// These are for windows that programs ask for.
			if a := s.do("PATCH", "/api/v1/projects/default/settings", `{"reasoning":"content","tool_results":"markdown"}`); a.status != 200 {
				t.Fatalf("%s", a.body)
			}
			s.say("", question1)
			s.say("", question1, test.call, result1)
			a := s.say("", question1, test.later, result1, reply2, question2)
			if a.header.Get("X-Mneme-Matched") != "extend" || a.header.Get("X-Mneme-Stored") != "yes" {
				t.Errorf("%v", a.header)
			}
			for n, want := range map[int]string{1: test.open, 2: test.want} {
				sent := r.sent(t, n)
				if sent[2] != result1 {
					t.Errorf("call %d shows the result as %s", n, sent[2])
				}
				if got := sent[1]; want == "" && strings.Contains(got, "reasoning") || !strings.Contains(got, want) {
					t.Errorf("call %d sent %q, wanted %q", n, got, want)
				}
			}
		})
	}
}

// TestProfilesOfUpstreams checks the other members of a profile.
func TestProfilesOfUpstreams(t *testing.T) {
	t.Parallel()
	const delta = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}` + "\n\n"
	t.Run("stream_options", func(t *testing.T) {
		for profile, want := range map[string]bool{`{}`: true, `{"stream_options":"sent"}`: false} {
			r := startRecorder(t, delta+"data: [DONE]\n\n")
			profiled(t, r, profile).say(`"stream":true,`, question1)
			if got := strings.Contains(r.bodies[0], "include_usage"); got != want {
				t.Errorf("%s: the provider got %s", profile, r.bodies[0])
			}
		}
	})
	t.Run("done", func(t *testing.T) {
		for profile, want := range map[string]bool{`{}`: true, `{"done":"required"}`: false} {
			r := startRecorder(t, delta)
			s := profiled(t, r, profile)
			a := s.say(`"stream":true,`, question1)
			if d := s.decided(a); d.Stored == nil || *d.Stored != want || want != (string(a.body) == delta) {
				t.Errorf("%s: %+v %s", profile, d, a.body)
			}
		}
		whole := delta + "data: [DONE]\n" // without the last empty line
		s := profiled(t, startRecorder(t, whole), `{"done":"required"}`)
		a := s.say(`"stream":true,`, question1)
		if d := s.decided(a); d.Stored == nil || !*d.Stored || string(a.body) != whole {
			t.Errorf("%+v %q", d, a.body)
		}
	})
	t.Run("assistant_null", func(t *testing.T) {
		null := strings.Replace(dropped, `"content":""`, `"content":null`, 1)
		for profile, want := range map[string]string{`{}`: `"content":null`, `{"assistant_null":"empty"}`: `"content":""`} {
			r := startRecorder(t, choice(null, "tool_calls"), choice(reply2, "stop"))
			s := profiled(t, r, profile)
			s.say("", question1)
			s.say("", question1, null, result1)
			if got := r.sent(t, 1)[1]; !strings.Contains(got, want) {
				t.Errorf("%s: the provider got %s", profile, got)
			}
		}
	})
	t.Run("roles", func(t *testing.T) {
		for profile, want := range map[string]string{`{}`: "system", `{"roles":"system_first"}`: "user"} {
			r := startRecorder(t, choice(reply2, "stop"))
			s := profiled(t, r, profile)
			a := s.do("PATCH", "/api/v1/projects/default/settings", `{"history_max_tokens":140,"pipeline":[{"policy":"tool-pair-trim"}]}`)
			if a.status != 200 {
				t.Fatalf("%s", a.body)
			}
			history := []string{`{"role":"system","content":"You help."}`}
			for n := range 6 {
				history = append(history, fmt.Sprintf(`{"role":"user","content":"question %d: %s"}`, n, strings.Repeat("and more of it ", 8)))
				s.say("", history...)
				history = append(history, reply2)
			}
			roles := map[string]int{}
			for i, m := range r.sent(t, 5) {
				var o struct{ Role, Content string }
				if err := json.Unmarshal([]byte(m), &o); err != nil {
					t.Fatal(err)
				}
				if i > 0 && !slices.Contains(history, m) {
					roles[o.Role]++
				}
			}
			if len(roles) != 1 || roles[want] == 0 {
				t.Errorf("%s: Mneme's own notes have the roles %v: %q", profile, roles, r.sent(t, 5))
			}
		}
	})
}

// TestAudioGoesBack checks that what a model said is sent back under its id while the provider keeps it, and as its
// transcript after that.
func TestAudioGoesBack(t *testing.T) {
	t.Parallel()
	for expires, want := range map[string]string{"99999999999": `{"role":"assistant","content":null,"audio":{"id":"audio_1"}}`,
		"1": `{"role":"assistant","content":"Hello there."}`} {
		spoken := `{"role":"assistant","content":null,"audio":{"id":"audio_1","expires_at":` + expires + `,"data":"AAAA","transcript":"Hello there."}}`
		r := startRecorder(t, choice(spoken, "stop"), choice(reply2, "stop"))
		s := profiled(t, r, `{}`)
		s.say("", question1)
		a := s.say("", question1, `{"role":"assistant","audio":{"id":"audio_1"}}`, question2)
		if got := a.header.Get("X-Mneme-Matched"); got != "extend" {
			t.Errorf("the request is %q", got)
		}
		if got := r.sent(t, 1)[1]; got != want {
			t.Errorf("expires at %s: sent %s", expires, got)
		}
	}
}

// TestSettingsShowProfiles checks that settings say what each upstream's profile is, and where each value is from.
func TestSettingsShowProfiles(t *testing.T) {
	t.Parallel()
	s := inFront(t, "http://127.0.0.1:9", func(o *setup) {
		o.upstreams.Allowed.Hosts = append(o.upstreams.Allowed.Hosts, "*.mistral.ai", "api.deepseek.com")
	})
	a := s.do("PATCH", "/api/v1/projects/default/settings", `{"upstreams":[
		{"name":"deep","protocol":"openai","base_url":"https://api.deepseek.com/v1","profile":{"done":"required","encodings":["gzip"]}},
		{"name":"le","protocol":"openai","base_url":"https://API.Mistral.ai/v1","profile":{"stream_options":"add"}}]}`)
	if a.status != 200 {
		t.Fatalf("%s", a.body)
	}
	var got struct {
		Profiles map[string]map[string]struct{ Value, From string }
	}
	if err := json.Unmarshal(s.do("GET", "/api/v1/projects/default/settings", "").body, &got); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{"deep reasoning": "all host", "deep done": "required upstream", "deep encodings": "gzip upstream",
		"deep roles": "any default", "le stream_options": "add upstream", "le reasoning": "sent default", "le encodings": "identity default"} {
		up, member, _ := strings.Cut(at, " ")
		if o := got.Profiles[up][member]; o.Value+" "+o.From != want {
			t.Errorf("%s is %v, wanted %s", at, o, want)
		}
	}
	for _, wrong := range []string{`{"reasoning":"none"}`, `{"stream_options":true}`, `{"encodings":["deflate"]}`, `{"encodings":["gzip","gzip"]}`,
		`{"encodings":["identity","br"]}`, `{"unknown":"x"}`} {
		if a := s.do("PATCH", "/api/v1/projects/default/settings", `{"upstreams":[{"name":"x","protocol":"openai",
			"base_url":"https://api.deepseek.com/v1","profile":`+wrong+`}]}`); a.status != 422 {
			t.Errorf("%s: %d %s", wrong, a.status, a.body)
		}
	}
}
