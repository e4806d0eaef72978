package recall_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
)

// What is written one way is found when asked for another way, among memories with the other words.
func TestRecallFindsOtherSpellings(t *testing.T) {
	k := enginetest.New(t)
	for key, content := range map[string]string{
		"typo": "The parcel was received in the warehouse", "names": "Maria met Mario in Pisa",
		"compound": "Die Küchenschublade klemmt und das ist nicht gut", "lock": "Der Haustürschlüssel liegt unter der Matte",
		"cat": "昨日黒猫が来た", "dog": "白い犬", "camel": "call getUserDetails before", "snake": "call set_user_password after",
		"id": "ticket ABC-1234 is open", "joined": "part xyz9876 is missing", "price": "it costs 1,299.00 euros",
		"phone": "phone 555-1234567", "mail": "send an e-mail about wi-fi",
		"iso": "born 1987-05-07 in Rome", "german-date": "geboren am 9.6.1991 in Bonn", "us-date": "moved on June 21st, 2003",
		"slash": "expires 12/31/2029", "phrase": "the red door of the blue house", "words": "the blue door of the red house",
		"negation": "apple pie with cream", "other-pie": "cherry pie with cream", "prefix": "a photosynthetic organism",
		"hump": "parse XMLHttpRequest headers", "within": "Die Krankenversicherungskarte ist nicht da",
	} {
		k.Remember(memory.Spec{Key: key, Content: content})
	}
	cases := []struct{ query, want string }{ // all keys, best first; "…" means others after it, "*" any
		{"recieved parcle", "typo"}, {"warehuose", "typo"}, {"wharehouze", "typo"}, {"xeceived", ""},
		{"Marla", "names"}, {"Mara", "names"}, {"Pis", ""},
		{"Küche", "compound"}, {"Schublade", "compound"}, {"Schlüssel", "lock"}, {"Haustür", "lock"}, {"Versicherung", "within"},
		{"猫", "cat"}, {"犬", "dog"}, {"黒猫", "cat"}, {"鳥", ""},
		{"user details", "camel snake"}, {"get_user_details", "camel snake"}, {"getuserdetails", "camel"},
		{"setUserPassword", "snake camel"}, {"setuserpassword", "snake"}, {"http request", "hump"},
		{"abc1234", "id"}, {"ABC 1234", "id"}, {"ABC-1234", "id"}, {"XYZ-9876", "joined"}, {"xyz 9876", "joined"},
		{"1299", "price"}, {"1.299", "price"}, {"1'299,00", "price"}, {"5551234567", "phone"}, {"email", "mail"}, {"wifi", "mail"},
		{"7 May 1987", "iso …"}, {"May 7th, 1987", "iso …"}, {"7.5.1987", "iso …"}, {"in May 1987", "iso …"},
		{"7th of May 1987", "iso …"}, {"7 de mayo de 1987", "iso …"}, {"1987年5月7日", "iso …"}, {"1987年5月", "iso …"},
		{"1991-06-09", "german-date …"}, {"June 9, 1991", "german-date …"}, {"2003-06-21", "us-date …"},
		{"21.6.2003", "us-date …"}, {"31 December 2029", "slash …"},
		{`"red door"`, "phrase"}, {`"blue door"`, "words"}, {`"door of the red house"`, "words"}, {`"red pie"`, "*"},
		{"pie -apple", "other-pie"}, {"pie -cherry", "negation"}, {"pie with apple", "negation other-pie"}, {"-pie", "*"},
		{"photos*", "prefix"}, {"photosyn*", "prefix"}, {"photoq*", ""},
	}
	for _, how := range []string{"fresh", "in blocks"} {
		for _, c := range cases {
			got := k.Found(recall.Query{Query: c.query})
			want := strings.Fields(c.want)
			switch {
			case c.want == "*":
				if len(got) == 0 {
					t.Errorf("%s: %q finds nothing", how, c.query)
				}
			case strings.HasSuffix(c.want, "…") && len(got) > 0 && got[0] == want[0]:
			case len(want) == 0 && len(got) > 0, len(want) > 0 && (len(got) == 0 || got[0] != want[0]):
				t.Errorf("%s: %q finds %q, want %q", how, c.query, got, want)
			default:
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s: %q finds %q, want %q", how, c.query, got, want)
				}
			}
		}
		for query, as := range map[string]string{"recieved": "receiv", "Schublade": "kuchenschublad", "parcel": ""} {
			h := k.Search(recall.Query{Query: query}).Data
			if len(h) == 0 || strings.Join(h[0].Why.Terms[0].As, " ") != as {
				t.Errorf("%s: %q stands for %+v, want %q", how, query, h, as)
			}
		}
		fill(k)
	}
}

