package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestTenantImportGoesOnAfterACrash kills the server during the import of a tenant's file, three times at different
// places. Sending the same file again continues where the last attempt stopped, and everything is stored once.
// Meanwhile another file with the same names is refused.
func TestTenantImportGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	const sessions, turns, memories = 120, 4, 60
	const at = "2026-01-02T03:04:05Z"
	records := []object{{"type": "project", "id": "moved", "name": "", "created_at": at}}
	for s := range sessions {
		records = append(records, object{"type": "session", "project": "moved", "id": fmt.Sprintf("s%03d", s),
			"created_at": at, "last_activity_at": at})
		for n := range turns {
			records = append(records, object{"type": "turn", "turn": n + 1, "messages": []object{
				{"format": "openai.chat", "created_at": at, "message": user(fmt.Sprintf("session %d turn %d", s, n))}}})
		}
		records = append(records, object{"type": "session_end", "turns": turns})
	}
	for m := range memories {
		records = append(records, object{"type": "memory", "project": "moved", "key": fmt.Sprintf("m%03d", m),
			"content": fmt.Sprintf("memory %d", m), "category": "core", "version": 1, "created_at": at,
			"updated_at": at})
	}
	file := tenantFile(t, records...)
	clash := tenantFile(t, records[:2+turns+1]...)
	path := "/api/v1/projects/moved"

	data := t.TempDir()
	// With the key, an import that finished before the server was killed is answered again.
	send := func(c client, file []byte, key string) (reply, error) {
		return c.try("POST", "/api/v1/import", file, "Content-Type", "application/x-ndjson", "Idempotency-Key", key)
	}
	stored := func(c client) (n int) { // counts the sessions that can be listed
		var list struct{ Data []json.RawMessage }
		if r := c.get(path + "/sessions?limit=1000"); r.status == 200 {
			r.into(&list)
		}
		return len(list.Data)
	}
	for _, place := range []int{1, sessions / 3, sessions - 10} {
		server := start(t, data)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = send(server.client(t), file, "whole") // the server is killed during the import, or the import ends first
		}()
		watch := server.client(t)
		before := func() bool {
			select {
			case <-ended:
				return false // too little was left to kill it in time
			default:
				return stored(watch) < place
			}
		}
		for before() {
		}
		server.kill()
		<-ended
	}

	server := start(t, data)
	c := server.client(t)
	if r, err := send(c, clash, "clash"); err != nil || r.status != 409 {
		t.Fatalf("another file of the same names is answered %d %s %v", r.status, r.body, err)
	}
	r, err := send(c, file, "whole")
	if err != nil || r.status != 200 {
		t.Fatalf("the same file again is answered %d %s %v", r.status, r.body, err)
	}
	var report struct{ Imported map[string]int }
	r.into(&report)
	if report.Imported["session"] != sessions || report.Imported["memory"] != memories ||
		report.Imported["project"] != 1 {
		t.Errorf("the report says %v", report.Imported)
	}
	if n := stored(c); n != sessions {
		t.Errorf("%d sessions of %d", n, sessions)
	}
	for s := range sessions {
		var list struct{ Data []json.RawMessage }
		c.get(fmt.Sprintf("%s/sessions/s%03d/messages?limit=1000", path, s)).want(200).into(&list)
		if len(list.Data) != turns {
			t.Errorf("session %d has %d messages of %d", s, len(list.Data), turns)
		}
	}
	var kept struct{ Data []json.RawMessage }
	c.get(path + "/memories?limit=1000").want(200).into(&kept)
	if len(kept.Data) != memories {
		t.Errorf("%d memories of %d", len(kept.Data), memories)
	}
	server.stop(t)
	verifiedAt(t, stores.where(data)...)
}
