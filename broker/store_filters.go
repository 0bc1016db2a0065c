package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
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
	Below      string // delegated by this task, at any depth
	Orphaned   bool   // not closed, although the parent is
	Throttled  bool   // paused by ebb because of the task's requests
	ClosedFrom time.Time
	Page       Page
}

// LeaseFilter selects leases by their derived state (see Lease).
type LeaseFilter struct {
	IDs      []string
	Parents  []string // narrowed from one of these; at most 1000
	TaskID   string
	Tree     string // of this task or of tasks delegated below it
	Owner    string
	Sandbox  string
	Provider string
	State    LeaseState

	Resources []string // for one of these resources; at most 1000

	From, To time.Time // issued in [From, To)
	Now      time.Time // "expired" is relative to it; required
	Upstream bool      // only those of third parties
	Handles  bool      // with their sealed handles, which listings leave out
	Page     Page

	ExpiresAfter time.Time // expires or expired after this time
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

// Room limits how many requests people are asked. 0 = no limit.
type Room struct {
	// Open limits the pending requests of the task, of its ancestors and of all tasks delegated
	// below the first ancestor (ErrCap).
	Open int
	// Owner limits the requests of the owner at the same runner that were created after Since
	// (ErrOwnerCap).
	Owner int
	Since time.Time
}

// RequestFilter selects requests.
type RequestFilter struct {
	IDs       []string
	TaskID    string
	Tree      string // of this task or of tasks delegated below it
	Owner     string
	Provider  string
	State     RequestState
	Open      bool      // pending or approved: it can still lead to a token
	Group     string    // decidable by this group
	Sight     *Sight    // only requests that this principal may see; nil = all
	GrantLive time.Time // approved or issued with GrantUntil after it
	Since     time.Time // created or decided after it
	From, To  time.Time // created in [From, To)
	Dedupe    string
	ExpiredAt time.Time // pending with ExpiresAt not after it
	Voted     bool      // at least one person has voted
	Snapshots bool      // votes include the evidence snapshot (Vote.Snapshot)
	// BreakGlass selects requests that were approved under this period; "" = no selection.
	BreakGlass string
	Page       Page
}

// Sight limits the requests that a principal sees who is neither auditor nor operator: those
// that its groups decide and those of its own tasks.
type Sight struct {
	Groups []string
	Runner string
	// Glass is the break-glass period of the principal: waiting requests, and requests approved
	// in the period, are visible too; "" = none.
	Glass string
}

// WaitFilter selects pending requests that have not expired, in the order of the queue: the
// highest Rank first, then the earliest ExpiresAt, then the id.
type WaitFilter struct {
	Now     time.Time // required
	Sight   *Sight    // only requests that this principal may see; nil = all
	NotOf   []string  // leave out tasks that one of these names owns or runs, in any spelling (people.Same)
	NotBy   string    // leave out requests that have a vote of this principal
	Rank    int       // 0 = any
	TaskID  string
	Without []string // leave out these tasks, which a runner opened, and those delegated below them; at most 100
	After   Place    // exclusive; zero = from the start
	Limit   int      // how many requests to read: 1..1000, 0 = 50

	// Without an index: each row is compared.
	Provider string
	Text     string // the scope or the owner contains it
}

// WaitSlice is what Waiting found.
type WaitSlice struct {
	Places []Place
	Looked int   // number of requests that were read
	Stop   Place // where reading stopped, when there may be more; zero = at the end
}

// WaitingCap bounds the counts of waiting requests. With as many waiting, an exact number does
// not matter.
const WaitingCap = 1000

// Place is the position of a request in the queue.
type Place struct {
	Rank      int
	ExpiresAt time.Time
	ID        string
}

// Place returns the position of r in the queue.
func (r Request) Place() Place { return Place{r.Rank, r.ExpiresAt, r.ID} }

// After reports whether p comes after o in the queue.
func (p Place) After(o Place) bool {
	return cmp.Or(cmp.Compare(o.Rank, p.Rank), p.ExpiresAt.Compare(o.ExpiresAt), cmp.Compare(p.ID, o.ID)) > 0
}

// Listing returns pages of leases and audit entries. The cost of a page does not grow with the
// table: it reads a bounded number of rows, and reports when it stopped at that bound instead
// of the end.
type Listing interface {
	// LeaseList returns one page, in the order of the query for both directions.
	LeaseList(ctx context.Context, q LeaseQuery) (LeaseSlice, error)
	// LeaseTally counts leases at a moment.
	LeaseTally(ctx context.Context, now time.Time) (LeaseTally, error)
	// EntryList returns one page of the audit log.
	EntryList(ctx context.Context, q EntryQuery) (EntrySlice, error)
}

// LeaseOrder is how a list of leases is sorted.
type LeaseOrder string

// Orders. Ids sort by time of creation, so that the first two are orders by id.
const (
	LeaseNewest LeaseOrder = "newest"
	LeaseOldest LeaseOrder = "oldest"
	LeaseEnding LeaseOrder = "ending" // live leases, the first to expire first
)

// LeasePlace identifies a position in a list by the lease there. Ending is the lease's expiry,
// needed only in the order LeaseEnding.
type LeasePlace struct {
	ID     string
	Ending time.Time
}

// LeaseQuery asks for a page. Task, owner, provider and the rare states have an index; Sandbox
// selects one task; From and To narrow the range of ids. All other members are compared row by
// row, for at most Look rows.
type LeaseQuery struct {
	TaskID   string
	Owner    string
	Sandbox  string
	Provider string
	State    LeaseState
	Text     string    // the scope contains it, byte for byte
	Resource string    // the scope allows an action on it or on a resource below it; a page can then have fewer than Limit leases, with More
	From, To time.Time // issued in [From, To)
	Now      time.Time // required
	Order    LeaseOrder
	Place    LeasePlace // end of the previous page, exclusive; zero = the start
	Back     bool       // the page that ends at Place
	Limit    int        // 1..1000
	Look     int        // largest number of rows to read; at least Limit+1
}

// LeaseSlice is one page.
type LeaseSlice struct {
	Leases []Lease
	More   bool       // there may be more leases after the page
	Stop   LeasePlace // with More: where to go on
	Short  bool       // with More: the page ended at Look, not at Limit
}

// TallyCap bounds the leases that LeaseTally reads for each of its numbers.
const TallyCap = 1000

// Count is a number of leases; with More there are at least N.
type Count struct {
	N    int
	More bool
}

// LeaseTally holds the counts shown above a list of leases.
type LeaseTally struct {
	Live, Intent, Revoking, Unconfirmed Count
	// Recent counts the states of the newest leases, TallyCap of them at most. Ended leases are
	// too many to count all of them each time.
	Recent map[LeaseState]int
	At     time.Time // when it was counted; set by Broker.LeaseTally
}

// EntryPlace identifies a position in the audit log by the entry there.
type EntryPlace struct {
	At     time.Time
	Writer string
	Seq    int64
}

// EntryQuery asks for a page of the audit log, ordered by (At, Writer, Seq). Task, lease,
// request, kind and time have an index. An actor, a prefix of kinds and the kinds that every
// mint writes are compared row by row, for at most Look rows.
type EntryQuery struct {
	TaskID, LeaseID, RequestID string
	Kinds                      []string // any of these; one that ends in "." is a prefix
	Actor                      string
	Writer                     string // with FirstSeq and LastSeq: a range of its chain
	FirstSeq, LastSeq          int64
	From, To                   time.Time // in [From, To)
	Place                      EntryPlace
	Oldest                     bool // oldest first
	Back                       bool // the page that ends at Place
	Limit                      int  // 1..1000
	Look                       int  // at least Limit+1
}

// EntrySlice is one page of the audit log; see LeaseSlice.
type EntrySlice struct {
	Entries []audit.Entry
	More    bool
	Stop    EntryPlace
	Short   bool
	LeftOut int // entries hidden from the caller; the store itself hides none
}
