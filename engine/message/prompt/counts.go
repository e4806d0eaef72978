package prompt

import "sync/atomic"

// Counts sums up the windows that were answered since the process began.
type Counts struct {
	Windows      atomic.Uint64 // all that were kept
	Compared     atomic.Uint64 // that had one before them
	Cut          atomic.Uint64 // that do not begin with all history of the one before
	BeforeTokens atomic.Uint64 // of the windows before
	SharedTokens atomic.Uint64 // of these, what the windows begin with
	LeftOut      atomic.Uint64 // thinking blocks that were left out
}

// Add counts a window.
func (c *Counts) Add(s *Sheet, compared *Compared) {
	c.Windows.Add(1)
	c.LeftOut.Add(uint64(len(s.Stripped)))
	if s.Before == nil {
		return
	}
	c.Compared.Add(1)
	c.BeforeTokens.Add(s.Before.Tokens)
	c.SharedTokens.Add(min(compared.Tokens, s.Before.Tokens))
	if compared.Cut {
		c.Cut.Add(1)
	}
}
