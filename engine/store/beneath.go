package store

import "context"

// beneath is the store that a decorator stands on. It hands on what every decorator leaves as it is.
type beneath struct{ inner Store }

func (b beneath) Close() error { return b.inner.Close() }

// Failed answers why the store beneath stopped writing, or nil.
func (b beneath) Failed() error {
	if f, ok := b.inner.(interface{ Failed() error }); ok {
		return f.Failed()
	}
	return nil
}

// Compact has the store beneath rewrite the files of loose or of synced keys without what was removed, where it can do
// that.
func (b beneath) Compact(ctx context.Context, loose bool) error {
	if c, ok := b.inner.(interface {
		Compact(context.Context, bool) error
	}); ok {
		return c.Compact(ctx, loose)
	}
	return nil
}

// Room answers why the store beneath has no room for more, or nil.
func (b beneath) Room() error {
	if r, ok := b.inner.(interface{ Room() error }); ok {
		return r.Room()
	}
	return nil
}

// Confirm is that of the store beneath.
func (b beneath) Confirm(ctx context.Context) error { return Confirm(ctx, b.inner) }

// Figures and Epoch are those of the store beneath.
func (b beneath) Figures() []Figure { return Figures(b.inner) }
func (b beneath) Epoch() string     { return Epoch(b.inner) }
