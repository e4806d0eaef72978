package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smash overwrites a part of a file while the server is not running.
func smash(t testing.TB, name string, from, to int) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		data[i] ^= 0xa5
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

const closedTenants, closedTurns = 5, 4

// fillDoubtful stores a session, a board and a memory for each tenant.
func fillDoubtful(t testing.TB, server *process) (tenants []client) {
	root := server.client(t).as(rootKey)
	for n := range closedTenants {
		var made struct {
			Key string `json:"admin_key"`
		}
		root.post("/api/v1/tenants", object{"id": fmt.Sprint("tenant-", n)}).want(201).into(&made)
		c := root.as(made.Key)
		for turn := range closedTurns {
			c.post(projectPath+"/turns", object{"session_id": "s", "messages": []object{user(noise(n, turn))}}).want(201)
			c.post(projectPath+"/memories", object{"key": "m", "content": fmt.Sprint("version ", turn)}).want(200, 201)
			c.post("/api/v1/boards/b/memory", object{"content": fmt.Sprint("entry ", turn)}).want(201)
		}
		tenants = append(tenants, c)
	}
	return tenants
}

// noise returns a text that fills several blocks of a table and cannot be compressed.
func noise(tenant, turn int) string {
	text := make([]byte, 0, 8<<10)
	for sum := sha256.Sum256([]byte{byte(tenant), byte(turn)}); len(text) < cap(text); sum = sha256.Sum256(sum[:]) {
		text = hex.AppendEncode(text, sum[:])
	}
	return string(text)
}

const projectPath = "/api/v1/projects/default"

// isClosed reports whether nothing can be added that might get a number for the second time.
func isClosed(c client) bool {
	c.t.Helper()
	turn := c.post(projectPath+"/turns", object{"session_id": "s", "messages": []object{user("more")}})
	entry := c.post("/api/v1/boards/b/memory", object{"content": "more"})
	var m struct{ Version int }
	c.post(projectPath+"/memories", object{"key": "m", "content": "more"}).want(200, 201).into(&m)
	if turn.status == 201 {
		entry.want(201)
		if m.Version != closedTurns+1 {
			c.t.Errorf("a memory that lost nothing is in version %d, want %d", m.Version, closedTurns+1)
		}
		return false
	}
	turn.wantCode(409, "session_closed")
	entry.wantCode(409, "board_closed")
	c.post(projectPath+"/sessions/s/summary", object{"action": "reset"}).wantCode(409, "session_closed")
	if m.Version < 1<<20 {
		c.t.Errorf("the next version of a memory is %d, which may have been given before", m.Version)
	}
	return true
}

// TestRepair damages files of a server that was killed or stopped. Until the folder is repaired, the server is
// read-only and says so. After the repair, data that may be incomplete accepts no additions: everything, if a log is
// damaged; what the tenant of the damaged block stored, if a table is damaged. Everything that is there can be read,
// and new sessions, boards and memories can be created.
func TestRepair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, pattern string
		kill          bool
		closed        int
	}{{"log", "main/00001.mem", true, closedTenants}, {"table", "main/*.sst", false, 1}} {
		t.Run(c.name, func(t *testing.T) {
			data := t.TempDir()
			server := embedded(t, data)
			tenants := fillDoubtful(t, server)
			if c.kill {
				server.kill()
			} else {
				server.stop(t)
			}
			file, at := findIn(t, filepath.Join(data, c.pattern), noise(2, 1)[:20])
			smash(t, file, at, at+20)

			if o := command(t, "verify", "--data", data); o.code != 1 || !strings.Contains(o.stdout, filepath.Base(file)) {
				t.Errorf("verify ends with %d and does not name %s: %s%s", o.code, file, o.stdout, o.stderr)
			}
			server = embedded(t, data)
			hit := tenants[2]
			hit.url, hit.log = server.url, server.log
			hit.get("/readyz").wantCode(503, "store_damaged")
			hit.post(projectPath+"/turns", object{"session_id": "other", "messages": []object{user("more")}}).
				wantCode(503, "store_damaged")
			if !strings.Contains(server.log.String(), filepath.Base(file)) {
				t.Errorf("the log does not name %s", file)
			}
			tenants[0].url = server.url
			tenants[0].get(projectPath + "/sessions/s/messages").want(200)
			server.kill()

			if o := command(t, "repair", "--data", data); o.code != 0 || !strings.Contains(o.stdout,
				fmt.Sprintf("%d sessions and %d boards", c.closed, c.closed)) {
				t.Errorf("repair ends with %d: %s%s", o.code, o.stdout, o.stderr)
			}
			server = embedded(t, data)
			closed := 0
			for _, tenant := range tenants {
				tenant.url, tenant.log = server.url, server.log
				tenant.get("/readyz").want(200)
				if isClosed(tenant) {
					closed++
					tenant.post(projectPath+"/turns", object{"session_id": "new", "messages": []object{user("more")}}).want(201)
					file := tenant.get(projectPath + "/sessions/s").want(200)
					tenant.do("DELETE", projectPath+"/sessions/s", nil).want(200, 204)
					tenant.post(projectPath+"/turns", object{"session_id": "s", "messages": []object{user(string(file.body))}}).
						want(201)
				}
			}
			if closed != c.closed {
				t.Errorf("%d tenants' sessions and boards are closed, want %d", closed, c.closed)
			}
			if o := command(t, "repair", "--data", data); o.code == 0 {
				t.Errorf("repair beside a server: %s", o.stdout)
			}
			server.kill()
			if o := command(t, "repair", "--data", data); o.code != 0 || !strings.Contains(o.stdout, "nothing was found") {
				t.Errorf("a second repair ends with %d: %s%s", o.code, o.stdout, o.stderr)
			}
		})
	}
}

// findIn looks for a text in the files that match.
func findIn(t testing.TB, pattern, text string) (name string, at int) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(data, []byte(text)); at >= 0 {
			return name, at
		}
	}
	t.Fatalf("%q is in none of %q", text, names)
	return "", 0
}

// If a bit of the file admin.key is flipped, it no longer has a valid key: no byte of it has another spelling.
func TestFlippedAdminKey(t *testing.T) {
	c := shared(t)
	for at := range c.key {
		key := []byte(c.key)
		if key[at] ^= 1 << (at % 7); key[at] > ' ' && key[at] < 0x7f {
			c.as(string(key)).get("/api/v1/projects").want(401)
		}
	}
}
