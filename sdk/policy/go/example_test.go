package mneme_test

import (
	"fmt"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// stubOldErrors replaces failed tool results of earlier turns by a short marker.
func stubOldErrors(req *mneme.Request, plan *mneme.Plan) error {
	why := plan.Text("stale_error: failed in an earlier turn")
	for i := range req.Len() {
		r := req.Record(i)
		if r.Flags.Has(mneme.ErrorResult) && !r.Flags.Has(mneme.Mandatory) && r.Turn < req.NewestTurn {
			plan.Stub(i, i, why)
		}
	}
	return nil
}

// A module's main package registers its policy and does nothing else.
func ExampleRegister() {
	_ = mneme.Register(stubOldErrors) // in a module: var _ = mneme.Register(stubOldErrors)
}

// Policies can be tested as plain Go functions: the input is a table, the output a list of ops.
func ExamplePolicy() {
	result, err := mnemetest.Run(stubOldErrors, &mnemetest.Table{Records: []mnemetest.Record{
		{Turn: 1, Seq: 1, Atom: 1, Role: mneme.User, Text: "Book the flight."},
		{Turn: 1, Seq: 2, Atom: 2, Role: mneme.Assistant, Kind: mneme.Call},
		{Turn: 1, Seq: 3, Atom: 2, Role: mneme.Tool, Kind: mneme.Result, Flags: mneme.ErrorResult, Text: "time-out …"},
		{Turn: 2, Seq: 4, Atom: 3, Role: mneme.User, Text: "Try again.", Flags: mneme.Mandatory},
	}})
	fmt.Println(result.Ops[0].First, result.Ops[0].Reason, err)
	// Output: 2 stale_error: failed in an earlier turn <nil>
}
