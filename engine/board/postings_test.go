package board_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/board"
)

func of(numbers ...uint64) (b board.Block) {
	for _, n := range numbers {
		b.Set(n)
	}
	return b
}

func ExampleBlock() {
	red, round := of(1024, 1027, 1030), of(1027, 1030, 2047) // all of block 1
	both := red
	both.And(&round)
	red.AndNot(&round)
	fmt.Println(both.Numbers(1), both.Count(), red.Numbers(1))
	// Output: [1027 1030] 2 [1024]
}

func ExampleWords() {
	fmt.Printf("%q\n", board.Words("The Deploy, the rollback (v2): 部署", 8))
	// Output: ["the" "deploy" "rollback" "v2" "部" "署"]
}

// TestWordsAreBounded checks the limits of Words in words and in bytes, also if the last byte cuts a character.
func TestWordsAreBounded(t *testing.T) {
	if got := board.Words("a b c d", 3); len(got) != 3 {
		t.Errorf("%q has more than 3 words", got)
	}
	if got := board.Words("x"+strings.Repeat("é", 40), 1); len(got[0]) != 63 {
		t.Errorf("%q has %d bytes", got[0], len(got[0]))
	}
}

// TestBlockIsASet compares a block with a sorted list, and decodes what it encodes, around every size at which the
// encoding changes.
func TestBlockIsASet(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		block := r.Uint64N(1 << 40)
		var b board.Block
		list := map[uint64]bool{}
		for range []int{0, 1, 62, 63, 64, 1500}[seed%6] {
			n := block*board.Size + r.Uint64N(board.Size)
			b.Set(n)
			if r.IntN(4) == 0 {
				b.Clear(n)
				delete(list, n)
				continue
			}
			list[n] = true
		}
		back, ok := board.Decode(b.Encode())
		if !ok || back != b {
			t.Fatalf("seed %d: %d elements are not read back", seed, b.Count())
		}
		first, last := block*board.Size+r.Uint64N(board.Size), block*board.Size+r.Uint64N(2*board.Size)
		var want []uint64
		for n := range list {
			if n >= first && n <= last {
				want = append(want, n)
			}
		}
		slices.Sort(want)
		b.Between(block, first, last)
		if got := b.Numbers(block); !slices.Equal(got, want) || b.Count() != len(want) {
			t.Fatalf("seed %d: from %d to %d: got %v, want %v", seed, first, last, got, want)
		}
	}
}

// TestDecodeRefuses lists bytes that Encode never produces.
func TestDecodeRefuses(t *testing.T) {
	for _, data := range [][]byte{{1}, {4, 0}, make([]byte, 127), make([]byte, 130)} {
		if _, ok := board.Decode(data); ok {
			t.Errorf("%d bytes are taken for a block", len(data))
		}
	}
}
