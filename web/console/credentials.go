package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/agenttext"
)

const (
	listRows = 50
	listLook = 2000 // how many credentials one page looks through, where no index finds them
)

// readers are those who read what ebb did, and take it out. Approvers have their requests.
var readers = []broker.Role{broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner}

// credentialReaders see credentials; those who are no readers without the record of them.
var credentialReaders = append([]broker.Role{broker.RoleViewer}, readers...)

type credentialsPage struct {
	Filter  map[string]string
	States  []option
	Sorts   []option
	Rows    []credential
	Tally   *tally // nil: who reads sees a part of them
	Address string // of this list, without a place in it
	CSV     string
	JSONL   string
	Pager   pager
	Narrow  string // why there is no list yet
	Tail    string // where the newest of the list come from; "" = this page has not the newest
}

type option struct{ Value, Label string }

type tally struct {
	Live, Ending, Making, Unconfirmed, Revoked, Expired string
	Of                                                  int // Revoked and Expired are among so many
	At                                                  time.Time
}

var leaseStates = []option{{"live", "active"}, {"revoking", "ending or unsure"}, {"revoked", "revoked"}, {"expired", "expired"}, {"unconfirmed", "unconfirmed"}, {"intent", "being made"}}

var leaseSorts = []option{{"newest", "newest first"}, {"oldest", "oldest first"}, {"ending", "ending soonest, of the active"}}

func values(options []option) []string {
	out := make([]string, len(options))
	for i, o := range options {
		out[i] = o.Value
	}
	return out
}

// leaseQuery reads the filter of the list.
func leaseQuery(a *asked) broker.LeaseQuery {
	return broker.LeaseQuery{
		State: broker.LeaseState(a.oneOf("state", values(leaseStates)...)), Provider: a.text("provider"), Owner: a.text("owner"), TaskID: a.text("task"),
		Sandbox: a.text("sandbox"), Text: a.text("scope"), From: a.moment("from"), To: a.moment("to"),
		Order: broker.LeaseOrder(a.oneOf("sort", values(leaseSorts)...)),
	}
}

// credentials lists what was issued, whatever became of it.
func (s *Console) credentials(c echo.Context, v *visit) error {
	a := readAsked(c)
	q := leaseQuery(a)
	after, before := a.cursor("after"), a.cursor("before")
	if q.Order == broker.LeaseEnding && q.State != "" && q.State != broker.LeaseLive {
		a.fail("Only active credentials are sorted by when they end.")
	}
	list := "credentials?" + a.kept.Encode()
	if place, back := s.place(a, list, after, before); place != "" {
		q.Place, q.Back = leasePlace(place), back
	}
	if err := a.done(); err != nil {
		return err
	}
	page := credentialsPage{Filter: a.filter(), States: leaseStates, Sorts: leaseSorts}
	page.Address = address("/credentials", a.kept.Encode())
	if v.Has(readers...) {
		page.CSV, page.JSONL = address("/credentials.csv", a.kept.Encode()), address("/credentials.jsonl", a.kept.Encode())
	}
	ctx := c.Request().Context()
	if v.Has(broker.RoleAuditor, broker.RoleOperator, broker.RoleViewer) {
		t, err := s.b.LeaseTally(ctx, v.Principal)
		if err != nil {
			return err
		}
		page.Tally = tallyOf(t)
	} else if q.TaskID == "" && v.Has(readers...) {
		page.Narrow = "You see the credentials of your own tasks. Name one of them, or open it from the list of tasks."
		return s.draw(c, http.StatusOK, v, "credentials", frame{Title: "Credentials", Nav: "/credentials"}, page)
	}
	q.Limit, q.Look = listRows, listLook
	slice, err := s.b.LeaseList(ctx, v.Principal, q)
	if err != nil {
		return err
	}
	for _, l := range slice.Leases {
		page.Rows = append(page.Rows, credential{l, v.now})
	}
	page.Pager = s.leasePager(list, page.Address, q, slice)
	if q.Place.ID == "" && len(page.Rows) > 0 && (q.Order == "" || q.Order == broker.LeaseNewest) {
		page.Tail = address("/credentials/tail", a.kept.Encode())
	}
	return s.draw(c, http.StatusOK, v, "credentials", frame{Title: "Credentials", Nav: "/credentials"}, page)
}

// leasePager names the pages beside one.
func (s *Console) leasePager(list, at string, q broker.LeaseQuery, slice broker.LeaseSlice) pager {
	in := paging{list: list, at: at, placed: q.Place.ID != "", back: q.Back, more: slice.More, stop: placeOf(slice.Stop)}
	if n := len(slice.Leases); n > 0 {
		first, last := slice.Leases[0], slice.Leases[n-1]
		in.first, in.last = placeOf(broker.LeasePlace{ID: first.ID, Ending: first.ExpiresAt}), placeOf(broker.LeasePlace{ID: last.ID, Ending: last.ExpiresAt})
	}
	p := s.pagerOf(in)
	p.Short, p.Look = slice.Short, q.Look
	switch q.Order {
	case broker.LeaseOldest:
		p.Back, p.On = "Older", "Newer"
	case broker.LeaseEnding:
		p.Back, p.On = "Ending sooner", "Ending later"
	}
	return p
}

