package policyset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// MaxDrafts is how many drafts are open at one time.
const MaxDrafts = 50

// Draft is a policy set that somebody proposes. Only its author changes it: whoever else
// has a better one makes a draft of their own, so that of every text one person is the
// author and another one the publisher.
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

// Digest names what a person publishes: these texts, in place of that set. hex SHA-256.
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

// Wrote reports whether any of these names is the author. Letter case is not another
// person.
func (d Draft) Wrote(names ...string) bool {
	for _, mine := range append([]string{d.Author}, d.Also...) {
		for _, n := range names {
			if strings.EqualFold(mine, n) {
				return true
			}
		}
	}
	return false
}
