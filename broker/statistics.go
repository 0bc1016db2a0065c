package broker

import (
	"context"
	"time"
)

// Bounds of one Figures: what a window has more of is left out at its beginning.
const (
	FigureRows  = 200_000 // credentials, requests, refusals, ended tasks, uses; of each
	FigureVotes = 20_000
	FigureNames = 10 // scopes and providers
)

// Statistics sums up what happened in a window.
type Statistics interface {
	// Figures costs what is in the window, at most what the bounds above say, and not
	// what there is. In cells of a day, what is final of a day may be kept for a day.
	Figures(ctx context.Context, f FigureFilter) (Figures, error)
	// Usage costs the credentials and the uses of its window, at most FigureRows of each, and the first
	// entries of credentials that were not used among those.
	Usage(ctx context.Context, f UsageFilter) (Usage, error)
}

// FigureFilter is a window.
type FigureFilter struct {
	From, To time.Time     // [From, To), From before To
	Now      time.Time     // what has ended by then; required
	Cell     time.Duration // length of the cells; the first begins at From.Truncate(Cell)
}

// Figures are sums over a window.
type Figures struct {
	From, To  time.Time // From is later than asked for when there is more than the bounds allow
	Cut       bool      // it is
	Cell      time.Duration
	Cells     []FigureCell // all of the window, also empty ones
	Decisions []Decision   // newest first
	Scopes    []Busy       // scopes that credentials were issued with, the most frequent first
	Providers []Busy
	Ends      []TaskEnds // the most frequent first
	Deaths    []Deaths   // by provider
}

// FigureCell is what happened in one cell.
type FigureCell struct {
	Start time.Time // of the cell, not of the window

	// Requests made in it, by what has come of them so far.
	Taken      int // approved, and a token was fetched
	Fetchable  int // approved, and a token can still be fetched
	Untaken    int // approved, and none was fetched in time
	Denied     int
	Unanswered int
	Withdrawn  int // before anybody approved
	Waiting    int

	Refused int // at once: nobody was asked

	// Credentials. A revocation is an end here before the credential's time.
	Issued, Revoked, Expired int
}

// Asked is how many requests were made.
func (c FigureCell) Asked() int {
	return c.Taken + c.Fetchable + c.Untaken + c.Denied + c.Unanswered + c.Withdrawn + c.Waiting
}

// Decision is one person's answer to one request.
type Decision struct {
	By      string
	Groups  []string // those of the person's that had a say in it, sorted
	Approve bool
	Took    time.Duration // since the request was made
	At      time.Time
}

// Busy is how many credentials were issued with one scope set, or by one provider.
type Busy struct {
	Name string
	N    int
}

// TaskEnds is how many tasks ended by one cause.
type TaskEnds struct {
	Cause Cause
	N     int
}

// Deaths is what is known of the credentials of one provider that died there in the
// window. P50, P95 (nearest rank) and Max are from the end here to the death there, of
// the N whose death the provider or their own expiry showed.
type Deaths struct {
	Provider      string
	N             int
	ByExpiry      int // of N: only their own expiry showed it
	P50, P95, Max time.Duration
	Never         int // the provider says that it never made them
	Forced        int // a person said so; not among N
}