// A word that many texts contain is not a typing error. One that few contain may be one for a word that far more do.
func TestRecallTakesNoUsualWordForATypo(t *testing.T) {
	k := enginetest.New(t)
	for i := range 30 {
		k.Remember(memory.Spec{Key: fmt.Sprint("form", i), Content: fmt.Sprint("a form for number ", i)})
	}
	k.Remember(memory.Spec{Key: "from", Content: "the forn is broken"})
	k.Remember(memory.Spec{Key: "fork", Content: "a fork"})
	k.Drain()
	if got := k.Found(recall.Query{Query: "forn", Limit: 50}); len(got) != 31 {
		t.Errorf("the rare word finds %d", len(got))
	}
	if got := k.Found(recall.Query{Query: "form", Limit: 50}); len(got) != 30 {
		t.Errorf("the usual word finds %d", len(got))
	}
}

// Relative dates refer to the request's time.
func TestRecallKnowsRelativeDates(t *testing.T) {
	k := enginetest.New(t)
	start := k.Clock()
	for i := range 60 {
		k.Remember(memory.Spec{Key: fmt.Sprint("day", i), Content: fmt.Sprintf("standup notes of team q%c%cx", 'a'+i%9, 'k'+i/9)})
		k.Advance(24 * time.Hour)
	}
	now := start.AddDate(0, 0, 50)
	for _, how := range []string{"fresh", "in blocks"} {
		for query, day := range map[string]int{"standup notes of yesterday": 49, "standup today": 50,
			"standup three days ago": 47, "standup 10 days ago": 40, "Standup von gestern": 49, "standup vor zwei Tagen": 48,
			"standup hace 5 días": 45, "standup il y a 6 jours": 44} {
			got := k.Found(recall.Query{Query: query, Now: &now})
			if len(got) == 0 || got[0] != fmt.Sprint("day", day) {
				t.Errorf("%s: %q finds %v, want day %d first", how, query, got, day)
			}
		}
		monday := int(now.Weekday()+6) % 7
		for _, key := range k.Found(recall.Query{Query: "standup notes of last week", Now: &now, Limit: 7}) {
			var day int
			if _, err := fmt.Sscanf(key, "day%d", &day); err != nil || day < 50-monday-7 || day >= 50-monday {
				t.Errorf("%s: %s is not of last week", how, key)
			}
		}
		fill(k)
	}
}

// Tool calls are found by their arguments.
func TestRecallFindsCalls(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("please change it"),
		fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":
			{"name":"update_reservation","arguments":%q}}]}`,
			`{"reservation_id":"QX7Z2P","passengers":[{"last":"Lindqvist","miles":1234567}]}`),
		`{"role":"tool","tool_call_id":"c1","content":"done"}`)
	for _, how := range []string{"not indexed", "indexed"} {
		for _, query := range []string{"Lindqvist", "qx7z2p", "update reservation", "1234567", "updateReservation"} {
			got := k.Search(recall.Query{Query: query, Scope: "transcript", Limit: 1}).Data
			if len(got) != 1 || !strings.Contains(got[0].Content, "QX7Z2P") || got[0].Role != "assistant" {
				t.Errorf("%s: %q finds %+v", how, query, got)
			}
		}
		k.Drain()
	}
}
