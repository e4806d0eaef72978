package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestMeasuredTurn checks that the turn of --writes has the size that docs/BENCHMARKS.md names.
func TestMeasuredTurn(t *testing.T) {
	b, err := json.Marshal(measuredTurn())
	if err != nil || len(b) < 2150 || len(b) > 2250 {
		t.Errorf("the turn has %d bytes, error %v; want 2.2 KB", len(b), err)
	}
}

// TestDeviceBytes checks that what is written to the disk of a folder is known and grows.
func TestDeviceBytes(t *testing.T) {
	folder := t.TempDir()
	before, err := deviceBytes(folder)
	if err != nil {
		t.Skip(err)
	}
	f, err := os.Create(filepath.Join(folder, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 1 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if after, err := deviceBytes(folder); err != nil || after <= before {
		t.Errorf("%.0f bytes are counted after %d were synced, error %v", after-before, size, err)
	}
}

func TestMedian(t *testing.T) {
	for want, of := range map[float64][]float64{3: {5, 3, 1}, 2.5: {4, 1, 2, 3}, 7: {7}} {
		before := slices.Clone(of)
		if got := median(of); got != want || !slices.Equal(of, before) {
			t.Errorf("the median of %v is %v, and %v is left", before, got, of)
		}
	}
}

// TestWork checks the commands of each row for generated transcripts: turns begin with a user's message, each round
// has separate sessions, and memories and questions are not empty.
func TestWork(t *testing.T) {
	t.Setenv("MNEME_TESTDATA", "")
	all, err := transcripts()
	if err != nil {
		t.Fatal(err)
	}
	turns := whole(all)
	for i, t1 := range turns {
		var m struct{ Role string }
		if err := json.Unmarshal(t1[0], &m); err != nil || m.Role != "user" {
			t.Errorf("turn %d begins with %s", i, t1[0])
		}
		if !t1.closed() {
			t.Errorf("turn %d has calls without results, or results of other calls", i)
		}
		for _, m := range t1 {
			if again, err := legible(m); err != nil || !bytes.Equal(again, m) {
				t.Errorf("peers cannot read %s of turn %d: %v", m, i, err)
			}
		}
	}
	if len(turns) < 100 {
		t.Errorf("there are %d turns", len(turns))
	}
	sessions := map[string]bool{}
	for round := range 3 {
		mine := map[string]bool{}
		for _, c := range appends(all, round, 100) {
			mine[c.Session] = true
		}
		for session := range mine {
			if sessions[session] {
				t.Errorf("session %s is of two rounds", session)
			}
			sessions[session] = true
		}
	}
	texts := memoryTexts(turns, 2000)
	if distinct := slices.Compact(slices.Sorted(slices.Values(texts))); len(distinct) != len(texts) {
		t.Errorf("%d of %d texts are distinct", len(distinct), len(texts))
	}
	for _, c := range searches(texts, 3, 50) {
		if c.Text == "" {
			t.Error("a question is empty")
		}
	}
}

// TestFill checks that a session gets the expected number of messages, in whole turns.
func TestFill(t *testing.T) {
	t.Setenv("MNEME_TESTDATA", "")
	all, err := transcripts()
	if err != nil {
		t.Fatal(err)
	}
	var got counting
	if err := fill(&got, "s", whole(all), 1000); err != nil || got.messages < 1000 || got.messages > 1100 {
		t.Errorf("%d messages, %v", got.messages, err)
	}
}

// counting counts its input.
type counting struct {
	system
	messages int
}

func (c *counting) do(one command) (float64, error) {
	c.messages += len(one.Messages)
	return 0, nil
}

// TestEach checks that each piece is done once, and that an error is returned at the end.
func TestEach(t *testing.T) {
	did := make([]int32, 1000)
	if err := each(10, len(did), func(i int) error { did[i]++; return nil }); err != nil {
		t.Fatal(err)
	}
	for i, n := range did {
		if want := int32(1); i < 10 && n != 0 || i >= 10 && n != want {
			t.Errorf("%d was done %d times", i, n)
		}
	}
	if err := each(0, 100, func(i int) error {
		if i == 50 {
			return fmt.Errorf("fifty")
		}
		return nil
	}); err == nil || err.Error() != "fifty" {
		t.Errorf("the error is %v", err)
	}
}
