package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	campaigns "github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// disk is a separate file system whose free space the test can take away.
type disk string

// inNamespace is set if the test runs in a namespace in which it may mount.
const inNamespace = "MNEME_TEST_NAMESPACE"

// mountDisk mounts a file system in memory. Without the right to mount, it runs the test again in a new namespace and
// returns "".
func mountDisk(t *testing.T) disk {
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1g")
	if err == nil {
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		return disk(dir)
	}
	if !errors.Is(err, syscall.EPERM) || os.Getenv(inNamespace) != "" {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	if err := exec.Command("unshare", "-Urm", "true").Run(); err != nil {
		t.Skipf("no file system can be mounted here, and no namespace can be made: %v", err)
	}
	again := exec.Command("unshare", "-Urm", os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
	again.Env = append(os.Environ(), inNamespace+"=1")
	out, err := again.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("--- SKIP")) {
		t.Errorf("in a namespace: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	return ""
}

// leave resizes the disk so that only the given number of bytes are free.
func (d disk) leave(t testing.TB, bytes uint64) {
	t.Helper()
	for {
		var s syscall.Statfs_t
		if err := syscall.Statfs(string(d), &s); err != nil {
			t.Fatal(err)
		}
		size := fmt.Sprintf("size=%d", (s.Blocks-s.Bfree)*uint64(s.Bsize)+bytes)
		err := syscall.Mount("tmpfs", string(d), "tmpfs", syscall.MS_REMOUNT, size)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EINVAL) { // more is in use by now
			t.Fatal(err)
		}
	}
}

// TestCampaignDisk has eight writers store large turns while the disk is filled to the last byte at random moments and
// freed again. Then the server is killed or stopped on the full disk and started there. Each write gets a 201 or a 507
// disk_full, each read a 200, the process never ends by itself, and every acknowledged turn is there.
//
//	scripts/campaigns -run Disk ./server/e2e
func TestCampaignDisk(t *testing.T) {
	if stores.start != nil {
		t.Skip("it is about the embedded store")
	}
	d := mountDisk(t)
	if d == "" {
		return
	}
	seed, rounds := campaigns.Seed(t), campaigns.Size(2, 40)
	random := rand.New(rand.NewPCG(seed, 0))
	const writers, roomy = 8, 1 << 30
	data := filepath.Join(string(d), "data")
	d.leave(t, roomy)
	server := embedded(t, data)
	var acknowledged [writers]int
	var stored, refused, flushes, started int
	for round := range rounds {
		w := diskWriters{server: server, changed: make(chan struct{}, 1)}
		done := make(chan struct{})
		var group sync.WaitGroup
		for n := range writers {
			random := rand.New(rand.NewPCG(random.Uint64(), uint64(n)))
			group.Go(func() { acknowledged[n] += w.write(t, n, random, done) })
		}
		// Every second time, the disk fills up just after a memtable begins to be written to a table.
		if round%2 == 0 {
			logs := w.logs(t, data)
			w.until(func() bool { return w.logs(t, data) != logs })
			flushes++
		} else {
			enough := int64(random.IntN(60))
			w.until(func() bool { return w.stored.Load() >= enough })
		}
		d.leave(t, 0)
		w.until(func() bool { return w.refused.Load() >= 3*writers })
		again := w.stored.Load()
		if round%4 >= 2 {
			d.leave(t, roomy)
			w.until(func() bool { return w.stored.Load() >= again+writers })
			d.leave(t, 0)
			again := w.refused.Load()
			w.until(func() bool { return w.refused.Load() >= again+writers })
		}
		close(done)
		group.Wait()
		stored, refused = stored+int(w.stored.Load()), refused+int(w.refused.Load())
		select {
		case <-server.gone:
			t.Fatalf("round %d: the server ended by itself:\n%s", round, server.log)
		default:
		}
		if round%2 == 0 {
			server.kill()
		} else {
			_ = server.cmd.Process.Signal(syscall.SIGTERM)
			<-server.gone
			if code := server.cmd.ProcessState.ExitCode(); code != 0 && code != 1 {
				t.Errorf("stopped on the full disk, the server ends with %d:\n%s", code, server.log)
			}
		}
		var served bool
		if server, served = onFullDisk(t, data, d); served {
			started++
		}
		d.leave(t, roomy)
		c := server.client(t)
		for n := range writers {
			var s struct{ Turns int }
			c.get(fmt.Sprint(projectPath, "/sessions/w", n)).into(&s)
			if s.Turns != acknowledged[n] {
				t.Errorf("round %d: session w%d has %d turns, acknowledged are %d", round, n, s.Turns, acknowledged[n])
			}
		}
		server.kill()
		verifiedAt(t, "--data", data)
		if round%8 == 7 { // the stored data must fit into memory
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			acknowledged = [writers]int{}
		}
		d.leave(t, roomy)
		server = embedded(t, data)
		if t.Failed() {
			t.Fatalf("round %d of %d", round+1, rounds)
		}
	}
	t.Logf("%d rounds, %d of them filled amid a flush; %d turns stored, %d refused; %d starts on the full disk served, "+
		"the others said that there is no room", rounds, flushes, stored, refused, started)
}

// onFullDisk starts a server on a disk without a free byte. If it cannot start, it must say so, and start once there is
// room.
func onFullDisk(t *testing.T, data string, d disk) (p *process, served bool) {
	t.Helper()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	p, err = launch(binary, data, "--store", "")
	if err != nil {
		if !strings.Contains(err.Error(), "not enough free space") {
			t.Fatalf("started on the full disk: %v", err)
		}
		d.leave(t, 1<<30)
		return embedded(t, data), false
	}
	t.Cleanup(p.kill)
	c := p.client(t)
	c.post(projectPath+"/turns", object{"session_id": "full", "messages": []object{user("x")}}).wantCode(507, "disk_full")
	c.get(projectPath + "/sessions").want(200)
	return p, true
}

// diskWriters are the writers of one round.
type diskWriters struct {
	server          *process
	stored, refused atomic.Int64
	changed         chan struct{} // signalled after each answer
}

// write stores turns until done, and returns how many were acknowledged.
func (w *diskWriters) write(t *testing.T, n int, random *rand.Rand, done chan struct{}) (acknowledged int) {
	c := w.server.client(t)
	for {
		select {
		case <-done:
			return acknowledged
		default:
		}
		// A picture is large, and its tokens are counted quickly.
		image := "data:image/png;base64," + strings.Repeat("AQID", 1+random.IntN(200_000))
		r, err := c.try("POST", projectPath+"/turns", object{"session_id": fmt.Sprint("w", n),
			"messages": []object{{"role": "user", "content": []object{
				{"type": "image_url", "image_url": object{"url": image}}}}}})
		var p problem
		switch {
		case err != nil:
			t.Errorf("a turn: %v", err)
			return acknowledged
		case r.status == 201:
			acknowledged++
			w.stored.Add(1)
		case json.Unmarshal(r.body, &p) == nil && r.status == 507 && p.Code == "disk_full":
			w.refused.Add(1)
			if r, err := c.try("GET", projectPath+"/sessions?limit=5", nil); err != nil || r.status != 200 {
				t.Errorf("a read on the full disk: %d %s, error %v", r.status, r.body, err)
			}
		default:
			t.Errorf("a turn: %d %s", r.status, r.body)
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// until waits for a condition that depends on the writers' answers.
func (w *diskWriters) until(true func() bool) {
	for !true() {
		select {
		case <-w.changed:
		case <-w.server.gone:
			return
		}
	}
}

// logs names the logs of the main database that are in use.
func (w *diskWriters) logs(t *testing.T, data string) (names string) {
	all, err := filepath.Glob(filepath.Join(data, "main", "*.mem"))
	if err != nil {
		t.Error(err)
	}
	for _, name := range all {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			names += filepath.Base(name) + " "
		}
	}
	return names
}
