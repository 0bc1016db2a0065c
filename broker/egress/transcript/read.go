package transcript

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Filter selects transcripts; "" = any.
type Filter struct {
	TaskID, LeaseID string
	After           string // the id of the last one of the page before
	Limit           int    // 0 = 100
}

const (
	defaultLimit = 100
	maxLimit     = 1000
	maxFile      = 4 << 20 // longer than any that ebb writes
)

// ErrNotFound is of a transcript that is not there, or not there any more.
var ErrNotFound = errors.New("transcript: there is no such transcript here")

// names are those of all transcripts, the oldest first. Other files are nobody's business.
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

// List are those that a filter selects, the newest first, without what was said in them.
func (s *Store) List(f Filter) ([]Head, error) {
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	f.Limit = min(f.Limit, maxLimit)
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	out := []Head{}
	for _, name := range slices.Backward(names) {
		h, at, _ := named(name)
		if h.At = at; f.After != "" && h.ID >= f.After || f.TaskID != "" && h.TaskID != f.TaskID || f.LeaseID != "" && h.LeaseID != f.LeaseID {
			continue
		}
		t, err := s.read(name)
		switch {
		case errors.Is(err, ErrNotFound): // erased meanwhile
			continue
		case errors.Is(err, ErrTorn): // that it is there is all that is known of it
			t.Head = h
		case err != nil:
			return nil, err
		}
		if out = append(out, t.Head); len(out) == f.Limit {
			break
		}
	}
	return out, nil
}

// Read is one transcript, or ErrNotFound.
func (s *Store) Read(id string) (Transcript, error) {
	if !idForm.MatchString(id) {
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
	f, err := s.dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Transcript{}, ErrNotFound
	}
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
	h, _, _ := named(name)
	if err == nil && (t.ID != h.ID || t.TaskID != h.TaskID || t.LeaseID != h.LeaseID) {
		err = ErrTorn
	}
	return t, err
}
