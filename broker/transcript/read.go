package transcript

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Filter selects transcripts; "" = any.
type Filter struct {
	TaskID, LeaseID string
	After           string // older ones than this id: the last of the page before
	Before          string // newer ones than this id, those next to it: a page back
	Limit           int    // 0 = 100
}

func (f Filter) selects(h Head) bool {
	return (f.TaskID == "" || h.TaskID == f.TaskID) && (f.LeaseID == "" || h.LeaseID == f.LeaseID) && (f.After == "" || h.ID < f.After) && (f.Before == "" || h.ID > f.Before)
}

const (
	defaultLimit = 100
	maxLimit     = 1000
	maxFile      = 4 << 20 // longer than any that ebb writes
)

// ErrNotFound is of a transcript that is not there, or not there any more.
var ErrNotFound = errors.New("transcript: not found on this replica")

// names returns the names of all transcripts, the oldest first. It ignores other files.
func (s *Store) names() ([]string, error) {
	d, err := s.dir.Open(".")
	if err != nil {
		return nil, err
	}
	all, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(name string) bool { return !nameForm.MatchString(name) })
	slices.Sort(all)
	return all, nil
}

// List returns the heads of the transcripts that the filter selects, the newest first.
func (s *Store) List(f Filter) ([]Head, error) {
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	f.Limit = min(f.Limit, maxLimit)
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	if f.Before == "" {
		slices.Reverse(names)
	}
	out := []Head{}
	for _, name := range names {
		h, at, _ := named(name)
		if h.At = at; !f.selects(h) {
			continue
		}
		head, err := s.head(name)
		switch {
		case errors.Is(err, ErrNotFound): // erased meanwhile
			continue
		case err != nil: // that it is there is all that is known of it, and hides no other
			head = h
		}
		if out = append(out, head); len(out) == f.Limit {
			break
		}
	}
	if f.Before != "" {
		slices.Reverse(out)
	}
	return out, nil
}

// Count returns the number of transcripts that the filter selects. It ignores the filter's limit.
func (s *Store) Count(f Filter) (n int, err error) {
	names, err := s.names()
	for _, name := range names {
		if h, _, _ := named(name); f.selects(h) {
			n++
		}
	}
	return n, err
}

// Read is one transcript, or ErrNotFound.
func (s *Store) Read(id string) (Transcript, error) {
	if !ValidID(id) {
		return Transcript{}, ErrNotFound
	}
	names, err := s.names()
	if err != nil {
		return Transcript{}, err
	}
	i, _ := slices.BinarySearch(names, id)
	if i == len(names) || !strings.HasPrefix(names[i], id+".") {
		return Transcript{}, ErrNotFound
	}
	return s.read(names[i])
}

func (s *Store) read(name string) (Transcript, error) {
	f, err := s.open(name)
	if err != nil {
		return Transcript{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return Transcript{}, err
	}
	if len(text) > maxFile {
		return Transcript{}, ErrTorn
	}
	t, err := parse(text)
	if err == nil && !t.is(name) {
		err = ErrTorn
	}
	return t, err
}

// head is read from the first line alone, which is the shorter one.
func (s *Store) head(name string) (Head, error) {
	f, err := s.open(name)
	if err != nil {
		return Head{}, err
	}
	line, err := bufio.NewReader(io.LimitReader(f, maxFile)).ReadBytes('\n')
	if err = errors.Join(err, f.Close()); err != nil {
		return Head{}, err
	}
	var h Head
	if json.Unmarshal(line, &h) != nil || !h.is(name) {
		return Head{}, ErrTorn
	}
	return h, nil
}

// open opens a file. It returns ErrTorn for anything but a regular file: a read from a pipe would
// never end.
func (s *Store) open(name string) (*os.File, error) {
	info, err := s.dir.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, ErrTorn
	}
	var f *os.File
	if err == nil {
		f, err = s.dir.Open(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	return f, err
}
