package console

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/audit"
)

// glassOne is the page of one period.
type glassOne struct {
	glassRow
	All      bool
	Digest   string
	Proof    string // what proved it, and whether that holds
	Holds    bool
	Approved []glassApproval
	Ends     bool   // may end it
	Reviews  bool   // may review it
	Not      string // why not, of an auditor
	Due      time.Time
	Note     string // as typed
	Problem  string
}

// glassApproval is one request that was approved under it.
type glassApproval struct {
	broker.Request
	At   time.Time
	Yes  string // what was said yes to
	Path string
}

func (s *Console) glass(c echo.Context, v *visit) error {
	return s.drawGlass(c, http.StatusOK, v, "", "")
}

func (s *Console) drawGlass(c echo.Context, status int, v *visit, note, problem string) error {
	ctx := c.Request().Context()
	g, err := s.b.BreakGlassOf(ctx, v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	mine := g.Person == v.ID
	page := glassOne{glassRow: glassRowOf(g, v.now), All: v.Has(broker.RoleAuditor, broker.RoleOperator) || mine, Digest: g.Digest(), Note: note, Problem: problem, Due: g.Over().Add(broker.BreakGlassReview)}
	page.Ends = page.Open && page.All
	if page.All {
		if page.Proof, page.Holds, err = s.glassProof(c, g); err != nil {
			return err
		}
		if page.Approved, err = s.approvedUnder(c, v, g); err != nil {
			return err
		}
	}
	if v.Has(broker.RoleAuditor) && g.ReviewedAt.IsZero() && !page.Open {
		if err := broker.MayReview(v.Principal, g); err != nil {
			page.Not = broker.AsError(err).Public
		} else {
			page.Reviews = true
		}
	}
	return s.draw(c, status, v, "breakglassone", frame{Title: "Break-glass: " + g.Incident, Nav: glassPath}, page)
}

// approvedUnder is what was approved under a period, as far as the person sees requests.
func (s *Console) approvedUnder(c echo.Context, v *visit, g broker.BreakGlass) (out []glassApproval, err error) {
	rs, err := s.b.Requests(c.Request().Context(), v.Principal, broker.RequestFilter{BreakGlass: g.ID, Page: broker.Page{Limit: 100}})
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		for _, vote := range r.Votes {
			if vote.BreakGlass == g.ID {
				out = append(out, glassApproval{Request: r, At: vote.At, Yes: vote.Scopes.String() + " for " + span(vote.TTL.Duration()), Path: "/requests/" + r.ID})
			}
		}
	}
	return out, nil
}

// glassProof says what proved that the person wanted it, and whether that holds now. Of a
// sign-in nothing is kept that could be judged again: the page says what was, and when.
func (s *Console) glassProof(c echo.Context, g broker.BreakGlass) (says string, holds bool, err error) {
	if g.Proof == "" {
		says = "A sign-in at the identity provider for just this, at " + g.AuthAt.UTC().Format("2006-01-02 15:04:05 UTC") + " by its clock"
		if g.ACR != "" {
			says += " (" + g.ACR + ")"
		}
		says += ". ebb checked it when it began, and kept no token that could be checked again. "
		if err := s.b.BreakGlassRecorded(c.Request().Context(), g); err != nil {
			if e := broker.AsError(err); e.Kind != broker.Conflict {
				return "", false, err
			}
			return says + broker.AsError(err).Public, false, nil
		}
		return says + "Checked now: the record of its beginning says the same.", true, nil
	}
	return s.checked(func() (*audit.Signature, error) { return s.b.BreakGlassSignature(c.Request().Context(), g) }, "for just this: who, what for, why, how long and when")
}

func (s *Console) endGlass(c echo.Context, v *visit) error {
	id := c.Param("id")
	if _, err := s.b.EndBreakGlass(c.Request().Context(), v.Principal, id); err != nil {
		return err
	}
	return s.redirect(c, glassPath+"/"+id)
}

func (s *Console) reviewGlass(c echo.Context, v *visit) error {
	id, note := c.Param("id"), c.Request().PostForm.Get("note")
	_, err := s.b.ReviewBreakGlass(c.Request().Context(), v.Principal, id, note)
	if e := broker.AsError(err); e != nil && e.Kind == broker.Invalid {
		return s.drawGlass(c, http.StatusUnprocessableEntity, v, note, e.Public)
	}
	if err != nil {
		return err
	}
	return s.redirect(c, glassPath+"/"+id)
}
