package main

import (
	"fmt"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// Places count, not the numbers of turns: three turns were rewound here.
func Example() {
	result, err := mnemetest.Run(stripOldMedia, &mnemetest.Table{Config: map[string]any{"turns": 2},
		Records: []mnemetest.Record{
			{Turn: 1, Place: 1, Atom: 1, Role: mneme.User, Text: "What is this?", Flags: mneme.Image},
			{Turn: 2, Place: 2, Atom: 2, Role: mneme.User, Text: "And that?", Flags: mneme.Document | mneme.Pinned},
			{Turn: 6, Place: 3, Atom: 3, Role: mneme.User, Text: "And these?", Flags: mneme.Audio},
			{Turn: 7, Place: 4, Atom: 4, Role: mneme.User, Text: "Well?", Flags: mneme.Image | mneme.Mandatory},
		}})
	for _, op := range result.Ops {
		fmt.Printf("strip %d of record %d, %s\n", op.Argument, op.First, op.Reason)
	}
	fmt.Println("error:", err)
	// Output:
	// strip 7 of record 0, old_media: from before the newest 2 turns
	// error: <nil>
}
