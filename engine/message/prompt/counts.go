package prompt

import "sync/atomic"

// Counts sums up the windows since the process started.
type Counts struct {
	Windows      atomic.Uint64 // all recorded windows
	Compared     atomic.Uint64 // those with a previous window
	Cut          atomic.Uint64 // windows that do not begin with the whole history of the previous one
	BeforeTokens atomic.Uint64 // of the previous windows
	SharedTokens atomic.Uint64 // of these, the part with which the windows begin
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
