package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// backup requests a backup and returns the response with its body unread.
func (s *site) backup() *http.Response {
	s.t.Helper()
	res, err := s.tryBackup()
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

func (s *site) tryBackup() (*http.Response, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", "http://"+s.addr+"/api/v1/admin/backup", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+rootKey)
	res, err := http.DefaultClient.Do(req)
	if err == nil {
		s.t.Cleanup(func() { _ = res.Body.Close() })
	}
	return res, err
}

// backingUp makes backups with write.
func backingUp(write BackupFunc) func(*setup) { return func(o *setup) { o.Backup = write } }

// endless writes until that fails, and reports when it has ended.
func endless(ended chan<- error) BackupFunc {
	block := []byte(strings.Repeat("backup", 10_000))
	return func(_ context.Context, w io.Writer) error {
		for {
			if _, err := w.Write(block); err != nil {
				ended <- err
				return err
			}
		}
	}
}

// cutOff checks that a body ends with an error, so that its reader does not treat it as complete.
func cutOff(t *testing.T, res *http.Response) {
	t.Helper()
	if n, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Errorf("%d bytes look like a whole body", n)
	}
}

// A stream may take as long as its reader needs, although other responses have a time limit: only a reader that reads
// nothing for that long is cut off.
func TestStreamLastsWhileItMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pieces = 10
		ours, theirs := net.Pipe()
		var reading sync.WaitGroup
		defer reading.Wait()
		defer ours.Close()
		s := &Server{limits: defaultLimits(), places: newPlaces(), streams: t.Context()}
		s.pieces.New = func() any { return new(piece) }
		almost := s.limits.stall - time.Second
		reading.Go(func() {
			for buffer := make([]byte, 1<<20); ; {
				time.Sleep(almost)
				if _, err := theirs.Read(buffer); err != nil {
					return
				}
			}
		})
		sent, began := 0, time.Now()
		x := &exchange{s: s, caller: ident.Caller{Tenant: "t"}}
		backup := x.written(backupType, func(_ context.Context, w io.Writer) error {
			for range pieces {
				time.Sleep(2 * s.limits.stall)
				n, err := w.Write(make([]byte, 64<<10))
				sent += n
				if err != nil {
					return err
				}
			}
			return nil
		})
		out := &stream{ctx: t.Context(), stall: s.limits.stall, pieces: &s.pieces, conn: &conn{Conn: ours}}
		if err := backup.run(out); err != nil || sent != pieces*64<<10 || time.Since(began) < 8*pieces*almost {
			t.Errorf("%d bytes in %v, %v", sent, time.Since(began), err)
		}
	})
}

func TestStreamCutsOffWhoTakesNothing(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := start(t, backingUp(endless(ended)),
		limited(func(l *limits) { l.stall = 200 * time.Millisecond }))
	res, err := s.tryBackup()
	if err := <-ended; err == nil {
		t.Error("it ended well")
	}
	if err == nil { // otherwise it was cut off before its headers
		cutOff(t, res)
	}
	if got := s.do("GET", "/metrics", ""); !strings.Contains(string(got.body), "mneme_http_requests_in_flight 1\n") {
		t.Errorf("after the cut: %s", got.body)
	}
}

// A server that stops does not wait for streams.
func TestStreamEndsWithTheServer(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := start(t, backingUp(endless(ended)))
	res := s.backup()
	if _, err := io.ReadFull(res.Body, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	<-ended
	cutOff(t, res)
}

// An error or panic in a running stream cuts it off, and the server continues.
func TestStreamThatFails(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := start(t, backingUp(func(_ context.Context, w io.Writer) error {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
		if calls.Add(1) == 1 {
			panic("a defect")
		}
		return errors.New("a broken disk")
	}))
	for _, why := range []string{"a defect", "a broken disk"} {
		if res, err := s.tryBackup(); err == nil { // otherwise it was cut off before its headers
			cutOff(t, res)
		}
		for !strings.Contains(s.log.String(), why) {
			time.Sleep(time.Millisecond)
		}
	}
	if got := s.do("GET", "/healthz", ""); got.status != 200 {
		t.Errorf("afterwards: %d", got.status)
	}
}

// Only one backup is taken at a time, however the previous one ended; HEAD takes none.
func TestOneBackupAtATime(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 2)
	s := start(t, backingUp(endless(ended)))
	for range 2 {
		res := s.backup()
		p := s.do("GET", "/api/v1/admin/backup", "", "Authorization", "Bearer root").problem(t)
		if p.Code != "backup_running" {
			t.Errorf("a second backup: %+v", p)
		}
		_ = res.Body.Close()
		<-ended
		for s.s.backingUp.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	got := s.do("HEAD", "/api/v1/admin/backup", "", "Authorization", "Bearer root")
	if got.status != 200 || len(got.body) > 0 {
		t.Errorf("HEAD: status %d, %d bytes", got.status, len(got.body))
	}
	if p := start(t).do("GET", "/api/v1/admin/backup", "", "Authorization", "Bearer root").problem(t); p.Status != 501 {
		t.Errorf("without a store that can: %+v", p)
	}
}
