package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/broker/policyset"
	"ebb/broker/risk"
	"ebb/scopes/policy"
	"ebb/web"
	"ebb/web/console/passkey"
)

// draftPage is a set that somebody proposes, what it changes, and the forms to go on.
type draftPage struct {
	policyset.Draft
	Digest    string // of what is drawn
	Live      policyset.InForce
	Mine      bool // the author looks at it
	Writes    bool // may begin one of their own, and give this one up
	Stale     bool // other policies are in force than those it was written against
	Unread    string
	Open      []string // providers that it opens to everybody
	Changes   []changeRow
	Texts     []fileText
	May       bool   // may publish it
	Why       string // why not
	Proof     proofState
	Days      []int
	Problem   string
	Published bool // policies come from the database here
}

// changeRow is one policy that the draft changes.
type changeRow struct {
	ID, Mark, Tone, Says string
	Before, After        string // canonical text, nothing hides in it
}

func (s *Console) draft(c echo.Context, v *visit) error {
	d, err := s.b.PolicyDraft(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	return s.drawDraft(c, http.StatusOK, v, d, "")
}

func (s *Console) drawDraft(c echo.Context, status int, v *visit, d policyset.Draft, problem string) error {
	live, err := s.b.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	page := draftPage{Draft: d, Digest: d.Digest(), Live: live, Mine: d.Author == v.ID, Writes: v.Has(broker.RoleOperator), Stale: d.Base != live.Version || d.After != live.Number,
		Texts: textsOf(d.Files), Days: []int{1, 7, 30}, Problem: problem, Published: live.Source == policyset.Database}
	before, err := policyset.Load(live.Files)
	set, err2 := policyset.Load(d.Files)
	if err := errors.Join(err, err2); err != nil {
		page.Unread = "This version of ebb cannot read it. Its author saves it again."
	} else {
		page.Open, page.Changes = s.b.OpenProviders(set), changeRows(policyset.Compare(before, set))
	}
	if err := s.b.MayPublish(v.Principal, d); err != nil {
		page.Why = broker.AsError(err).Public
	} else {
		page.May = page.Unread == ""
		if page.Proof, err = s.proofOf(c, v, risk.High, d.ChangedAt); err != nil {
			return err
		}
	}
	return s.draw(c, status, v, "draft", frame{Title: "Draft of policies", Nav: "/policy"}, page)
}

func changeRows(changes []policyset.Change) (rows []changeRow) {
	for _, ch := range changes {
		r := changeRow{ID: agenttext.Name(ch.ID), Mark: strings.ToUpper(string(ch.Direction)), Tone: "good", Says: ch.Says, Before: cedarText(ch.Before), After: cedarText(ch.After)}
		if ch.Direction == policyset.Wider {
			r.Tone = "warn"
		}
		if ch.Loud {
			r.Tone = "bad"
		}
		rows = append(rows, r)
	}
	return rows
}

func cedarText(o *policy.Outline) string {
	if o == nil {
		return ""
	}
	return editable(o.Text)
}

// beginDraft begins a draft with the texts that are in force, or with those of a release:
// to publish an older set again goes the same way as to publish a new one.
func (s *Console) beginDraft(c echo.Context, v *visit) error {
	ctx, form := c.Request().Context(), c.Request().PostForm
	live, err := s.b.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	files := live.Files
	if from := form.Get("release"); from != "" {
		n, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			return broker.E(broker.Invalid, "This is no number of a release.", err)
		}
		r, err := s.b.PolicyRelease(ctx, v.Principal, n)
		if err != nil {
			return err
		}
		files = r.Files
	} else if from := form.Get("draft"); from != "" {
		d, err := s.b.PolicyDraft(ctx, v.Principal, from)
		if err != nil {
			return err
		}
		files = d.Files
	}
	d, err := s.b.DraftPolicies(ctx, v.Principal, form.Get("note"), files)
	if err != nil {
		if p := policyset.Problems(err); len(p) > 0 {
			return broker.E(broker.Invalid, "These policies cannot be a draft as they are: "+oneLine(p[0].String())+".", err)
		}
		return err
	}
	return s.redirect(c, "/policy/drafts/"+d.ID)
}

// rebaseDraft is the author's word that the draft still holds against what is in force.
func (s *Console) rebaseDraft(c echo.Context, v *visit) error {
	ctx, id := c.Request().Context(), c.Param("id")
	d, err := s.b.PolicyDraft(ctx, v.Principal, id)
	if err != nil {
		return err
	}
	if _, err := s.b.RedraftPolicies(ctx, v.Principal, id, c.Request().PostForm.Get("was"), d.Note, d.Files, true); err != nil {
		return err
	}
	return s.redirect(c, "/policy/drafts/"+id)
}

func (s *Console) dropDraft(c echo.Context, v *visit) error {
	if err := s.b.DropPolicies(c.Request().Context(), v.Principal, c.Param("id"), c.Request().PostForm.Get("was")); err != nil {
		return err
	}
	return s.redirect(c, "/policy")
}

// publishDraft puts a draft in force, by a second person who has just proved who they are.
func (s *Console) publishDraft(c echo.Context, v *visit) error {
	ctx, id, digest := c.Request().Context(), c.Param("id"), c.Request().PostForm.Get("digest")
	d, err := s.b.PolicyDraft(ctx, v.Principal, id)
	if err != nil {
		return err
	}
	yes := broker.Verdict{Approve: true, Digest: digest}
	if err = s.b.MayPublish(v.Principal, d); err == nil {
		err = s.stepUp(c, v, risk.High, d.ChangedAt, &yes, passkey.Decision{Request: id, Choice: choicePublish, Digest: yes.Digest})
	}
	var r policyset.Release
	if err == nil {
		r, err = s.b.PublishPolicies(ctx, v.Principal, id, digest, yes)
	}
	if err == nil {
		return s.redirect(c, "/policy/releases/"+strconv.FormatInt(r.Number, 10))
	}
	e := broker.AsError(err)
	ev := web.EventOf(c)
	ev.Kind, ev.Cause = e.Kind, e.Cause
	// What is there now, with what came of the form.
	now, again := s.b.PolicyDraft(ctx, v.Principal, id)
	if again != nil {
		return err
	}
	return s.drawDraft(c, web.Lookup(e.Kind).Status, v, now, e.Public)
}

// againForDraft leads to the identity provider, and from there back to the draft.
func (s *Console) againForDraft(c echo.Context, v *visit) error {
	return s.proveAgain(c, v, "/policy/drafts/"+url.PathEscape(c.Param("id")), "")
}

// patchDraft is the draft as a patch against the files in force, for where those are kept.
func (s *Console) patchDraft(c echo.Context, v *visit) error {
	d, err := s.b.PolicyDraft(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	live, err := s.b.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+d.ID+`.patch"`)
	return c.Blob(http.StatusOK, "text/x-diff; charset=utf-8", []byte(policyset.Patch(live.Files, d.Files)))
}
