package broker

import (
	"context"
	"time"
)

// Bounds of one Figures. A window with more rows loses its oldest ones.
const (
	FigureRows  = 200_000 // of each: credentials, requests, refusals, ended tasks, uses
	FigureVotes = 20_000
	FigureNames = 10 // scopes and providers
)

// Statistics sums up the events of a window of time.
type Statistics interface {
	// Figures reads only rows of the window, within the bounds above. With cells of one day,
	// the final figures of a day may be cached for a day.
	Figures(ctx context.Context, f FigureFilter) (Figures, error)
	// Usage reads the credentials and the uses of its window, at most FigureRows of each, and
	// the first entries of the credentials that those uses do not name.
	Usage(ctx context.Context, f UsageFilter) (Usage, error)
}

// FigureFilter is a window of time.
type FigureFilter struct {
	From, To time.Time     // [From, To), From before To
	Now      time.Time     // credentials that expired before it count as ended; required
	Cell     time.Duration // length of the cells; the first begins at From.Truncate(Cell)
}

// Figures are sums over a window.
type Figures struct {
	From, To    time.Time // later than requested when the window has more rows than the bounds allow
	Cut         bool      // From is later than requested
	Cell        time.Duration
	Cells       []FigureCell // all cells of the window, including empty ones
	Decisions   []Decision   // newest first
	Scopes      []Busy       // scopes of issued credentials, most frequent first
	Providers   []Busy
	Ends        []TaskEnds        // most frequent first
	Revocations []RevocationTimes // by provider
}

// FigureCell counts the events of one cell.
type FigureCell struct {
	Start time.Time // of the cell, not of the window

	// Requests made in the cell, by their state now.
	Taken      int // approved, and a token was fetched
	Fetchable  int // approved, and a token can still be fetched
	Untaken    int // approved, and no token was fetched in time
	Denied     int
	Unanswered int
	Withdrawn  int // before an approval
	Waiting    int

	Refused int // denied at once, without asking a person

	// Credentials. Revoked counts ends before the expiry.
	Issued, Revoked, Expired int
}

// Asked returns the number of requests.
func (c FigureCell) Asked() int {
	return c.Taken + c.Fetchable + c.Untaken + c.Denied + c.Unanswered + c.Withdrawn + c.Waiting
}

// Decision is one person's vote on one request.
type Decision struct {
	By      string
	Groups  []string // groups through which the person was eligible, sorted
	Approve bool
	Timed   bool          // the person answered on a page, and its time is known
	Took    time.Duration // with Timed: since the page was shown
	At      time.Time
}

// Busy is the number of credentials issued with one set of scopes, or by one provider.
type Busy struct {
	Name string
	N    int
}

// TaskEnds is the number of tasks ended for one cause.
type TaskEnds struct {
	Cause Cause
	N     int
}

// RevocationTimes sums up the revocations at one provider that were completed in the window. P50, P95
// (nearest rank) and Max measure the time from the end at ebb to the refusal at the provider.
// They cover the N credentials for which the provider, or their own expiry, proved the refusal.
type RevocationTimes struct {
	Provider      string
	N             int
	ByExpiry      int // of N: proved by their own expiry alone
	P50, P95, Max time.Duration
	Never         int // the provider says that it never minted them
	Forced        int // a person recorded the end by force; not in N
}

// UsageBy is the property by which credentials are grouped.
type UsageBy string

// UsageFilter is a window that ends now.
type UsageFilter struct {
	From, Now time.Time // [From, Now]; required, From before Now
	By        UsageBy
}

// Usage compares issued credentials with their use. It covers credentials that were issued
// since From and are delivered by egress, which logs each request and session before it
// forwards it. ebb does not see the use of credentials that were issued to sandboxes, except
// for SSH connections through egress.
type Usage struct {
	From time.Time // later than requested when there are more than FigureRows credentials
	Cut  bool      // From is later than requested
	// UsesFrom is the beginning of Uses and LastUsed: From, or later when there are more than
	// FigureRows uses. It does not affect whether a credential counts as used.
	UsesFrom  time.Time
	At        time.Time // when it was counted
	By        UsageBy
	HandedOut int          // other credentials since From, issued to sandboxes
	Carried   int          // of HandedOut: those with an SSH connection through egress
	Items     []GrantUsage // most unused first, then most issued
	More      bool         // there are more rows than Items
}

// GrantUsage is one row of a Usage. Credentials neither used nor unused are live and can still
// be used.
type GrantUsage struct {
	Provider string
	Scope    string // separated by spaces
	Tool     string
	Owner    string
	TaskID   string
	Issued   int       // credentials
	Used     int       // of Issued: used at least once
	Unused   int       // of Issued: ended, and never used
	Uses     int       // requests and sessions forwarded with them since UsesFrom
	LastUsed time.Time // zero = not since UsesFrom
}

// First returns u with only its first n rows.
func (u Usage) First(n int) Usage {
	if len(u.Items) > n {
		u.Items, u.More = u.Items[:n:n], true
	}
	if u.Items == nil {
		u.Items = []GrantUsage{}
	}
	return u
}
