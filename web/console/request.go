package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/risk"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// The choices of the decide form.
const (
	choiceDeny    = "deny"
	choiceNarrow  = "narrow"
	choiceApprove = "approve"
	choicePublish = "publish" // of a draft of policies
	choiceAlone   = "approve-alone"
)

// code is one reason for a no, as the form offers it.
type code struct {
	Code broker.DenyCode
	Text string
}

var codes = []code{
	{broker.TooBroad, "too broad: it should ask for less"},
	{broker.WrongResource, "wrong resource"},
	{broker.NotNeeded, "not needed for this task"},
	{broker.UseExisting, "what it has already is enough"},
	{broker.AskOwner, "the owner should be asked first"},
	{broker.ByPolicy, "against our policy"},
	{broker.Suspicious, "suspicious: also stop the task and revoke all it holds"},
}

// typed is what somebody wrote into a decide form.
type typed struct {
	Choice, Code, Note, Scope, Minutes, Target string
}

// requestPage is one request, and the forms to decide it where the person may.
type requestPage struct {
	Shown    shown
	Sealed   string // Shown, for the forms
	State    string // how it ended, or that it waits
	Left     time.Time
	Votes    []seenLink
	May      bool   // the person may decide it now
	Why      string // why not
	Off      string // why nothing can be approved, though it can be denied
	Proof    proofState
	Quorum   int
	Codes    []code
	Typed    typed
	Hint     string            // where the suggested smaller yes comes from
	Parts    []part            // smaller ones to choose from, when there are several
	Problems map[string]string // by field of the form; "" = of the form
	Changes  []row             // what has changed since it was asked
	Alone    *aloneForm        // nil: they do not approve it alone
}

// aloneForm is how somebody says yes alone, in a period of break-glass that is open.
type aloneForm struct {
	broker.BreakGlass
	Proof proofState
}

// seenLink leads to what somebody saw who has decided.
type seenLink struct {
	By, Said string
	At       time.Time
	Path     string // "" = it is not for this person
}

// Focus is the field to look at after a form that could not be taken.
func (p requestPage) Focus(field string) bool { return p.Problems[field] != "" }

