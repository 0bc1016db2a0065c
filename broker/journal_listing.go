package broker

import (
	"context"
	"time"

	"ebb/broker/audit"
)

// Listing is what people page through. What a page costs does not grow with the
// table: a page looks at a bounded number of rows, and says when it stopped at that
// bound and not at the end.
type Listing interface {
	// LeaseList returns one page, in the order of the query whichever way it pages.
	LeaseList(ctx context.Context, q LeaseQuery) (LeaseSlice, error)
	// LeaseTally sums leases up at a moment.
	LeaseTally(ctx context.Context, now time.Time) (LeaseTally, error)
	// EntryList returns one page of the record.
	EntryList(ctx context.Context, q EntryQuery) (EntrySlice, error)
}

// LeaseOrder is how a list of leases is sorted.
type LeaseOrder string

// Orders. Ids sort by time of creation, so that the first two are those of ids.
const (
	LeaseNewest LeaseOrder = "newest"
	LeaseOldest LeaseOrder = "oldest"
	LeaseEnding LeaseOrder = "ending" // those that are live, the first to expire first
)

// LeasePlace is a place between two leases of a list: that of one of them. Ending is
// its expiry, and needed in the order LeaseEnding alone.
type LeasePlace struct {
	ID     string
	Ending time.Time
}

// LeaseQuery asks for a page. Task, owner and provider have an index, a sandbox is that
// of one task, times of issue narrow the ids, and of states those that are few have
// one. Everything else is looked for in the rows, Look of them for a page.
type LeaseQuery struct {
	TaskID   string
	Owner    string
	Sandbox  string
	Provider string
	State    LeaseState
	Text     string    // the scope holds it, byte for byte
	From, To time.Time // issued in [From, To)
	Now      time.Time // required
	Order    LeaseOrder
	Place    LeasePlace // where the page before ended, exclusive; zero = the start
	Back     bool       // the page that ends at Place
	Limit    int        // 1..1000
	Look     int        // how many rows to look at, at most; at least Limit+1
}

// LeaseSlice is one page.
type LeaseSlice struct {
	Leases []Lease
	More   bool       // there may be others further on
	Stop   LeasePlace // with More: where to go on
	Short  bool       // with More: Look ended it and not Limit
}

// TallyCap is how many leases LeaseTally looks at for each of its numbers.
const TallyCap = 1000

// Count is how many there are; with More at least so many.
type Count struct {
	N    int
	More bool
}

// LeaseTally is what a list of leases has at its head.
type LeaseTally struct {
	Live, Intent, Revoking, Unconfirmed Count
	// Recent are the states of the newest leases, TallyCap of them at most: those that
	// are over are too many to be counted each time.
	Recent map[LeaseState]int
	At     time.Time // when it was counted; set by Broker.LeaseTally
}

// EntryPlace is a place between two entries of the record: that of one of them.
type EntryPlace struct {
	At     time.Time
	Writer string
	Seq    int64
}

// EntryQuery asks for a page of the record, in the order (At, Writer, Seq). Task, lease,
// request, kind and time have an index; an actor, kinds that begin alike and what every
// mint writes are looked for in the rows, Look of them for a page.
type EntryQuery struct {
	TaskID, LeaseID, RequestID string
	Kinds                      []string // any of these; one that ends in "." stands for all that begin so
	Actor                      string
	Writer                     string // with FirstSeq and LastSeq: that part of its chain
	FirstSeq, LastSeq          int64
	From, To                   time.Time // in [From, To)
	Place                      EntryPlace
	Oldest                     bool // oldest first
	Back                       bool // the page that ends at Place
	Limit                      int  // 1..1000
	Look                       int  // at least Limit+1
}

// EntrySlice is one page of the record; see LeaseSlice.
type EntrySlice struct {
	Entries []audit.Entry
	More    bool
	Stop    EntryPlace
	Short   bool
	LeftOut int // entries that are hidden from who asked; the store leaves none out
}
