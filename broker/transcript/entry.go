package transcript

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// Entry is a transcript whose request is under way. The caller calls End or Drop; later calls do
// nothing.
type Entry struct {
	s        *Store
	root     string
	name     string
	reserved int64
	written  int64
	once     sync.Once
}

// Begin writes a request that is about to be sent. root is the task that the runner created:
// t.TaskID itself or its ancestor. room is the largest size of both lines in bytes; it is reserved
// until End or Drop. Without room, the error wraps ErrFull.
func (s *Store) Begin(t Transcript, root string, room int64) (*Entry, error) {
	t.root = root
	name, ok := t.name()
	if !ok {
		return nil, fmt.Errorf("transcript: %q is not a valid file name: an id of the transcript, task or lease has another form", name)
	}
	text, err := line(t)
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > room {
		return nil, errRoom
	}
	e := &Entry{s: s, root: root, name: name, reserved: blocks(room), written: int64(len(text))}
	if err := s.reserve(root, name, e.reserved); err != nil {
		if _, swept := s.erase(eraseSoon); swept != nil {
			return nil, errors.Join(err, swept)
		}
		if err := s.reserve(root, name, e.reserved); err != nil {
			return nil, err
		}
	}
	if err := s.write(name, os.O_CREATE|os.O_EXCL, text); err != nil {
		e.Drop()
		return nil, err
	}
	return e, nil
}

var errRoom = errors.New("transcript: the text is longer than the reserved space")

// write appends to a file, or makes it.
func (s *Store) write(name string, how int, text []byte) error {
	f, err := s.dir.OpenFile(name, os.O_WRONLY|os.O_APPEND|how, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil && how != 0 { // the record will name it
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// End writes the response and the summary of the request's body.
func (e *Entry) End(request Body, answer Message) (err error) {
	e.once.Do(func() {
		var text []byte
		if text, err = line(ending{request, answer}); err == nil && e.written+int64(len(text)) > e.reserved {
			err = errRoom
		}
		if err == nil {
			err = e.s.write(e.name, 0, text)
		}
		takes := e.reserved
		if info, statErr := e.s.dir.Lstat(e.name); statErr == nil {
			takes = blocks(info.Size())
		} else if errors.Is(statErr, os.ErrNotExist) { // removed by hand
			takes = 0
		}
		e.s.settle(e.root, e.name, takes)
	})
	return err
}

// Drop erases one whose request did not leave.
func (e *Entry) Drop() {
	e.once.Do(func() {
		takes := int64(0)
		if err := e.s.dir.Remove(e.name); err != nil && !errors.Is(err, os.ErrNotExist) {
			takes = e.reserved
		}
		e.s.settle(e.root, e.name, takes)
	})
}
