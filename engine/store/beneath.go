package store

import "context"

// beneath is what every decorator hands on to the store that it decorates.
type beneath struct{ inner Store }

func (b beneath) Close() error { return b.inner.Close() }

// Failed tells why the store beneath stopped writing, where it can tell.
func (b beneath) Failed() error {
	if f, ok := b.inner.(interface{ Failed() error }); ok {
		return f.Failed()
	}
	return nil
}

// Compact has the store beneath rewrite the files of one sort of keys without what was removed, where it can do that.
func (b beneath) Compact(ctx context.Context, loose bool) error {
	if c, ok := b.inner.(interface {
		Compact(context.Context, bool) error
	}); ok {
		return c.Compact(ctx, loose)
	}
	return nil
}

// Room tells why the store beneath has no room for more, where it can tell.
func (b beneath) Room() error {
	if r, ok := b.inner.(interface{ Room() error }); ok {
		return r.Room()
	}
	return nil
}
