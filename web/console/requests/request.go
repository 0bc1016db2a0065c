package requests

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// code is a reason for a denial, with the text in the form.
type code struct {
	Code broker.DenyCode
	Text string
}

var codes = []code{
	{broker.TooBroad, "too broad: request less"},
	{broker.WrongResource, "wrong resource"},
	{broker.NotNeeded, "not needed for this task"},
	{broker.UseExisting, "existing credentials are enough"},
	{broker.AskOwner, "ask the owner first"},
	{broker.ByPolicy, "against our policy"},
	{broker.Suspicious, "suspicious: stop the task, revoke its credentials"},
}

// requestPage is one request, with the forms to decide it if the visitor may.
type requestPage struct {
	Shown    shown
	Sealed   string // Shown, signed, for the forms
	Left     time.Time
	Votes    []seenLink
	May      bool   // the visitor may decide it now
	Why      string // the reason when May is false
	Off      string // why it can be denied but not approved
	Proof    proof.Demand
	Quorum   int
	Codes    []code
	Typed    typed
	Narrow   narrowForm
	Problems map[string]string // by form field; "" = the form as a whole
	Changes  []shell.Row       // facts that have changed since the request
	Alone    *aloneForm        // nil: the visitor cannot approve it alone
	Next     string            // id of the next request that waits for the visitor; "" = none, or May is true
	NextOf   string            // number of the requests that wait for the visitor
	Actions  []audit.Entry     // the newest actions in the task
	Keys     bool              // shortcuts are on
	Told     []string          // who else can approve it, and who was notified
	Draft    []string          // the id of the request, if the visitor may draft a rule for it
}

// aloneForm is the form to approve alone during an open break-glass period.
type aloneForm struct {
	broker.BreakGlass
	Proof proof.Demand
}

// seenLink is one answer, with a link to the page that the approver saw.
type seenLink struct {
	By, Said string
	At       time.Time
	Path     string // "" = the visitor may not read it
}

// Focus reports whether the page puts the focus on this field after a rejected form.
func (p requestPage) Focus(field string) bool { return p.Problems[field] != "" }

