package badgerstore

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// campaigning makes this test binary a child that writes until it is killed. It is the round and the folder.
const campaigning = "BADGERSTORE_TEST_CAMPAIGN"

// crashes is a folder in which children have written that were killed, round after round.
type crashes struct {
	t            *testing.T
	dir          string
	acknowledged [][killWriters]int // by round
	found        int                // findings that loose data was lost
}

// crashBatch is the n-th batch of a writer in a round. Writers with odd numbers write loose keys.
func crashBatch(round, writer, n int) store.Batch {
	b := killBatch(writer, n)
	for i := range b.Put {
		b.Put[i].Key = fmt.Appendf(nil, "%c/%03d%s", b.Put[i].Key[0], round, b.Put[i].Key[1:])
	}
	return b
}

// write starts a child that writes, and calls crash once it has acknowledged some hundred batches. If that cuts the power,
// what is acknowledged later does not count.
func (c *crashes) write(random *rand.Rand, power bool, crash func()) {
	c.t.Helper()
	round := len(c.acknowledged)
	child := exec.Command(os.Args[0], "-test.run=^"+c.t.Name()+"$")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", campaigning, round, c.dir))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		c.t.Fatal(err)
	}
	var acknowledged [killWriters]int
	enough, crashed := 100+random.IntN(1500), false
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		var writer, batch int
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &writer, &batch); err != nil || batch != acknowledged[writer] {
			said := lines.Text()
			for lines.Scan() {
				said += "\n" + lines.Text()
			}
			c.t.Errorf("in round %d, the child says %s", round, said)
			break
		}
		acknowledged[writer]++
		if n == enough {
			before := acknowledged
			crash()
			crashed = true
			_ = child.Process.Kill()
			if power {
				// A sync that runs during the shutdown may succeed, although the journal was not written any more.
				acknowledged = before
				break
			}
		}
	}
	_ = child.Process.Kill()
	_, _ = io.Copy(io.Discard, out)
	err = child.Wait()
	if !crashed { // A disk without power may end the child before it is killed.
		c.t.Fatalf("round %d: after %d acknowledged batches, the child ended before it was killed here: %v", round,
			sum(acknowledged), err)
	}
	c.acknowledged = append(c.acknowledged, acknowledged)
}

// crashChild is the child.
func crashChild(t *testing.T, task string) {
	number, dir, _ := strings.Cut(task, " ")
	var round int
	if _, err := fmt.Sscan(number, &round); err != nil {
		t.Fatal(err)
	}
	opened, err := openTuned(Options{Dir: dir, FreeSpace: plenty}, tiny)
	if err != nil {
		t.Fatal(err)
	}
	s := store.Seal(opened)
	failed := make(chan error)
	for writer := range killWriters {
		go func() {
			for n := 0; ; n++ {
				if err := s.Commit(t.Context(), "acme", crashBatch(round, writer, n)); err != nil {
					failed <- err
				}
				if _, err := io.WriteString(os.Stdout, fmt.Sprintln(writer, n)); err != nil {
					failed <- err
				}
			}
		}()
	}
	for round%2 == 1 && opened.Failed() == nil { // every second round with compactions
		// It may give up because the writers add tables faster than it merges them. The store is as valid as before.
		if err := opened.Compact(t.Context(), false); err != nil {
			fmt.Fprintln(os.Stderr, "a compaction gave up:", err)
		}
	}
	// The parent tells whether this was to be expected: it was if the disk is gone.
	fmt.Fprintln(os.Stderr, "a child's commit failed:", <-failed)
	os.Exit(1)
}

