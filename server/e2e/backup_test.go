package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// outcome is the output and the exit code of a command.
type outcome struct {
	stdout, stderr string
	code           int
}

// command runs the program and waits until it ends.
func command(t testing.TB, args ...string) (o outcome) {
	t.Helper()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(environment(), "MNEME_ROOT_KEY="+rootKey)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		ended := (*exec.ExitError)(nil)
		if !errors.As(err, &ended) {
			t.Fatal(err)
		}
		o.code = ended.ExitCode()
	}
	o.stdout, o.stderr = stdout.String(), stderr.String()
	return o
}

// succeeds fails the test unless a command succeeds.
func succeeds(t testing.TB, args ...string) outcome {
	t.Helper()
	o := command(t, args...)
	if o.code != 0 {
		t.Fatalf("mneme %s ends with %d\n%s%s", strings.Join(args, " "), o.code, o.stdout, o.stderr)
	}
	return o
}

// fails requires a command to fail with a reason in one line.
func fails(t testing.TB, why string, args ...string) {
	t.Helper()
	o := command(t, args...)
	if o.code != 1 || !strings.Contains(o.stderr, why) || strings.Count(o.stderr, "\n") > 1 {
		t.Errorf("mneme %s ends with %d, want %q\n%s%s", strings.Join(args, " "), o.code, why, o.stdout, o.stderr)
	}
}

// verified runs `mneme verify`, which must find no faults.
func verified(t testing.TB, data string) (kinds map[string]int) {
	t.Helper()
	return verifiedAt(t, "--data", data)
}

// verifiedAt is verified for the store that the flags name.
func verifiedAt(t testing.TB, where ...string) (kinds map[string]int) {
	t.Helper()
	o := command(t, append([]string{"verify", "--json"}, where...)...)
	var report struct {
		Records  int
		Findings []any
		Kinds    map[string]int
	}
	if err := json.Unmarshal([]byte(o.stdout), &report); err != nil || o.code != 0 || report.Records == 0 ||
		report.Findings == nil {
		t.Errorf("verify ends with %d, error %v\n%s%s", o.code, err, clip(o.stdout[max(0,
			strings.Index(o.stdout, `"findings"`)):], 3000), o.stderr)
	}
	return report.Kinds
}

