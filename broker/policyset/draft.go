package policyset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/broker/people"
)

// MaxDrafts is the highest number of drafts that are open at the same time.
const MaxDrafts = 50

// Draft is a proposed policy set. Only its author changes it, and another person has to publish
// it. A person with a better text makes a draft of their own. Each text therefore has one author
// and a different publisher.
type Draft struct {
	ID        string
	Author    string   // id of the principal
	Also      []string // other names of the author
	Note      string   // by the author, one line
	Base      string   // version of the set it was written against
	After     int64    // number of that release; 0 = it was none
	Version   string   // of the set that the files are
	Files     []File   // sorted by name; they load
	CreatedAt time.Time
	ChangedAt time.Time
}

// Digest returns the SHA-256, in hex, of the texts of the draft and of the set that it replaces.
// The publisher signs this digest.
func (d Draft) Digest() string {
	h := sha256.New()
	part := func(s string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s)))) // lengths, so that no two lists join to the same text
		h.Write([]byte(s))
	}
	for _, s := range []string{"ebb policy draft v1", d.ID, d.Author, d.Base, strconv.FormatInt(d.After, 10), d.Note} {
		part(s)
	}
	for _, f := range d.Files {
		part(f.Name)
		part(f.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Wrote reports whether one of these names is the author.
func (d Draft) Wrote(names ...string) bool {
	return people.Same(append([]string{d.Author}, d.Also...), names)
}

// Release is a policy set that was published. Releases are never changed or removed.
type Release struct {
	Number    int64 // 1, 2, 3 ...
	Version   string
	Before    string // version of the set in whose place it came
	Files     []File
	Draft     string // id of the draft it was
	Digest    string // of that draft
	Note      string
	Author    string
	Publisher string
	Proof     string // what proves the publisher's yes: JSON of a passkey's assertion; "" = the session alone
	At        time.Time
}

// Source names the origin of the set in force.
type Source string

// Sources.
const (
	Starter  Source = "starter"  // built in
	Files    Source = "files"    // a directory; ebb does not store its history
	Database Source = "database" // releases
)

// InForce is the set that decides requests now.
type InForce struct {
	Version string
	Source  Source
	Number  int64     // of the release; 0 = it is none
	Since   time.Time // this process decides by it
	Author  string    // of a release
	By      string    // who published it
	Files   []File
}
