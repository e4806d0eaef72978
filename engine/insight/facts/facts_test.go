package facts

import (
	"slices"
	"strings"
	"testing"
)

func TestLiterals(t *testing.T) {
	for text, want := range map[string][]string{
		"I am mia_li_3668, mail mia.li@example.com.":      {"mia_li_3668", "mia.li@example.com"},
		"Order #W2378156 of HAT271 and 4WQ150, not HELLO": {"#W2378156", "HAT271", "4WQ150"},
		"ZFAOKY is six capitals, ABCDE and ABCDEFG not":   {"ZFAOKY"},
		"on 2024-05-15 for $1,250.75 and 12 and 3":        {"2024-05-15", "250.75"},
		"see src/main.go, /etc/hosts and go.mod or x.py":  {"src/main.go", "/etc/hosts", "x.py"},
		"at 0xdeadbeef, 12345 and 1A2B3C4D5":              {"0xdeadbeef", "12345"},
		"größe.txt and straße@bücher.example":             {"größe.txt", "straße@bücher.example"},
		"": nil,
	} {
		if got := literals(text); !slices.Equal(got, want) {
			t.Errorf("%q has %q, not %q", text, got, want)
		}
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		text, literal string
		want          bool
	}{
		{"of 1234.", "1234", true},
		{"of 12345.", "1234", false},
		{"of 01234.", "1234", false},
		{"of 12345 and 1234", "1234", true},
		{"x#W12", "#W12", true}, // # is no part of a word
		{"", "1234", false},
		{"é1234", "1234", false},
	} {
		if got := holds(c.text, c.literal); got != c.want {
			t.Errorf("holds(%q, %q) is %v", c.text, c.literal, got)
		}
	}
}

func TestArguments(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"id":"a\nb","n":[1.50,{"x":true}]}`: "id\na\nb\nn\n1.50\nx\n",
		`{"id": "half`:                        `{"id": "half`,
		``:                                    ``,
	} {
		if got := argumentText(arguments); got != want {
			t.Errorf("%s gives %q, not %q", arguments, got, want)
		}
	}
}

// TestCount counts one step by hand. It calls with two literals and says a third. A fourth is in the system prompt, and a fifth is
// the step's own.
func TestCount(t *testing.T) {
	s := Source{History: "My user_id is mia_li_3668 and the reservation is 4WQ150, for 250 dollars.\n", System: "The year is 2024."}
	step, err := Parse([]byte(`{"role":"assistant","content":[{"type":"text","text":"I take 250 in 2024."}],"tool_calls":[{"id":"c",
		"function":{"name":"book","arguments":"{\"user_id\":\"mia_li_3668\",\"id\":\"4WQ150\",\"own\":\"NEW999\"}"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	need := s.Of(&step)
	if want := []string{"mia_li_3668", "4WQ150", "250"}; !slices.Equal(need.Literals, want) || need.Called != 2 {
		t.Fatalf("it needs %+v", need)
	}
	for _, c := range []struct {
		window string
		want   Count
	}{
		{s.History, Count{3, 3, 3, 1, 1}},
		{"user_id: mia_li_3668; reservation: 4WQ150", Count{3, 2, 2, 1, 1}},
		{"mia_li_3668" + strings.Repeat(" ", 100) + "reservation" + strings.Repeat(" ", 100) + "4WQ150", Count{3, 2, 0, 1, 1}},
		{"the reservation 4WQ150 for 250 dollars", Count{3, 2, 2, 1, 0}},
		{"", Count{3, 0, 0, 1, 0}},
	} {
		var got Count
		got.Add(need, &s, c.window)
		if got != c.want {
			t.Errorf("%q counts %+v, not %+v", c.window, got, c.want)
		}
	}
	text := Message{Text: "Your 250 dollars."}
	if need := s.Of(&text); need.Called != 0 || len(need.Literals) != 1 {
		t.Errorf("a text needs %+v", need)
	}
}

func TestShare(t *testing.T) {
	if Share(0, 0) != nil || *Share(1, 2) != .5 {
		t.Error("the share is wrong")
	}
}
