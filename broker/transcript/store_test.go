package transcript_test

import (
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ebb-broker/ebb/broker/transcript"
)

func id(prefix string) string {
	u := uuid.Must(uuid.NewV7())
	return prefix + hex.EncodeToString(u[:])
}

func open(t *testing.T, c transcript.Config) *transcript.Store {
	t.Helper()
	if c.Dir == "" {
		c.Dir = filepath.Join(t.TempDir(), "transcripts")
	}
	if c.Keep == 0 {
		c.Keep = time.Hour
	}
	if c.Bytes == 0 {
		c.Bytes = 1 << 20
	}
	s, err := transcript.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func of(task string) transcript.Transcript {
	return transcript.Transcript{Head: transcript.Head{ID: transcript.NewID(), At: time.Now().UTC(), TaskID: task, LeaseID: id("lse_"), Rule: "all", Host: "api.example.com:443", Method: "GET", Path: "/"}}
}

const room = 8 << 10

// TestStore: transcripts can be read by id, and listed in the order of time, page by page.
func TestStore(t *testing.T) {
	t.Parallel()
	s := open(t, transcript.Config{})
	task, other := id("tsk_"), id("tsk_")
	var ids []string
	for i := range 5 {
		x := of(map[bool]string{true: task, false: other}[i%2 == 0])
		x.Query = "n=1"
		e, err := s.Begin(x, x.TaskID, room)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Read(x.ID); err != nil || got.Answer != nil || got.Query != "n=1" || got.Head.Host != x.Host {
			t.Errorf("begun: %+v, %v", got, err)
		}
		if err := e.End(transcript.Body{Bytes: 1, Text: "a"}, transcript.Message{Status: 200, Body: transcript.Body{Text: "b\n"}}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Read(x.ID); err != nil || got.Answer == nil || got.Answer.Body.Text != "b\n" || got.Request.Body.Text != "a" {
			t.Errorf("ended: %+v, %v", got, err)
		}
		ids = append([]string{x.ID}, ids...)
	}
	all, err := s.List(transcript.Filter{})
	if err != nil || len(all) != 5 || all[0].ID != ids[0] || all[4].ID != ids[4] {
		t.Fatalf("%+v, %v", all, err)
	}
	if some, err := s.List(transcript.Filter{TaskID: task, Limit: 2}); err != nil || len(some) != 2 || some[1].ID != ids[2] {
		t.Errorf("%+v, %v", some, err)
	}
	if some, err := s.List(transcript.Filter{TaskID: task, After: ids[2]}); err != nil || len(some) != 1 || some[0].ID != ids[4] {
		t.Errorf("%+v, %v", some, err)
	}
	if back, err := s.List(transcript.Filter{Before: ids[3], Limit: 2}); err != nil || len(back) != 2 || back[0].ID != ids[1] || back[1].ID != ids[2] {
		t.Errorf("a page back: %+v, %v", back, err)
	}
	for want, f := range map[int]transcript.Filter{5: {}, 3: {TaskID: task, Limit: 1}, 2: {TaskID: task, After: ids[0]}, 1: {LeaseID: all[1].LeaseID}, 0: {TaskID: id("tsk_")}} {
		if n, err := s.Count(f); n != want || err != nil {
			t.Errorf("%+v: %d, %v, want %d", f, n, err, want)
		}
	}
	if some, err := s.List(transcript.Filter{LeaseID: all[1].LeaseID}); err != nil || len(some) != 1 || some[0].ID != ids[1] {
		t.Errorf("%+v, %v", some, err)
	}
	for _, bad := range []string{"", "trn_", "../" + ids[0], ids[0] + "x", id("trn_"), strings.ToUpper(ids[0]), ids[0][:20]} {
		if _, err := s.Read(bad); !errors.Is(err, transcript.ErrNotFound) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// There is room for so much and no more, also after a restart, and one task does not take that of
// the others.
//
//ebb:invariant I12 The total size of all stored transcripts is limited
//ebb:invariant I12 The size of the stored transcripts of one task is limited to a share of the free space
//ebb:invariant I12 A task without stored transcripts gets space for one as long as any is free
//ebb:invariant I12 Transcripts that an earlier process stored count towards the size limits
func TestStoreIsFull(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "transcripts")
	const files = 16
	c := transcript.Config{Dir: dir, Bytes: files * room}
	s := open(t, c)
	fill := func(root string) (n int) {
		for ; n <= files; n++ {
			x := of(id("tsk_")) // below root, or it
			if _, err := s.Begin(x, root, room); errors.Is(err, transcript.ErrFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	greedy := id("tsk_")
	if n := fill(greedy); n != files/transcript.TaskShare {
		t.Errorf("one task has %d of %d", n, files)
	}
	// A task without transcripts gets space while there is some; finished tasks keep theirs.
	for i := range files - files/transcript.TaskShare {
		if n := fill(id("tsk_")); n != 1 {
			t.Errorf("after %d others a task has %d", i, n)
		}
	}
	if n := fill(id("tsk_")); n != 0 {
		t.Errorf("of no room a task has %d", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, c) // files of one block each: of two that were reserved
	if n := fill(greedy); n != 0 {
		t.Errorf("after a restart one task has %d more", n)
	}
	if n := fill(id("tsk_")); n != 1 {
		t.Errorf("after a restart another has %d", n)
	}
}

// TestStoreGivesBack: a finished entry counts with its file's size, a dropped one with 0, each
// once.
func TestStoreGivesBack(t *testing.T) {
	t.Parallel()
	s := open(t, transcript.Config{Bytes: transcript.TaskShare * room})
	root := id("tsk_")
	for range 20 {
		e, err := s.Begin(of(root), root, room)
		if err != nil {
			t.Fatal(err)
		}
		e.Drop()
		e.Drop()
		if err := e.End(transcript.Body{}, transcript.Message{}); err != nil {
			t.Error(err)
		}
	}
	e, err := s.Begin(of(root), root, room)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.End(transcript.Body{}, transcript.Message{}), e.End(transcript.Body{}, transcript.Message{})); err != nil {
		t.Error(err)
	}
	if _, err := s.Begin(of(root), root, room/2); err != nil {
		t.Errorf("half of it is free: %v", err)
	}
	if _, err := s.Begin(of(root), root, room/2); !errors.Is(err, transcript.ErrFull) {
		t.Errorf("none of it is free: %v", err)
	}
	if all, err := s.List(transcript.Filter{}); err != nil || len(all) != 2 {
		t.Errorf("%d, %v", len(all), err)
	}
	if err := e.End(transcript.Body{Text: strings.Repeat("x", room)}, transcript.Message{}); err != nil {
		t.Errorf("a second end: %v", err)
	}
}

// TestStoreHoldsToItsRoom: an entry that is longer than its reservation is not written.
func TestStoreHoldsToItsRoom(t *testing.T) {
	t.Parallel()
	s := open(t, transcript.Config{})
	root := id("tsk_")
	x := of(root)
	x.Query = strings.Repeat("x", room)
	if _, err := s.Begin(x, root, room); err == nil {
		t.Error("a beginning longer than its room")
	}
	e, err := s.Begin(of(root), root, room)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.End(transcript.Body{Text: strings.Repeat("x", room)}, transcript.Message{}); err == nil {
		t.Error("an end longer than its room")
	}
}

// TestStoreErases: old transcripts are erased and free their space, unless they are under way.
func TestStoreErases(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Now()
	later := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	s := open(t, transcript.Config{Bytes: transcript.TaskShare * room, Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	root := id("tsk_")
	e, err := s.Begin(of(root), root, room)
	if err != nil {
		t.Fatal(err)
	}
	later(2 * time.Hour)
	if n, err := s.Erase(); n != 0 || err != nil {
		t.Errorf("under way: %d, %v", n, err)
	}
	if err := e.End(transcript.Body{}, transcript.Message{}); err != nil {
		t.Fatal(err)
	}
	later(time.Minute)
	x := of(root)
	if _, err := s.Begin(x, root, room); err != nil {
		t.Errorf("no room, and one that is too old: %v", err)
	}
	if all, err := s.List(transcript.Filter{}); err != nil || len(all) != 1 || all[0].ID != x.ID {
		t.Errorf("%+v, %v", all, err)
	}
}

// A clock that jumps ahead and returns erases nothing.
//
//ebb:invariant I11 A brief forward jump of the clock erases no transcript
func TestStoreErasesNothingByTheClockAhead(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	start := time.Now()
	s := open(t, transcript.Config{
		Bytes:  64 << 20,
		Now:    func() time.Time { return start.Add(time.Duration(ahead.Load())) },
		Steady: func() time.Duration { return 0 },
	})
	root := id("tsk_")
	e, err := s.Begin(of(root), root, room)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.End(transcript.Body{}, transcript.Message{}); err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{365 * 24 * time.Hour, 0} {
		ahead.Store(int64(d))
		if n, err := s.Erase(); n != 0 || err != nil {
			t.Errorf("%s ahead: %d erased, %v", d, n, err)
		}
	}
}

// One is written, read, listed and erased by many at a time.
func TestStoreAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, transcript.Config{Bytes: 64 << 20, Keep: time.Nanosecond, Now: func() time.Time { return time.Now().Add(time.Minute) }})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				x := of(id("tsk_"))
				e, err := s.Begin(x, x.TaskID, room)
				if err != nil {
					t.Error(err)
					return
				}
				if err := e.End(transcript.Body{}, transcript.Message{Status: 200}); err != nil {
					t.Error(err)
				}
				if _, err := s.List(transcript.Filter{}); err != nil {
					t.Error(err)
				}
				if _, err := s.Read(x.ID); err != nil && !errors.Is(err, transcript.ErrNotFound) {
					t.Error(err)
				}
				if _, err := s.Erase(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, err := s.Erase(); err != nil {
		t.Error(err)
	}
	x := of(id("tsk_"))
	if _, err := s.Begin(x, x.TaskID, 64<<20/transcript.TaskShare); err != nil {
		t.Errorf("something counts still: %v", err)
	}
}
