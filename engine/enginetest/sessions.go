package enginetest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

const ADay = 24 * time.Hour

func (k *Kit) Total() int {
	k.Helper()
	s, err := k.Sessions.Conversations(k.Context(), k.Admin, ident.DefaultProject)
	if err != nil {
		k.Fatal(err)
	}
	return s.Total
}

func (k *Kit) SessionIDs() (ids []string) {
	k.Helper()
	list, err := k.Sessions.List(k.Context(), k.Admin, ident.DefaultProject, records.Page{Limit: 1000})
	if err != nil {
		k.Fatal(err)
	}
	for _, s := range list.Data {
		ids = append(ids, s.ID)
	}
	return ids
}

// Meddler runs do once, before the commit that deletes a head, and before at every commit.
type Meddler struct {
	store.Store
	once   sync.Once
	Do     func()
	Before func(tenant string)
}

func (m *Meddler) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if m.Before != nil {
		m.Before(tenant)
	}
	for _, key := range b.Delete {
		if m.Do != nil && key[0] == 'h' {
			m.once.Do(m.Do)
		}
	}
	return m.Store.Commit(ctx, tenant, b)
}

func (k *Kit) SetIn(project, settings string) {
	k.Helper()
	if _, err := k.Projects.PatchSettings(k.Context(), k.Admin, project, json.RawMessage(settings)); err != nil {
		k.Fatal(err)
	}
}

func (k *Kit) MakeProject(id string) {
	k.Helper()
	if _, _, err := k.Projects.Put(k.Context(), k.Admin, id, project.Spec{}); err != nil {
		k.Fatal(err)
	}
}

func (k *Kit) MakeKey(spec tenant.KeySpec) tenant.KeyCreated {
	k.Helper()
	if spec.Role == "" {
		spec.Role = "agent"
	}
	made, err := k.Tenants.CreateKey(k.Context(), k.Admin, ident.Once{}, spec)
	if err != nil {
		k.Fatal(err)
	}
	return made
}

// All is a page of as much as one may have.
var All = records.Page{Limit: 1000}

// Lives compares the texts of a session's living messages with those expected.
func (k *Kit) Lives(sessionID string, want ...string) {
	k.Helper()
	var got []string
	page := All
	for {
		list, err := k.Sessions.ListMessages(k.Context(), k.Admin, ident.DefaultProject, sessionID, page, session.MessageOrder{})
		if err != nil {
			k.Fatal(err)
		}
		for i := range list.Data {
			got = append(got, list.Data[i].Content)
		}
		if list.NextCursor == nil {
			break
		}
		page.Cursor = *list.NextCursor
	}
	if !slices.Equal(got, want) {
		k.Fatalf("session %s holds %q, wanted %q", sessionID, got, want)
	}
}
