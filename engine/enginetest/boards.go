package enginetest

import (
	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

func (k *Kit) Write(id, content string, tags ...string) board.Entry {
	k.Helper()
	e, err := k.Boards.PostEntry(k.Context(), k.Admin, ident.Once{}, id, board.Post{Content: content, Tags: tags})
	if err != nil {
		k.Fatal(err)
	}
	return e
}

func (k *Kit) Member(board, agent string, spec board.AgentSpec) {
	k.Helper()
	if _, _, err := k.Boards.PutAgent(k.Context(), k.Admin, board, agent, spec); err != nil {
		k.Fatal(err)
	}
}

func (k *Kit) Contents(board string, q board.Query) (out []string) {
	k.Helper()
	page, err := k.Boards.ListEntries(k.Context(), k.Admin, board, q)
	if err != nil {
		k.Fatal(err)
	}
	for _, e := range page.Items {
		out = append(out, e.Content)
	}
	if page.Total < uint64(len(out)) {
		k.Errorf("total %d of %d items", page.Total, len(out))
	}
	return out
}

func (k *Kit) Inbox(id, agent string) board.InboxPage {
	k.Helper()
	page, err := k.Boards.Inbox(k.Context(), k.Admin, id, agent, board.InboxQuery{Base: "http://here"})
	if err != nil {
		k.Fatal(err)
	}
	return page
}
