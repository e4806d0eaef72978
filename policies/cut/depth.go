package cut

import (
	"math"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// DefaultDepth is the number of turns kept in full if a config names none, and DefaultStep the number of turns by which
// the boundary then moves.
const (
	DefaultDepth = 20
	DefaultStep  = 20
)

// Depth says how many of the newest turns are kept in full, counted by their places. The boundary moves by Step turns
// at a time, so between Turns and Turns+Step turns are kept.
type Depth struct{ Turns, Step int64 }

// DepthOf returns the depth that a policy's config asks for.
func DepthOf(req *mneme.Request) Depth {
	return Depth{min(max(req.ConfigInt("depth", DefaultDepth), 0), math.MaxUint32),
		min(max(req.ConfigInt("depth_step", DefaultStep), 1), math.MaxUint32)}
}

// Exact reports whether exactly Turns turns are kept.
func (d Depth) Exact() bool { return d.Step == 1 }

// Beyond returns the place of the newest turn beyond the depth, given the place of the newest turn. It returns 0 if
// there is none.
func (d Depth) Beyond(newest uint32) uint32 {
	beyond := int64(newest) - d.Turns - d.Step/2
	if beyond < 0 {
		return 0
	}
	return uint32(beyond/d.Step*d.Step + d.Step/2)
}

// NewestPlace returns the place of the newest turn, which may have no records left.
func NewestPlace(req *mneme.Request) uint32 {
	for i := req.Len() - 1; i >= 0; i-- {
		if r := req.Record(i); r.Role != mneme.System && r.Place <= r.Turn {
			return req.NewestTurn - min(r.Turn-r.Place, req.NewestTurn)
		}
	}
	return req.NewestTurn
}
