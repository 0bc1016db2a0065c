package transcript

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// prefix begins ids. The rest is a UUIDv7 in hex, so that ids sort by time.
const prefix = "trn_"

var (
	idForm   = lazyregexp.New(`^trn_[0-9a-f]{32}$`)
	nameForm = lazyregexp.New(`^trn_[0-9a-f]{32}\.tsk_[0-9a-f]{32}\.tsk_[0-9a-f]{32}\.lse_[0-9a-f]{32}$`)
)

// NewID makes one.
func NewID() string {
	u := uuid.Must(uuid.NewV7()) // fails only when the system has no randomness
	return prefix + hex.EncodeToString(u[:])
}

// ValidID reports whether a transcript can have this id.
func ValidID(id string) bool { return idForm.MatchString(id) }

// name is that of a file. ok is false for ids of another form: no text of a sandbox becomes a path.
func (h Head) name() (name string, ok bool) {
	name = strings.Join([]string{h.ID, h.root, h.TaskID, h.LeaseID}, ".")
	return name, nameForm.MatchString(name)
}

// named is what a name says; ok is false for what no transcript is called.
func named(name string) (h Head, at time.Time, ok bool) {
	if !nameForm.MatchString(name) {
		return Head{}, time.Time{}, false
	}
	parts := strings.Split(name, ".")
	h = Head{ID: parts[0], root: parts[1], TaskID: parts[2], LeaseID: parts[3]}
	u, err := uuid.Parse(strings.TrimPrefix(h.ID, prefix))
	if err != nil {
		return Head{}, time.Time{}, false
	}
	sec, nsec := u.Time().UnixTime()
	return h, time.Unix(sec, nsec).UTC(), true
}

// is reports whether a file of this name is of h.
func (h Head) is(name string) bool {
	n, _, ok := named(name)
	return ok && n.ID == h.ID && n.TaskID == h.TaskID && n.LeaseID == h.LeaseID
}
