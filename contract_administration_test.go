package main

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// administration purges, exports and imports, and compares each response with the description.
func (c *contract) administration(t *testing.T, p *program, reader string) {
	t.Helper()
	const (
		stats     = "/api/v1/admin/agent/conversations/stats"
		purge     = "/api/v1/admin/agent/conversations/purge"
		retention = "/api/v1/admin/retention"
		export    = "/api/v1/export"
		imported  = "/api/v1/import"
		ndjson    = "application/x-ndjson"
	)
	try := func(key, method, route, query, body string, status int, headers ...string) answer {
		t.Helper()
		a := p.do(key, method, route+query, body, headers...)
		if a.status != status {
			t.Errorf("%s %s%s: status %d, want %d: %s", method, route, query, a.status, status, a.body)
		}
		c.check(method, route, a)
		return a
	}
	put := func(key, query, body string, status int) {
		t.Helper()
		try(key, "POST", imported, query, body, status, "Content-Type", ndjson)
	}
	narrow := try(p.key, "POST", "/api/v1/keys", "", `{"name":"n","role":"tenant_admin","projects":["default"]}`, 201).
		text(t, "key")

	console := []string{"X-Mneme-Console", "1", "Sec-Fetch-Site", "same-origin"}
	link := try(narrow, "POST", "/console/links", "", "", 201).text(t, "link")
	try(rootKey, "POST", "/console/links", "", "", 403)
	try("", "POST", "/console/session", "", `{"link":"`+link+`"}`, 201, console...)
	try("", "POST", "/console/session", "", `{"link":"`+link+`"}`, 401, console...)
	try("", "POST", "/console/session", "", `{"key":"`+reader+`"}`, 403)
	try("", "POST", "/console/session", "", `{}`, 422, console...)
	signed := try("", "POST", "/console/session", "", `{"key":"`+reader+`"}`, 201, console...)
	cookie, _, _ := strings.Cut(signed.header.Get("Set-Cookie"), ";")
	try("", "DELETE", "/console/session", "", "", 204, append(console, "Cookie", cookie)...)

	file := string(try(p.key, "GET", export, "", "", 200).body)
	for _, key := range []string{reader, narrow} {
		try(key, "GET", export, "", "", 403)
		put(key, "", file, 403)
		try(key, "POST", retention, "", "", 403)
	}
	put(p.key, "", file, 409)
	moved := `{"mneme_export":1,"tenant":"t","created_at":"2026-01-01T00:00:00Z"}
{"type":"project","id":"moved","name":"Moved","created_at":"2026-01-01T00:00:00Z"}
`
	sum := sha256.Sum256([]byte(moved))
	moved += `{"type":"end","records":{"project":1},"sha256":"` + hex.EncodeToString(sum[:]) + "\"}\n"
	put(p.key, "?on_conflict=fail", moved, 200)
	put(p.key, "?on_conflict=skip", moved, 422)
	put(p.key, "", file[:len(file)-9], 422)
	put(p.key, "", "", 400)
	put("", "", file, 401)

	try(p.key, "GET", stats, "?project_id=default", "", 200)
	try(p.key, "GET", stats, "", "", 400)
	try(reader, "GET", stats, "?project_id=default", "", 403)
	try(narrow, "GET", stats, "?project_id=elsewhere", "", 404)
	try(rootKey, "GET", stats, "?project_id=default&tenant=default", "", 200)
	try(p.key, "DELETE", purge, "?project_id=default", "", 400)
	try(p.key, "DELETE", purge, "?older_than_days=1", "", 400)
	try(p.key, "DELETE", purge, "?project_id=default&older_than_days=-1", "", 422)
	try(p.key, "DELETE", purge, "?project_id=default&older_than_days=soon", "", 422)
	try(p.key, "DELETE", purge, "?project_id=default&older_than_days=1&dry_run=maybe", "", 422)
	try(p.key, "DELETE", purge, "?project_id=nowhere&older_than_days=1", "", 404)
	try(reader, "DELETE", purge, "?project_id=default&older_than_days=0", "", 403)
	try(narrow, "DELETE", purge, "?project_id=default&older_than_days=0&dry_run=true", "", 200)
	try(p.key, "DELETE", purge, "?project_id=default&older_than_days=0", "", 200)
	try(p.key, "GET", stats, "?project_id=default", "", 200)
	try(p.key, "POST", retention, "", "", 200)
}