func placeOf(p broker.LeasePlace) string {
	return strconv.FormatInt(p.Ending.UnixMilli(), 10) + "." + p.ID
}

// leasePlace is the inverse, of what was signed.
func leasePlace(s string) broker.LeasePlace {
	at, id, _ := strings.Cut(s, ".")
	ms, _ := strconv.ParseInt(at, 10, 64)
	return broker.LeasePlace{ID: id, Ending: time.UnixMilli(ms).UTC()}
}

func tallyOf(t broker.LeaseTally) *tally {
	count := func(c broker.Count) string {
		if c.More {
			return strconv.Itoa(c.N) + "+"
		}
		return strconv.Itoa(c.N)
	}
	out := &tally{Live: count(t.Live), Ending: count(t.Revoking), Making: count(t.Intent), Unconfirmed: count(t.Unconfirmed),
		Revoked: strconv.Itoa(t.Recent[broker.LeaseRevoked]), Expired: strconv.Itoa(t.Recent[broker.LeaseExpired]), At: t.At}
	for _, n := range t.Recent {
		out.Of += n
	}
	return out
}

// credential is a lease as it is drawn.
type credential struct {
	broker.Lease
	now time.Time
}

// Word is the state.
func (l credential) Word() string {
	switch l.State {
	case broker.LeaseLive:
		return "active"
	case broker.LeaseIntent:
		return "being made"
	case broker.LeaseRevoking:
		if l.Unsure() {
			return "UNSURE"
		}
		return "ending"
	}
	return string(l.State)
}

// Tone is the part of the sheet that goes with the word.
func (l credential) Tone() string {
	switch l.State {
	case broker.LeaseLive:
		return "good"
	case broker.LeaseIntent:
		return "warn"
	case broker.LeaseRevoking, broker.LeaseUnconfirmed:
		if l.State == broker.LeaseUnconfirmed || l.Unsure() {
			return "bad"
		}
		return "warn"
	}
	return ""
}

// Unsure: it was tried to take it back, and nobody knows whether it is dead.
func (l credential) Unsure() bool {
	return l.State == broker.LeaseRevoking && l.Upstream != nil && l.Upstream.Attempts > 0
}

// Trouble is what went wrong last, as text that nothing hides in: the words may be those
// of the third party.
func (l credential) Trouble() string {
	if l.Upstream == nil || l.Upstream.LastError == "" {
		return ""
	}
	return agenttext.ShowLine(agenttext.From(l.Upstream.LastError), 600)
}

// Proof says how it is known that the credential is dead at its provider.
func (l credential) Proof() string {
	if l.Upstream == nil {
		return ""
	}
	return map[broker.Proof]string{
		broker.ProofProbed: "it was used after its end, and refused", broker.ProofConfirmed: "the provider says so", broker.ProofBound: "the provider took the revocation, and the bound of its class has passed",
		broker.ProofExpired: "its own expiry has passed", broker.ProofNever: "the provider says that it was never minted", broker.ProofForced: "nobody knows: a person said that nothing is owed any more",
		broker.ProofNone: "nobody knows: the answer that may have made it was lost or withheld",
	}[l.Upstream.Proof]
}

// Own: it is a token of ebb's own, dead everywhere as soon as it is refused here.
func (l credential) Own() bool { return l.Upstream == nil }

// DeadAt is when it was dead at its provider, at the latest; zero = not known to be.
func (l credential) DeadAt() time.Time {
	switch {
	case l.Upstream != nil:
		return l.Upstream.DeadAt
	case l.State == broker.LeaseRevoked:
		return l.RevokedAt
	case l.State == broker.LeaseExpired:
		return l.ExpiresAt
	}
	return time.Time{}
}

// Why is who or what ended it.
func (l credential) Why() string {
	return map[broker.Cause]string{
		broker.CauseCompleted: "its task was completed", broker.CauseStopped: "its task was stopped", broker.CauseDeadline: "the deadline of its task passed", broker.CauseHeartbeat: "the runner of its task went silent",
		broker.CauseExited: "its sandbox is gone", broker.CauseLapsed: "its sandbox showed no fresh evidence in time", broker.CauseSuspicious: "an approver denied a request of its task as suspicious",
		broker.CauseParent: "the task above its own ended", broker.CauseExpired: "it had its whole time",
	}[l.Cause]
}

// Left is whether it still has time.
func (l credential) Left() bool { return l.State == broker.LeaseLive && l.ExpiresAt.After(l.now) }
