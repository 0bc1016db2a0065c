package core_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// The same with SQLite on a full disk, where the file of pending revocations still has room.
//
//ebb:invariant I6 A runner without an access token can complete its task while a store is unreachable, frozen, locked or full
func TestStopOnAFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		counterpart.Missing(t, "root", "run as root: the test mounts a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		counterpart.Missing(t, "root", "let root mount a tmpfs: "+err.Error())
	}
	db := brokertest.OpenStore(t, filepath.Join(dir, "ebb.db"), time.Now)
	var once sync.Once
	unmount := func() { once.Do(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }) }
	t.Cleanup(unmount)
	e := brokertest.New(t, brokertest.Config{RealTime: true, Store: db, ApprovalStore: db, PendingEnds: filepath.Join(dir, "pending-ends")})
	s := e.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read").Token.Reveal()
	full := filepath.Join(dir, "full")
	f, err := os.Create(full)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if _ = f.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	for n := 0; db.Append(t.Context(), broker.Record{Entries: []audit.Entry{{At: time.Now(), Kind: audit.RecordExported, Actor: "test"}}}) == nil; n++ {
		if n > 5000 {
			t.Fatal("the database takes writes on a full disk")
		}
	}
	got := stopped(t, e, s.Task.ID)
	if want := (broker.Reached{Process: "done", LiveStore: "done", Database: "pending", Restart: "done"}); got == nil || *got != want {
		t.Errorf("reached %+v, want %+v", got, want)
	}
	if e.Active(t, tok) {
		t.Error("active")
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.Broker.Run(ctx) })
	defer func() { stop(); wg.Wait() }()
	waitClosed(t, e, s.Task.ID, broker.CauseCompleted)
}
