package store

import "context"

// Pausing returns a store that calls pause before it waits for inner, and resume when the wait is over. A caller with
// a limited number of places gives up its place meanwhile. A commit always waits, for the disk or the network; reads
// wait if inner is a database server.
func Pausing(inner Store, reads bool, pause func(context.Context) (resume func())) Store {
	return &pausing{beneath: beneath{inner}, reads: reads, pause: pause}
}

type pausing struct {
	beneath
	reads bool
	pause func(context.Context) (resume func())
}

func (p *pausing) Read(ctx context.Context, tenant string, q Query) (Result, error) {
	if p.reads {
		defer p.pause(ctx)()
	}
	return p.inner.Read(ctx, tenant, q)
}

func (p *pausing) Commit(ctx context.Context, tenant string, b Batch) error {
	defer p.pause(ctx)()
	return p.inner.Commit(ctx, tenant, b)
}

// Confirm waits for a commit of inner.
func (p *pausing) Confirm(ctx context.Context) error {
	defer p.pause(ctx)()
	return Confirm(ctx, p.inner)
}

// Snapshot implements Snapshotter if inner does.
func (p *pausing) Snapshot(ctx context.Context, fn func(tenant string, it Item) error) error {
	return Snapshot(ctx, p.inner, fn)
}
