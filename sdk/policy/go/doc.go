// Package mneme is the guest SDK: it gives Mneme policies written in Go access to the policy ABI, mneme/1.
//
// A policy is a function that reads a table of message headers and writes a plan. Records that the plan does not name
// are kept unchanged:
//
//	package main
//
//	import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
//
//	var _ = mneme.Register(stubOldErrors)
//
//	func stubOldErrors(req *mneme.Request, plan *mneme.Plan) error {
//		why := plan.Text("stale_error: failed in an earlier turn")
//		for i := range req.Len() {
//			r := req.Record(i)
//			if r.Flags.Has(mneme.ErrorResult) && !r.Flags.Has(mneme.Mandatory) && r.Turn < req.NewestTurn {
//				plan.Stub(i, i, why)
//			}
//		}
//		return nil
//	}
//
//	func main() {}
//
// The same files build three ways: TinyGo and stock Go (GOOS=wasip1 GOARCH=wasm -buildmode=c-shared) make a module, and
// a native build lets package mnemetest call the function from ordinary tests. Command mneme-manifest then adds the
// manifest that every module must carry. examples/keep-by-tag is a complete policy.
//
// A policy is called many times in one instance, whose memory the host restores after every call: nothing that the
// policy stores survives the call. Time and randomness are inputs (Request.Now, Request.Seed).
package mneme