// TestBackupAmidWriters takes backups while eight writers run. The sessions of each restored backup are a prefix of
// what was acknowledged, and contain everything acknowledged before the backup began. Keys and decisions work there as
// before.
func TestBackupAmidWriters(t *testing.T) {
	t.Parallel()
	data, folder := t.TempDir(), t.TempDir()
	server := embedded(t, data)
	const writers = 8
	var acknowledged [writers]atomic.Int64
	var group sync.WaitGroup
	stop := make(chan struct{})
	enough := make(chan struct{}, writers)
	for w := range writers {
		group.Go(func() {
			c := server.client(t)
			for n := 1; ; n++ {
				text := fmt.Sprintf("writer %d turn %d", w, n)
				call := fmt.Sprintf("c%d-%d", w, n)
				var answer turnAnswer
				c.post("/api/v1/projects/default/turns", object{"session_id": fmt.Sprintf("own-%d", w),
					"messages": []object{
						user(text), calling(call, "f", "{}"), result(call, text), assistant(text)}}).want(201).into(&answer)
				acknowledged[w].Store(int64(answer.Turn))
				if n%8 == 0 {
					c.post("/api/v1/projects/default/context", object{"session_id": fmt.Sprintf("own-%d", w)}).want(200)
				}
				if n == 20 {
					enough <- struct{}{}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range writers {
		<-enough
	}
	var made struct {
		DecisionID string `json:"decision_id"`
	}
	server.client(t).post("/api/v1/projects/default/context", object{"session_id": "own-0"}).want(200).into(&made)
	type taken struct {
		file          string
		before, after [writers]int64
	}
	var backups []taken
	counts := func() (all [writers]int64) {
		for w := range acknowledged {
			all[w] = acknowledged[w].Load()
		}
		return all
	}
	for n := range 3 {
		b := taken{file: filepath.Join(folder, fmt.Sprint(n)), before: counts()}
		succeeds(t, "backup", "--url", server.url, "--out", b.file)
		b.after = counts()
		backups = append(backups, b)
	}
	close(stop)
	group.Wait()

	for _, b := range backups {
		if info, err := os.Stat(b.file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the backup is %v, error %v", info.Mode(), err)
		}
		restored := b.file + "-restored"
		if o := succeeds(t, "restore", "--in", b.file, "--data", restored); !strings.Contains(o.stdout,
			"keys work as before") {
			t.Errorf("restore says %q", o.stdout)
		}
		verified(t, restored)
		p := embedded(t, restored)
		c := p.client(t).as(server.key)
		for w := range writers {
			got := stored(t, c, fmt.Sprintf("/api/v1/projects/default/sessions/own-%d", w))
			// One turn more than was acknowledged may have been committed.
			if n := int64(len(got)); n < b.before[w] || n > b.after[w]+1 {
				t.Errorf("writer %d: %d turns, acknowledged were %d before and %d after", w, n, b.before[w], b.after[w])
			}
			for i, text := range got {
				if want := fmt.Sprintf("writer %d turn %d", w, i+1); text != want {
					t.Errorf("writer %d: turn %d is %q", w, i+1, text)
				}
			}
		}
		var replay struct{ Equal bool }
		c.post("/api/v1/projects/default/decisions/"+made.DecisionID+"/replay", nil).want(200).into(&replay)
		if !replay.Equal {
			t.Error("a decision of before replays to another window")
		}
		p.stop(t)
		verified(t, restored)
	}
	server.kill()
	verified(t, data)
}

// TestBackupOfAStoppedFolder makes a backup of a killed server's folder, which stays unchanged.
func TestBackupOfAStoppedFolder(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(t.TempDir(), "backup")
	server := embedded(t, data)
	server.client(t).post("/api/v1/projects/default/turns", object{"messages": []object{user("kept")}}).want(201)
	fails(t, "in use by another process", "backup", "--data", data, "--out", file)
	fails(t, "in use by another process", "verify", "--data", data)
	server.kill()
	before := filesIn(t, data)
	succeeds(t, "backup", "--data", data, "--out", file)
	verified(t, data)
	if after := filesIn(t, data); !bytes.Equal(before, after) {
		t.Error("the folder changed")
	}
	restored := filepath.Join(t.TempDir(), "restored")
	succeeds(t, "restore", "--in", file, "--data", restored)
	c := embedded(t, restored).client(t).as(server.key)
	c.get("/api/v1/projects/default/sessions/dashboard").want(200)
	if list := c.get("/api/v1/projects/default/sessions/dashboard/messages"); !bytes.Contains(list.body,
		[]byte("kept")) {
		t.Errorf("restored: %s", list.body)
	}
}

// filesIn returns a hash of the names and contents of all files in a folder and its subfolders.
func filesIn(t testing.TB, folder string) []byte {
	t.Helper()
	all := sha256.New()
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		fmt.Fprintln(all, path)
		_, err = io.Copy(all, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.Sum(nil)
}

// TestBackupRefusals: a command that cannot work says why and leaves nothing behind, and an incomplete backup is
// refused.
func TestBackupRefusals(t *testing.T) {
	folder := t.TempDir()
	server := start(t, filepath.Join(folder, "data"))
	server.client(t).post("/api/v1/projects/default/turns", object{"messages": []object{user("kept")}}).want(201)
	good, bad := filepath.Join(folder, "good"), filepath.Join(folder, "bad")
	succeeds(t, "backup", "--url", server.url, "--out", good)

	fails(t, "unknown", "backup", "--url", server.url, "--root-key", "wrong", "--out", bad)
	fails(t, "needs the role root", "backup", "--url", server.url, "--root-key", server.key, "--out", bad)
	fails(t, "asking the server", "backup", "--url", "http://127.0.0.1:1", "--out", bad)
	fails(t, "--out", "backup", "--url", server.url)
	fails(t, "no such file", "backup", "--url", server.url, "--out", filepath.Join(folder, "nowhere", "x"))
	fails(t, "no store", "backup", "--data", filepath.Join(folder, "none"), "--out", bad)
	fails(t, "no store", "verify", "--data", filepath.Join(folder, "none"))
	if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) > 0 || exists(bad) {
		t.Errorf("failed backups leave %q, and bad exists: %t", left, exists(bad))
	}

	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(whole)/2] ^= 1
	into := filepath.Join(folder, "into")
	for why, content := range map[string][]byte{
		"not a backup": []byte("something else"), "cut short": whole[:len(whole)-1], "damaged": flipped,
	} {
		if err := os.WriteFile(bad, content, 0o600); err != nil {
			t.Fatal(err)
		}
		fails(t, why, "restore", "--in", bad, "--data", into)
		if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) > 0 || exists(into) {
			t.Errorf("%s: a failed restore leaves %q, and the folder exists: %t", why, left, exists(into))
		}
	}
	fails(t, "not empty", "restore", "--in", good, "--data", folder)
	if err := os.Mkdir(into, 0o700); err != nil {
		t.Fatal(err)
	}
	succeeds(t, "restore", "--in", good, "--data", into) // empty
	fails(t, "not empty", "restore", "--in", good, "--data", into)
	verified(t, into)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// TestVerifyOfADamagedFolder flips bytes throughout a stopped server's table of records.
func TestVerifyOfADamagedFolder(t *testing.T) {
	data := t.TempDir()
	server := embedded(t, data)
	c := server.client(t)
	for n := range 30 {
		c.post("/api/v1/projects/default/turns", object{"session_id": fmt.Sprint("s", n), "messages": []object{
			user(strings.Repeat(fmt.Sprint("text ", n), 100))}}).want(201)
	}
	server.stop(t)
	verified(t, data)
	tables, err := filepath.Glob(filepath.Join(data, "main", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	for at := len(table) / 4; at < len(table)/2; at += 997 {
		table[at] ^= 0xff
	}
	if err := os.WriteFile(tables[0], table, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := command(t, "verify", "--data", data); o.code != 1 || !strings.Contains(o.stdout, "files damaged") {
		t.Errorf("verify ends with %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}