// request shows one request.
func (ps *Pages) request(c echo.Context, v *session.Visit) error {
	r, err := ps.b.Request(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	return ps.drawRequest(c, http.StatusOK, v, r, typed{}, nil)
}

// drawRequest shows a request, with the typed input after a rejected form.
func (ps *Pages) drawRequest(c echo.Context, status int, v *session.Visit, r broker.Request, in typed, problems map[string]string) error {
	ctx := c.Request().Context()
	vw := ps.shell.View(c, v, shell.Frame{}, nil)
	// The history is optional: an error in reading it must not prevent a denial.
	before, _ := ps.b.Requests(ctx, v.Principal, broker.RequestFilter{TaskID: r.TaskID, Page: broker.Page{Desc: true, Limit: 20}})
	page := requestPage{
		Shown: ps.show(vw, r, before), Left: r.ExpiresAt, Quorum: r.Quorum, Codes: codes, Problems: problems, Draft: drafting(v, r),
	}
	// The newest actions are optional for the same reason.
	page.Actions, _ = ps.b.Actions(ctx, v.Principal, r.ID)
	page.Keys = ps.people.shortcuts(ctx, v)
	page.Told = ps.people.told(ctx, vw, r)
	page.Typed, page.Narrow = narrowFormOf(r, in, problems)
	for _, vote := range r.Votes {
		said := "denied"
		if vote.Approve {
			said = "approved"
		}
		if vote.BreakGlass != "" {
			said = "approved alone, under break-glass"
		}
		link := seenLink{By: vote.By, Said: said, At: vote.At}
		if v.ID == vote.By || v.Has(broker.RoleAuditor, broker.RoleOperator) {
			link.Path = "/requests/" + r.ID + "/snapshot/" + url.PathEscape(vote.By)
		}
		page.Votes = append(page.Votes, link)
	}
	if page.Why = whyNot(vw, r); page.Why == "" {
		page.May = true
		var err error
		if page.Proof, err = ps.proofs.Demand(c, v, r.Level(), r.CreatedAt); err != nil {
			return err
		}
	}
	if !page.May && v.Has(broker.RoleApprover) {
		page.Next, page.NextOf = ps.next(c, v)
	}
	if !page.May || r.Quorum > 1 {
		var err error
		if page.Alone, err = ps.alone(c, v, r); err != nil {
			return err
		}
	}
	if page.May || page.Alone != nil {
		page.Off, page.Changes = ps.off(c, v, r, page.Shown)
		var err error
		if page.Sealed, err = ps.seal(page.Shown); err != nil {
			return err
		}
	}
	return ps.shell.Draw(c, status, v, "request", shell.Frame{Title: page.Shown.Title.String(), Nav: "/queue"}, page)
}

// next returns the id of the next request that waits for the visitor, and the number of those
// that wait. The link to it is optional: "" = none, or it could not be read.
func (ps *Pages) next(c echo.Context, v *session.Visit) (id, count string) {
	found, err := ps.b.Waiting(c.Request().Context(), v.Principal, true, broker.WaitFilter{Limit: 1})
	if err != nil || len(found.Requests) == 0 {
		return "", ""
	}
	count, _ = countsOf(found.Counts, found.Short)
	return found.Requests[0].ID, count
}

// stateOf is the answer to an open page that asks whether its request still waits.
type stateOf struct {
	Text string `json:"text"` // why the request does not wait for the visitor; "" = it waits
}

// state returns whether the request still waits for the visitor, and otherwise the reason why it does not.
func (ps *Pages) state(c echo.Context, v *session.Visit) error {
	r, err := ps.b.Request(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, stateOf{whyNot(ps.shell.View(c, v, shell.Frame{}, nil), r)})
}

// alone returns the form to approve alone, if the person has an open
// break-glass period that covers this request.
func (ps *Pages) alone(c echo.Context, v *session.Visit, r broker.Request) (*aloneForm, error) {
	if r.State != broker.RequestPending || !r.ExpiresAt.After(v.Now) {
		return nil, nil
	}
	g, _, err := ps.b.OpenBreakGlass(c.Request().Context(), v.Principal)
	if err != nil || approval.MayDecideAlone(v.Principal, r, g, v.Now) != nil {
		return nil, err
	}
	proof, err := ps.proofs.Demand(c, v, risk.High, r.CreatedAt)
	return &aloneForm{g, proof}, err
}

// whyNot returns why the person cannot decide the request, or "" when they can.
func whyNot(v shell.View, r broker.Request) string {
	switch {
	case r.State != broker.RequestPending:
		return outcome(v, r)
	case !r.ExpiresAt.After(v.Now):
		return "This request expired at " + shell.Clock(v, r.ExpiresAt) + " without an answer, which counts as a denial (no_answer)."
	case answered(v, r):
		return "You have answered. The request waits for another person. ebb hides your answer from that person until they have answered."
	}
	if err := broker.MayDecide(v.Who.Principal, r); err != nil {
		return broker.AsError(err).Public
	}
	return ""
}

// answered reports whether the person has a vote on the request.
func answered(v shell.View, r broker.Request) bool {
	return slices.ContainsFunc(r.Votes, func(o broker.Vote) bool { return o.By == v.Who.ID })
}

// off returns why the request cannot be approved at the moment, and the changed
// facts if they are the reason.
func (ps *Pages) off(c echo.Context, v *session.Visit, r broker.Request, sh shown) (string, []shell.Row) {
	if sh.Unread != "" {
		return sh.Unread, nil
	}
	effect, again, err := ps.b.Again(c.Request().Context(), v.Principal, r.ID)
	if err != nil {
		e := broker.AsError(err)
		switch {
		case errors.Is(err, broker.ErrUnjudged):
			return e.Public + " It can still be denied.", nil
		case errors.Is(err, broker.ErrUnwritten):
			return e.Public + " A denial cannot be stored either. Stopping a task and revoking a credential still take effect at once.", nil
		}
		if e.Kind == broker.Unavailable {
			return "A part of ebb that approvals depend on does not answer, so nothing can be approved at the moment. The request can still be denied.", nil
		}
		return e.Public, nil
	}
	if effect == policy.Ask && again.Digest == r.Digest {
		return "", nil
	}
	if ps.b.PolicyVersion() == "" {
		return "No policies are in force, so nothing can be approved until an operator adds policies. The request can still be denied.", nil
	}
	return "The facts have changed since the request was made, so it cannot be approved. Deny it; the agent may then request again.", changes(r, effect, again)
}
