package transcript_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/owndir"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// file is where a transcript of a task of a runner's is.
func file(dir string, x transcript.Transcript) string {
	return filepath.Join(dir, strings.Join([]string{x.ID, x.TaskID, x.TaskID, x.LeaseID}, "."))
}

// kept writes a transcript down, to its end.
func kept(t *testing.T, s *transcript.Store, task string) transcript.Transcript {
	t.Helper()
	x := of(task)
	e, err := s.Begin(x, task, room)
	if err == nil {
		err = e.End(transcript.Body{}, transcript.Message{Status: 200})
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A directory that is not ebb's alone is none, and files that ebb has not written are let be.
//
//ebb:invariant I8 Transcripts are stored in a directory and files that no other user can read: a directory that others can enter is refused
func TestStoreIsAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := transcript.Config{Bytes: 1 << 20, Keep: time.Hour}
	shared, link, file := filepath.Join(dir, "shared"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	own := filepath.Join(dir, "own")
	if err := errors.Join(os.Mkdir(shared, 0o700), os.Chmod(shared, 0o750), os.Mkdir(own, 0o700), os.Symlink(own, link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c.Dir = range []string{"", shared, link, file, filepath.Join(dir, "no", "such")} {
		if s, err := transcript.Open(c); err == nil {
			_ = s.Close()
			t.Errorf("%q is opened", c.Dir)
		}
	}
	c.Dir = own
	x := of(id("tsk_"))
	name := strings.Join([]string{x.ID, x.TaskID, x.TaskID, x.LeaseID}, ".")
	if err := errors.Join(os.WriteFile(filepath.Join(own, "notes.txt"), []byte("mine"), 0o600), os.Symlink("/etc/passwd", filepath.Join(own, name))); err != nil {
		t.Fatal(err)
	}
	s := open(t, c)
	if got, err := s.Read(x.ID); err == nil {
		t.Errorf("read through a link: %+v", got)
	}
	if all, err := s.List(transcript.Filter{}); err != nil || len(all) != 1 || all[0].Host != "" {
		t.Errorf("a link is listed as %+v, %v", all, err)
	}
}

// TestStoreIsNotOfSomebodyElse: Open refuses another user's directory, at any mode.
//
//ebb:invariant I8 The transcript directory is refused if another user owns it
func TestStoreIsNotOfSomebodyElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		counterpart.Missing(t, "root", "only root can give a directory away")
	}
	dir := filepath.Join(t.TempDir(), "theirs")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 4242, 4242)); err != nil {
		t.Fatal(err)
	}
	if s, err := transcript.Open(transcript.Config{Dir: dir, Bytes: 1 << 20, Keep: time.Hour}); !errors.Is(err, owndir.ErrShared) {
		t.Errorf("%v, %v", s, err)
	}
}

// TestFilesThatAreNone: List and Read still return the good transcripts beside a torn file, a file
// with another text, a directory and a pipe.
//
//ebb:invariant I8 A transcript file that cannot be read does not remove other transcripts from the list
//ebb:invariant I8 A transcript file whose content belongs to another request is not listed with that request's data
func TestFilesThatAreNone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "transcripts")
	s := open(t, transcript.Config{Dir: dir})
	task := id("tsk_")
	first := kept(t, s, task)
	text, err := os.ReadFile(file(dir, first))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	for what, make := range map[string]func(path string) error{
		"empty":           func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"torn":            func(path string) error { return os.WriteFile(path, line[:len(line)/2], 0o600) },
		"without its end": func(path string) error { return os.WriteFile(path, line, 0o600) },
		"another's":       func(path string) error { return os.WriteFile(path, text, 0o600) },
		"none of JSON":    func(path string) error { return os.WriteFile(path, []byte("[1]\n"), 0o600) },
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":          func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		x := of(task)
		if err := make(file(dir, x)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Read(x.ID); !errors.Is(err, transcript.ErrTorn) {
			t.Errorf("%s is read as %+v, %v", what, got, err)
		}
		all, err := s.List(transcript.Filter{})
		if err != nil || len(all) != 2 || all[0].ID != x.ID || all[0].TaskID != task || all[0].Host != "" || all[0].At.IsZero() || all[1].ID != first.ID || all[1].Host != first.Host {
			t.Errorf("%s is listed as %+v, %v", what, all, err)
		}
		if err := os.Remove(file(dir, x)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRoomThatIsMadeByHand: space that an operator frees by removing files counts without a
// restart, for the task and in total. Entries under way keep their reservation.
//
//ebb:invariant I12 Transcripts in progress keep their reserved space when an operator removes files by hand
func TestRoomThatIsMadeByHand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "transcripts")
	s := open(t, transcript.Config{Dir: dir, Bytes: 2 * transcript.TaskShare * room})
	task := id("tsk_")
	begin := func() (*transcript.Entry, error) { return s.Begin(of(task), task, room) }
	under, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	x := kept(t, s, task)
	if _, err := begin(); !errors.Is(err, transcript.ErrFull) {
		t.Fatalf("there is room: %v", err)
	}
	if err := os.Remove(file(dir, x)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Erase(); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	last, err := begin()
	if err != nil {
		t.Fatalf("half of it is free: %v", err)
	}
	if _, err := begin(); !errors.Is(err, transcript.ErrFull) {
		t.Errorf("what is under way has lost its room: %v", err)
	}
	under.Drop()
	last.Drop()
	if _, err := s.Begin(of(task), task, 2*room); err != nil {
		t.Errorf("all of it is free: %v", err)
	}
}
