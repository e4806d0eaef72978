package main

import (
	"fmt"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

func Example() {
	table := &mnemetest.Table{Config: map[string]any{"turns": 1, "questions": 1}}
	for turn := range uint32(4) {
		table.Records = append(table.Records, mnemetest.Record{Turn: turn + 1, Atom: 2 * turn, Role: mneme.User, Text: "Where is A100?"},
			mnemetest.Record{Turn: turn + 1, Atom: 2*turn + 1, Role: mneme.Assistant, Text: "In B200."})
	}
	result, err := mnemetest.Run(lastTurns, table)
	for _, op := range result.Ops {
		fmt.Printf("op %d for records %d to %d, argument %d\n", op.Code, op.First, op.Last, op.Argument)
	}
	fmt.Println("error:", err)
	// Output:
	// op 1 for records 0 to 3, argument 0
	// op 2 for records 4 to 5, argument 32
	// op 10 for records 0 to 5, argument 400
	// error: <nil>
}
