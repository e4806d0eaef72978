package cut

import (
	"math"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// DefaultDepth is the number of turns kept in full where a config names none, and DefaultStep by how many turns the
// boundary then moves at a time.
const (
	DefaultDepth = 20
	DefaultStep  = 20
)

// Depth says how many of the newest turns are kept in full, counted by their places. The boundary moves by Step turns at
// a time, so that between Turns and Turns+Step of them are.
type Depth struct{ Turns, Step int64 }

// DepthOf is the depth that a policy's config asks for.
func DepthOf(req *mneme.Request) Depth {
	return Depth{min(max(req.ConfigInt("depth", DefaultDepth), 0), math.MaxUint32),
		min(max(req.ConfigInt("depth_step", DefaultStep), 1), math.MaxUint32)}
}

// Exact tells whether exactly so many turns are asked for.
func (d Depth) Exact() bool { return d.Step == 1 }

// Beyond is the place of the newest turn beyond the depth, where newest is the newest turn's place; 0: none is.
func (d Depth) Beyond(newest uint32) uint32 {
	beyond := int64(newest) - d.Turns - d.Step/2
	if beyond < 0 {
		return 0
	}
	return uint32(beyond/d.Step*d.Step + d.Step/2)
}

// NewestPlace is the place of the newest turn, which may have no record left.
func NewestPlace(req *mneme.Request) uint32 {
	for i := req.Len() - 1; i >= 0; i-- {
		if r := req.Record(i); r.Role != mneme.System && r.Place <= r.Turn {
			return req.NewestTurn - min(r.Turn-r.Place, req.NewestTurn)
		}
	}
	return req.NewestTurn
}
