package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/core"
)

// credentialPages lists credentials, and revokes or retries one.
type credentialPages struct {
	b *core.Broker

	audit  *auditPages
	pages  *pages
	visits *visits
}

const (
	listRows = 50
	listLook = 2000 // rows that one page scans at most when no index covers the filter
)

// readers may read and export the audit entries. Approvers see their requests
// only.
var readers = []broker.Role{broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner}

// credentialReaders may list credentials. Viewers among them cannot read the
// audit entries.
var credentialReaders = append([]broker.Role{broker.RoleViewer}, readers...)

type credentialsPage struct {
	Filter  map[string]string
	States  []option
	Sorts   []option
	Rows    []credential
	Tally   *tally // nil: the visitor may see only some credentials
	Address string // of this list, without a cursor
	CSV     string
	JSONL   string
	Pager   pager
	Narrow  string // why no list is shown
	Tail    string // URL of the newest rows; "" = this page does not show the newest rows
}

type option struct{ Value, Label string }

type tally struct {
	Live, Ending, Making, Unconfirmed, Revoked, Expired string
	Of                                                  int // number of credentials that Revoked and Expired were counted in
	At                                                  time.Time
}

var leaseStates = []option{{"live", "active"}, {"revoking", "revoking or unsure"}, {"revoked", "revoked"}, {"expired", "expired"}, {"unconfirmed", "unconfirmed"}, {"intent", "being issued"}}

var leaseSorts = []option{{"newest", "newest first"}, {"oldest", "oldest first"}, {"ending", "active, earliest expiry first"}}

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

// credentials lists issued credentials in every state.
func (cp *credentialPages) credentials(c echo.Context, v *visit) error {
	a := readAsked(c)
	q := leaseQuery(a)
	after, before := a.cursor("after"), a.cursor("before")
	if q.Order == broker.LeaseEnding && q.State != "" && q.State != broker.LeaseLive {
		a.fail("Only active credentials can be sorted by expiry. Set the state to active or any.")
	}
	list := "credentials?" + a.kept.Encode()
	if place, back := cp.pages.place(a, list, after, before); place != "" {
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
		t, err := cp.b.LeaseTally(ctx, v.Principal)
		if err != nil {
			return err
		}
		page.Tally = tallyOf(t)
	} else if q.TaskID == "" && v.Has(readers...) {
		page.Narrow = "You can see the credentials of your own tasks only. Enter the id of a task, or open a task from the list of tasks."
		return cp.pages.draw(c, http.StatusOK, v, "credentials", frame{Title: "Credentials", Nav: "/credentials"}, page)
	}
	q.Limit, q.Look = listRows, listLook
	slice, err := cp.b.LeaseList(ctx, v.Principal, q)
	if err != nil {
		return err
	}
	for _, l := range slice.Leases {
		page.Rows = append(page.Rows, credential{l, v.now})
	}
	page.Pager = cp.leasePager(list, page.Address, q, slice)
	if q.Place.ID == "" && len(page.Rows) > 0 && (q.Order == "" || q.Order == broker.LeaseNewest) {
		page.Tail = address("/credentials/tail", a.kept.Encode())
	}
	return cp.pages.draw(c, http.StatusOK, v, "credentials", frame{Title: "Credentials", Nav: "/credentials"}, page)
}

// leasePager returns the links to the pages next to this one.
func (cp *credentialPages) leasePager(list, at string, q broker.LeaseQuery, slice broker.LeaseSlice) pager {
	in := paging{list: list, at: at, placed: q.Place.ID != "", back: q.Back, more: slice.More, stop: placeOf(slice.Stop)}
	if n := len(slice.Leases); n > 0 {
		first, last := slice.Leases[0], slice.Leases[n-1]
		in.first, in.last = placeOf(broker.LeasePlace{ID: first.ID, Ending: first.ExpiresAt}), placeOf(broker.LeasePlace{ID: last.ID, Ending: last.ExpiresAt})
	}
	p := cp.pages.pagerOf(in)
	p.Short, p.Look = slice.Short, q.Look
	switch q.Order {
	case broker.LeaseOldest:
		p.Back, p.On = "Older", "Newer"
	case broker.LeaseEnding:
		p.Back, p.On = "Earlier expiry", "Later expiry"
	}
	return p
}