// request is the page of one request.
func (s *Console) request(c echo.Context, v *visit) error {
	r, err := s.b.Request(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	return s.drawRequest(c, http.StatusOK, v, r, typed{}, nil)
}

// drawRequest draws a request with what was typed, if anything was.
func (s *Console) drawRequest(c echo.Context, status int, v *visit, r broker.Request, in typed, problems map[string]string) error {
	ctx := c.Request().Context()
	vw := s.view(c, v, frame{}, nil)
	// That the past cannot be read must not keep anybody from a no.
	before, _ := s.b.Requests(ctx, v.Principal, broker.RequestFilter{TaskID: r.TaskID, Page: broker.Page{Desc: true, Limit: 20}})
	page := requestPage{
		Shown: s.show(vw, r, before), State: endOf(vw, r), Left: r.ExpiresAt, Quorum: r.Quorum, Codes: codes, Problems: problems,
	}
	page.Typed, page.Hint, page.Parts = s.suggest(in, r)
	for _, vote := range r.Votes {
		said := "no"
		if vote.Approve {
			said = "yes"
		}
		if vote.BreakGlass != "" {
			said = "yes, alone, under break-glass"
		}
		link := seenLink{By: vote.By, Said: said, At: vote.At}
		if v.ID == vote.By || v.Has(broker.RoleAuditor, broker.RoleOperator) {
			link.Path = "/requests/" + r.ID + "/seen/" + url.PathEscape(vote.By)
		}
		page.Votes = append(page.Votes, link)
	}
	if page.Why = whyNot(vw, r); page.Why == "" {
		page.May = true
		var err error
		if page.Proof, err = s.proofOf(c, v, r.Level(), r.CreatedAt); err != nil {
			return err
		}
	}
	if !page.May || r.Quorum > 1 {
		var err error
		if page.Alone, err = s.alone(c, v, r); err != nil {
			return err
		}
	}
	if page.May || page.Alone != nil {
		page.Off, page.Changes = s.off(c, v, r, page.Shown)
		var err error
		if page.Sealed, err = s.sealShown(page.Shown); err != nil {
			return err
		}
	}
	return s.draw(c, status, v, "request", frame{Title: page.Shown.Title.String(), Nav: "/queue"}, page)
}

// alone is the form of somebody who has broken the glass, where it is for this request.
func (s *Console) alone(c echo.Context, v *visit, r broker.Request) (*aloneForm, error) {
	if r.State != broker.RequestPending || !r.ExpiresAt.After(v.now) {
		return nil, nil
	}
	g, _, err := s.b.OpenBreakGlass(c.Request().Context(), v.Principal)
	if err != nil || broker.MayDecideAlone(v.Principal, r, g, v.now) != nil {
		return nil, err
	}
	proof, err := s.proofOf(c, v, risk.High, r.CreatedAt)
	return &aloneForm{g, proof}, err
}

// whyNot is why this person has nothing to decide here; "" = they have.
func whyNot(v view, r broker.Request) string {
	mine := slices.ContainsFunc(r.Votes, func(o broker.Vote) bool { return o.By == v.Who.ID })
	switch {
	case r.State != broker.RequestPending:
		return "It is decided: " + endOf(v, r) + "."
	case !r.ExpiresAt.After(v.Now):
		return "Its time is over since " + clock(v, r.ExpiresAt) + ": nobody answered, which is a no (no_answer)."
	case mine:
		return "Your answer is given. It waits for a second person, who does not see it before giving theirs."
	}
	if err := broker.MayDecide(v.Who.Principal, r); err != nil {
		return broker.AsError(err).Public
	}
	return ""
}

// off is why nothing can be approved at the moment, and what has changed, if that is why.
func (s *Console) off(c echo.Context, v *visit, r broker.Request, sh shown) (string, []row) {
	if sh.Unread != "" {
		return sh.Unread, nil
	}
	effect, again, err := s.b.Again(c.Request().Context(), v.Principal, r.ID)
	if err != nil {
		e := broker.AsError(err)
		switch {
		case errors.Is(err, broker.ErrUnjudged):
			return e.Public + " A no is taken all the same.", nil
		case errors.Is(err, broker.ErrUnwritten):
			return e.Public + " Nor can a no be kept; what is stopped or revoked is refused at once all the same.", nil
		}
		if e.Kind == broker.Unavailable {
			return "A part of ebb that has to agree does not answer, so nothing can be approved. A no is taken all the same.", nil
		}
		return e.Public, nil
	}
	if effect == policy.Ask && again.Digest == r.Digest {
		return "", nil
	}
	if s.b.PolicyVersion() == "" {
		return "No policies are in force, so nothing can be approved until the operator has put some there. A no is taken all the same.", nil
	}
	return "The facts have changed since it was asked, so it cannot be approved as it stands. Deny it, and the agent may ask again.", changes(r, effect, again)
}

// part is a smaller yes: a part of what is asked, and why just that.
type part struct{ Scope, Why string }

// parts are the smaller ones that ebb knows of: the largest that policy grants without
// asking, and in the middle what can be undone.
func parts(r broker.Request) []part {
	f, err := r.Sheet()
	if err != nil {
		return nil
	}
	var out []part
	for _, p := range []struct {
		of  scopes.Set
		why string
	}{{f.WouldAllow, "what policy grants without asking anybody"}, {f.Undoable, "the part that can be undone"}} {
		set := r.Scopes.Narrow(p.of)
		known := slices.ContainsFunc(out, func(o part) bool { return o.Scope == set.String() })
		if !set.Empty() && !set.Equal(r.Scopes) && !known {
			out = append(out, part{set.String(), p.why})
		}
	}
	return out
}

// suggest fills in what was not typed: the smaller yes. Of several the person chooses.
func (s *Console) suggest(in typed, r broker.Request) (_ typed, hint string, offered []part) {
	offered = parts(r)
	if in.Scope == "" {
		in.Scope, hint = r.Scopes.String(), "As filled in it is the same, for half the time."
		if len(offered) > 0 {
			in.Scope, hint = offered[0].Scope, "Filled in is "+offered[0].Why+"."
		}
	}
	if in.Minutes == "" {
		in.Minutes = strconv.Itoa(max(1, int(r.TTL.Duration()/time.Minute)/2))
	}
	if len(offered) < 2 {
		offered = nil
	}
	return in, hint, offered
}

// splitWords makes one scope value of what was typed over several lines.
func splitWords(text string) string { return strings.Join(strings.Fields(text), " ") }
