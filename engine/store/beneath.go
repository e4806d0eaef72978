package store

import "context"

// beneath is the inner store of a decorator. It forwards the methods that no decorator changes.
type beneath struct{ inner Store }

func (b beneath) Close() error { return b.inner.Close() }

// Failed returns the reason why the inner store stopped writing, or nil.
func (b beneath) Failed() error {
	if f, ok := b.inner.(interface{ Failed() error }); ok {
		return f.Failed()
	}
	return nil
}

// Compact makes the inner store rewrite the files of loose or of synced keys without removed data, if it supports
// that.
func (b beneath) Compact(ctx context.Context, loose bool) error {
	if c, ok := b.inner.(interface {
		Compact(context.Context, bool) error
	}); ok {
		return c.Compact(ctx, loose)
	}
	return nil
}

// Room returns the reason why the inner store has no space left, or nil.
func (b beneath) Room() error {
	if r, ok := b.inner.(interface{ Room() error }); ok {
		return r.Room()
	}
	return nil
}

// Confirm calls Confirm of the inner store.
func (b beneath) Confirm(ctx context.Context) error { return Confirm(ctx, b.inner) }

// Figures, Tables and Epoch return those of the inner store.
func (b beneath) Figures() []Figure   { return Figures(b.inner) }
func (b beneath) Tables() (int, bool) { return Tables(b.inner) }
func (b beneath) Epoch() string       { return Epoch(b.inner) }