func placeOf(p broker.LeasePlace) string {
	return strconv.FormatInt(p.Ending.UnixMilli(), 10) + "." + p.ID
}

// leasePlace parses the text of placeOf. The text comes from a signed cursor,
// so errors are ignored.
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

// credential is a lease with the texts that pages show for it.
type credential struct {
	broker.Lease
	now time.Time
}

// Word returns the visible name of the state.
func (l credential) Word() string {
	switch l.State {
	case broker.LeaseLive:
		return "active"
	case broker.LeaseIntent:
		return "being issued"
	case broker.LeaseRevoking:
		if l.Unsure() {
			return "UNSURE"
		}
		return "revoking"
	}
	return string(l.State)
}

// Tone returns the CSS class of the state.
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

// Unsure reports that at least one revocation attempt was made and none
// succeeded: the provider may still accept the credential.
func (l credential) Unsure() bool {
	return l.State == broker.LeaseRevoking && l.Upstream != nil && l.Upstream.Attempts > 0
}

// Trouble returns the last revocation error with invisible characters escaped.
// The text may come from a third party.
func (l credential) Trouble() string {
	if l.Upstream == nil || l.Upstream.LastError == "" {
		return ""
	}
	return agenttext.ShowLine(agenttext.From(l.Upstream.LastError), 600)
}

// Proof explains why the credential is considered dead at its provider.
func (l credential) Proof() string {
	if l.Upstream == nil {
		return ""
	}
	return map[broker.Proof]string{
		broker.ProofProbed: "a probe after the revocation was refused", broker.ProofConfirmed: "the provider confirmed it", broker.ProofBound: "the provider accepted the revocation, and the maximum delay of its class has passed",
		broker.ProofExpired: "its expiry time has passed", broker.ProofNever: "the provider reports that it was never issued", broker.ProofForced: "not proved: an operator closed the pending revocation",
		broker.ProofNone: "not proved: the response that may have issued it was lost or withheld",
	}[l.Upstream.Proof]
}

// Own reports whether ebb itself issued the token. Such a token is dead as soon
// as ebb refuses it.
func (l credential) Own() bool { return l.Upstream == nil }

// DeadAt returns the time by which the provider refused the credential. Zero
// means that this is not known.
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

// Why returns the cause of the revocation or expiry.
func (l credential) Why() string {
	return map[broker.Cause]string{
		broker.CauseCompleted: "its task was completed", broker.CauseStopped: "its task was stopped", broker.CauseDeadline: "the deadline of its task passed", broker.CauseHeartbeat: "the runner of its task sent no heartbeat in time",
		broker.CauseExited: "its sandbox exited", broker.CauseMissedAttestation: "its sandbox did not re-attest before the deadline", broker.CauseSuspicious: "an approver denied a request of its task as suspicious",
		broker.CauseParent: "the parent task ended", broker.CauseExpired: "it reached its expiry time",
	}[l.Cause]
}

// Left reports whether the credential is active and unexpired.
func (l credential) Left() bool { return l.State == broker.LeaseLive && l.ExpiresAt.After(l.now) }

// credentialRoutes are the routes of credentials.
func (cp *credentialPages) credentialRoutes() []route {
	return []route{
		cp.visits.page("/credentials", cp.credentials),
		cp.visits.page("/credentials.csv", cp.audit.exportCredentials(formatCSV)),
		cp.visits.page("/credentials.jsonl", cp.audit.exportCredentials(formatJSONL)),
		cp.visits.page("/credentials/tail", cp.audit.tailCredentials),
		cp.visits.page("/credentials/:id", cp.credential),
		cp.visits.form("/credentials/:id/revoke", true, cp.revokeCredential),
		cp.visits.form("/credentials/:id/retry", false, cp.retryCredential),
		cp.visits.form("/credentials/:id/force", false, cp.forceCredential),
	}
}