// check opens the store, which must not be refused, and looks for what was acknowledged: that of the last round, or
// of all. Loose batches may be lost if power says so.
func (c *crashes) check(all, power bool) {
	c.t.Helper()
	opened, err := openTuned(Options{Dir: c.dir, FreeSpace: plenty}, tiny)
	if err != nil {
		c.t.Fatalf("round %d: the folder is refused: %v", len(c.acknowledged), err)
	}
	s := store.Seal(opened)
	defer s.Close()
	if findings := opened.Findings(); len(findings) > c.found {
		c.found = len(findings)
		if !power {
			c.t.Errorf("round %d: %+v", len(c.acknowledged), findings)
		}
	}
	if err := opened.Failed(); err != nil {
		c.t.Fatalf("round %d: %v", len(c.acknowledged), err)
	}
	first := len(c.acknowledged) - 1
	if all {
		first = 0
	}
	for round := first; round < len(c.acknowledged); round++ {
		for writer, acknowledged := range c.acknowledged[round] {
			if whole := c.whole(s, round, writer); whole < acknowledged && !(power && writer%2 == 1) {
				c.t.Errorf("after %d rounds, writer %d of round %d: %d batches are there, %d were acknowledged",
					len(c.acknowledged), writer, round, whole, acknowledged)
			}
		}
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

// whole returns the number of a writer's batches that are there, none of them in part.
func (c *crashes) whole(s store.Store, round, writer int) int {
	c.t.Helper()
	for n := 0; ; n++ {
		b := crashBatch(round, writer, n)
		var q store.Query
		for _, p := range b.Put {
			q.Keys = append(q.Keys, p.Key)
		}
		res, err := s.Read(c.t.Context(), "acme", q)
		if err != nil {
			c.t.Fatal(err)
		}
		found := 0
		for i, it := range res.Keys {
			if string(it.Value) == string(b.Put[i].Value) {
				found++
			}
		}
		if found != 0 && found != killParts {
			c.t.Errorf("writer %d of round %d: %d of %d parts of batch %d are there", writer, round, found, killParts, n)
		}
		if found == 0 {
			return n
		}
	}
}

func (c *crashes) total() (n int) {
	for _, round := range c.acknowledged {
		n += sum(round)
	}
	return n
}

func sum(acknowledged [killWriters]int) (n int) {
	for _, batches := range acknowledged {
		n += batches
	}
	return n
}

// TestCampaignStoreKills kills writers with memtables of 1 MiB, round after round over one folder. The folder is never
// refused, nothing that was acknowledged is lost, and nothing is found damaged.
//
//	scripts/campaigns -run StoreKills ./engine/store/badgerstore
func TestCampaignStoreKills(t *testing.T) {
	if task := os.Getenv(campaigning); task != "" {
		crashChild(t, task)
	}
	rounds := campaign.Size(3, 200)
	random := rand.New(rand.NewPCG(campaign.Seed(t), 0))
	c := crashes{t: t, dir: t.TempDir()}
	for range rounds {
		c.write(random, false, func() {})
		c.check(false, false)
	}
	c.check(true, false)
	t.Logf("%d kills, %d batches acknowledged", rounds, c.total())
}

// TestCampaignPowerCuts cuts the power of a disk under writers, round after round over one file system of its own. All
// synced batches that were acknowledged must be there.
//
// The disk is a loop device. Its file system is shut down without flushing its journal, so that it keeps what was
// written and loses what is only in memory. What a disk does to its own cache is not simulated.
//
//	scripts/campaigns -run PowerCuts ./engine/store/badgerstore
func TestCampaignPowerCuts(t *testing.T) {
	if task := os.Getenv(campaigning); task != "" {
		crashChild(t, task)
	}
	rounds := campaign.Size(1, 20)
	random := rand.New(rand.NewPCG(campaign.Seed(t), 0))
	d := newDisk(t)
	c := crashes{t: t, dir: filepath.Join(d.at, "data")}
	for range rounds {
		c.write(random, true, d.cut)
		d.unmount()
		d.mount()
		c.check(false, true)
	}
	c.check(true, true)
	t.Logf("%d power cuts, %d batches acknowledged, %d findings about loose data", rounds, c.total(), c.found)
}

// loopDisk is a file system in a file.
type loopDisk struct {
	t         *testing.T
	image, at string
	mounted   bool
}

// newDisk makes and mounts a file system. It skips the test where that cannot be done.
func newDisk(t *testing.T) *loopDisk {
	d := &loopDisk{t: t, image: filepath.Join(t.TempDir(), "image"), at: t.TempDir()}
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	for _, command := range [][]string{{"truncate", "-s", "4G", d.image}, {"mkfs.ext4", "-q", "-F", d.image},
		{"mount", "-o", "loop", d.image, d.at}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v: %s", strings.Join(command, " "), err, out)
		}
	}
	d.mounted = true
	t.Cleanup(d.unmount)
	return d
}

func (d *loopDisk) mount() {
	d.t.Helper()
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.at).CombinedOutput(); err != nil {
		d.t.Fatalf("mounting after a power cut: %v: %s", err, out)
	}
	d.mounted = true
}

func (d *loopDisk) unmount() {
	d.t.Helper()
	if !d.mounted {
		return
	}
	if out, err := exec.Command("umount", d.at).CombinedOutput(); err != nil {
		d.t.Errorf("unmounting: %v: %s", err, out)
	}
	d.mounted = false
}

// cut shuts the file system down at once: EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
func (d *loopDisk) cut() {
	const shutdown, noLogFlush = 0x8004587d, 2
	f, err := os.Open(d.at)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	flags := uint32(noLogFlush)
	if _, _, failed := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); failed != 0 {
		d.t.Skipf("the file system cannot be shut down: %v", failed)
	}
}
