package breakglass

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// glassOne is the page of one break-glass period.
type glassOne struct {
	glassRow
	All      bool
	Digest   string
	Proof    string // the proof at the start, and the result of checking it now
	Holds    bool
	Approved []glassApproval
	Ends     bool   // the visitor may end the period
	Reviews  bool   // the visitor may review the period
	Not      string // why an auditor may not review it
	Due      time.Time
	Note     string // as typed
	Problem  string
}

// glassApproval is one request that was approved under the period.
type glassApproval struct {
	broker.Request
	At   time.Time
	Yes  string // the approved scopes and lifetime
	Path string
}

func (ps *Pages) glass(c echo.Context, v *session.Visit) error {
	return ps.drawGlass(c, http.StatusOK, v, "", "")
}

func (ps *Pages) drawGlass(c echo.Context, status int, v *session.Visit, note, problem string) error {
	ctx := c.Request().Context()
	g, err := ps.Broker.BreakGlassOf(ctx, v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	mine := g.Person == v.ID
	page := glassOne{glassRow: glassRowOf(g, v.Now), All: v.Has(broker.RoleAuditor, broker.RoleOperator) || mine, Digest: g.Digest(), Note: note, Problem: problem, Due: g.Over().Add(broker.BreakGlassReview)}
	page.Ends = page.Open && page.All
	if page.All {
		if page.Proof, page.Holds, err = ps.glassProof(c, g); err != nil {
			return err
		}
		if page.Approved, err = ps.approvedUnder(c, v, g); err != nil {
			return err
		}
	}
	if v.Has(broker.RoleAuditor) && g.ReviewedAt.IsZero() && !page.Open {
		if err := approval.MayReview(v.Principal, g); err != nil {
			page.Not = broker.AsError(err).Public
		} else {
			page.Reviews = true
		}
	}
	return ps.Shell.Draw(c, status, v, "breakglassone", shell.Frame{Title: "Break-glass: " + g.Incident, Nav: glassPath}, page)
}

// approvedUnder returns the requests approved under a period that the visitor may see.
func (ps *Pages) approvedUnder(c echo.Context, v *session.Visit, g broker.BreakGlass) (out []glassApproval, err error) {
	rs, err := ps.Broker.Requests(c.Request().Context(), v.Principal, broker.RequestFilter{BreakGlass: g.ID, Page: broker.Page{Limit: 100}})
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		for _, vote := range r.Votes {
			if vote.BreakGlass == g.ID {
				out = append(out, glassApproval{Request: r, At: vote.At, Yes: vote.Scopes.String() + " for " + shell.Span(vote.TTL.Duration()), Path: "/requests/" + r.ID})
			}
		}
	}
	return out, nil
}

// glassProof describes the proof given when the period started, and whether it still verifies. A
// sign-in leaves no token to verify again: the page shows the sign-in and its time.
func (ps *Pages) glassProof(c echo.Context, g broker.BreakGlass) (says string, holds bool, err error) {
	if g.Proof == "" {
		says = "A sign-in at the identity provider for this period alone, at " + g.AuthAt.UTC().Format("2006-01-02 15:04:05 UTC") + " by its clock"
		if g.ACR != "" {
			says += " (" + g.ACR + ")"
		}
		says += ". ebb verified the token when the period started and kept no copy, so the token cannot be verified again. "
		if err := ps.Broker.BreakGlassRecorded(c.Request().Context(), g); err != nil {
			if e := broker.AsError(err); e.Kind != broker.Conflict {
				return "", false, err
			}
			return says + broker.AsError(err).Public, false, nil
		}
		return says + "Checked now: the audit entry of the start agrees.", true, nil
	}
	return proof.Check(func() (*audit.Signature, error) { return ps.Broker.BreakGlassSignature(c.Request().Context(), g) }, "for this period alone: person, incident, reason, duration and time")
}

func (ps *Pages) endGlass(c echo.Context, v *session.Visit) error {
	id := c.Param("id")
	if _, err := ps.Broker.EndBreakGlass(c.Request().Context(), v.Principal, id); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, glassPath+"/"+id)
}

func (ps *Pages) reviewGlass(c echo.Context, v *session.Visit) error {
	id, note := c.Param("id"), c.Request().PostForm.Get("note")
	_, err := ps.Broker.ReviewBreakGlass(c.Request().Context(), v.Principal, id, note)
	if e := broker.AsError(err); e != nil && e.Kind == broker.Invalid {
		return ps.drawGlass(c, http.StatusUnprocessableEntity, v, note, e.Public)
	}
	if err != nil {
		return err
	}
	return ps.Shell.Redirect(c, glassPath+"/"+id)
}
