package broker

import (
	"cmp"
	"time"
)

// Page is a cursor over ids, which sort by time of creation.
type Page struct {
	After string // exclusive; "" = from the start
	Limit int    // 1..1000, 0 = 50
	Desc  bool   // newest first
}

// TaskFilter selects tasks. Zero members match everything.
type TaskFilter struct {
	IDs        []string
	State      TaskState
	Open       bool // open or paused
	Owner      string
	Runner     string
	Kind       string
	Below      string // delegated to by this task, at any depth
	Orphaned   bool   // not closed, while the parent is
	Held       bool   // paused by ebb, because of what it asked
	ClosedFrom time.Time
	Page       Page
}

// LeaseFilter selects leases by their derived state (see Lease).
type LeaseFilter struct {
	IDs      []string
	Parents  []string // narrowed from one of these; at most 1000
	TaskID   string
	Tree     string // of this task or of those that were delegated below it
	Owner    string
	Sandbox  string
	Provider string
	State    LeaseState
	From, To time.Time // issued in [From, To)
	Now      time.Time // "expired" is relative to it; required
	Upstream bool      // only those of third parties
	Handles  bool      // with their sealed handles, which listings leave out
	Page     Page

	ExpiresAfter time.Time // expires, or expired, after it
}

// EntryFilter selects audit entries.
type EntryFilter struct {
	TaskID, LeaseID, RequestID string
	Kind                       string // exact, or a prefix that ends in "."
	Actor                      string
	Writer                     string
	AfterSeq                   int64 // with Writer
	From, To                   time.Time
	Limit                      int // 0 = all
	Desc                       bool
}

// Room is how many requests people are bothered with. 0 = no limit.
type Room struct {
	// Open bounds those that are pending of the task, of those above it and of all
	// that were delegated below the first of them (ErrCap).
	Open int
	// Owner bounds those of the owner at the same runner that were created after Since
	// (ErrOwnerCap).
	Owner int
	Since time.Time
}

// RequestFilter selects requests.
type RequestFilter struct {
	IDs       []string
	TaskID    string
	Tree      string // of this task or of those that were delegated below it
	Owner     string
	Provider  string
	State     RequestState
	Open      bool      // pending or approved: it can still lead to a token
	Group     string    // decidable by this group
	Sight     *Sight    // only what this principal may see; nil = all
	GrantLive time.Time // approved or issued with GrantUntil after it
	Since     time.Time // created or decided after it
	Dedupe    string
	ExpiredAt time.Time // pending with ExpiresAt not after it
	Voted     bool      // somebody has answered
	Seen      bool      // votes come with what was seen
	// BreakGlass is the period under which somebody said yes alone; "" = whichever.
	BreakGlass string
	Page       Page
}

// Sight is what a principal who is neither auditor nor operator may see of
// requests: those that its groups decide and those of its own tasks.
type Sight struct {
	Groups []string
	Runner string
	// Glass is the period in which they approve alone: also what waits, and what was
	// approved under it; "" = none.
	Glass string
}

// WaitFilter selects pending requests whose time is not over, in the order of the queue: the
// highest Rank first, then those that end first, then by id.
type WaitFilter struct {
	Now     time.Time // required
	Sight   *Sight    // only what this principal may see; nil = all
	NotOf   []string  // not of tasks that one of these names owns or runs, whatever the letter case
	Rank    int       // 0 = any
	TaskID  string
	Without []string // not of these tasks and those delegated below them, which a runner opened; at most 100
	After   Place    // exclusive; zero = from the start
	Limit   int      // how many to look at: 1..1000, 0 = 50

	// Looked for in the rows.
	Provider string
	Text     string // the scope or the owner holds it
}

// WaitSlice is what Waiting found.
type WaitSlice struct {
	Places []Place
	Looked int   // at how many it looked
	Stop   Place // where it stopped, so that there may be others; zero = it came to the end
}

// WaitingCap is how many of what waits are counted: who has that much before them needs
// no exact number.
const WaitingCap = 1000

// Place is where in the queue a request stands.
type Place struct {
	Rank      int
	ExpiresAt time.Time
	ID        string
}

// Place is where r stands in the queue.
func (r Request) Place() Place { return Place{r.Rank, r.ExpiresAt, r.ID} }

// after reports whether p comes after another place in the queue.
func (p Place) after(o Place) bool {
	return cmp.Or(cmp.Compare(o.Rank, p.Rank), p.ExpiresAt.Compare(o.ExpiresAt), cmp.Compare(p.ID, o.ID)) > 0
}
