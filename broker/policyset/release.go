package policyset

import "time"

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

// Source is where the set in force comes from.
type Source string

// Sources.
const (
	Starter  Source = "starter"  // built in
	Files    Source = "files"    // a directory, of which somebody else keeps the history
	Database Source = "database" // releases
)

// InForce is the set that decides.
type InForce struct {
	Version string
	Source  Source
	Number  int64     // of the release; 0 = it is none
	Since   time.Time // this process decides by it
	Author  string    // of a release
	By      string    // who published it
	Files   []File
}
