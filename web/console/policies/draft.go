package policies

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// draftPage shows a proposed policy set, its changes, and the forms to edit or publish it.
type draftPage struct {
	policyset.Draft
	Digest    string // of the draft as shown
	Live      policyset.InForce
	Mine      bool // the visitor is its author
	Writes    bool // the visitor may create a draft, and discard this one
	Stale     bool // the policies in force have changed since it was written
	Unread    string
	Open      []string // providers that it opens to every sandbox
	Changes   []changeRow
	Texts     []fileText
	May       bool   // the visitor may publish it
	Why       string // the reason when May is false
	Proof     proof.Demand
	Days      []int
	Problem   string
	Published bool // policy_source is database, so drafts can be published here
}

// changeRow is one policy that the draft changes.
type changeRow struct {
	ID, Mark, Tone, Says string
	Before, After        string // canonical text with invisible characters escaped
}

func (ps *Pages) draft(c echo.Context, v *session.Visit) error {
	d, err := ps.Broker.PolicyDraft(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	return ps.drawDraft(c, http.StatusOK, v, d, "")
}

func (ps *Pages) drawDraft(c echo.Context, status int, v *session.Visit, d policyset.Draft, problem string) error {
	live, err := ps.Broker.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	page := draftPage{Draft: d, Digest: d.Digest(), Live: live, Mine: d.Author == v.ID, Writes: v.Has(broker.RoleOperator), Stale: d.Base != live.Version || d.After != live.Number,
		Texts: textsOf(d.Files), Days: []int{1, 7, 30}, Problem: problem, Published: live.Source == policyset.Database}
	before, err := policyset.Load(live.Files)
	set, err2 := policyset.Load(d.Files)
	if err := errors.Join(err, err2); err != nil {
		page.Unread = "This version of ebb cannot parse the draft. Its author must save it again."
	} else {
		page.Open, page.Changes = ps.Broker.OpenProviders(set), changeRows(policyset.Compare(before, set))
	}
	if err := ps.Broker.MayPublish(v.Principal, d); err != nil {
		page.Why = broker.AsError(err).Public
	} else {
		page.May = page.Unread == ""
		if page.Proof, err = ps.Proofs.Demand(c, v, risk.High, d.ChangedAt); err != nil {
			return err
		}
	}
	return ps.Shell.Draw(c, status, v, "draft", shell.Frame{Title: "Draft of policies", Nav: "/policy"}, page)
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
	return shell.Editable(o.Text)
}

// beginDraft creates a draft from the policies in force, from a release, or from another draft.
// Publishing an older set again therefore takes the same steps as publishing a new one.
func (ps *Pages) beginDraft(c echo.Context, v *session.Visit) error {
	ctx, form := c.Request().Context(), c.Request().PostForm
	live, err := ps.Broker.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	files := live.Files
	if from := form.Get("release"); from != "" {
		n, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			return broker.E(broker.Invalid, "The release must be a whole number, such as 3.", err)
		}
		r, err := ps.Broker.PolicyRelease(ctx, v.Principal, n)
		if err != nil {
			return err
		}
		files = r.Files
	} else if from := form.Get("draft"); from != "" {
		d, err := ps.Broker.PolicyDraft(ctx, v.Principal, from)
		if err != nil {
			return err
		}
		files = d.Files
	}
	note := form.Get("note")
	asked := form["request[]"]
	if len(asked) > 0 {
		permit, err := ps.permitFor(c, v, asked)
		if err != nil {
			return err
		}
		files, note = append(slices.Clip(files), permit), "Permit like request "+asked[0]
	}
	d, err := ps.Broker.DraftPolicies(ctx, v.Principal, note, files)
	if err != nil {
		if p := policyset.Problems(err); len(p) > 0 {
			return broker.E(broker.Invalid, "These policies cannot be saved as a draft: "+shell.OneLine(p[0].String())+".", err)
		}
		return err
	}
	if len(asked) > 0 {
		return ps.Shell.Redirect(c, "/policy/drafts/"+d.ID+"/replay?days=7")
	}
	return ps.Shell.Redirect(c, "/policy/drafts/"+d.ID)
}

// permitFor returns a policy file that permits exactly these requests without an approval, and of an approved request
// the approved part.
func (ps *Pages) permitFor(c echo.Context, v *session.Visit, ids []string) (policyset.File, error) {
	out := policyset.File{}
	if !v.Has(broker.RoleOperator) {
		return out, broker.E(broker.Forbidden, "Only operators can draft policies.", nil)
	}
	if len(ids) > approval.MaxBatch {
		return out, broker.E(broker.Invalid, "A draft must permit 1 to "+strconv.Itoa(approval.MaxBatch)+" requests.", nil)
	}
	known := map[string]bool{}
	for _, id := range ids {
		r, err := ps.Broker.Request(c.Request().Context(), v.Principal, id)
		if err != nil {
			return out, err
		}
		f, err := r.Sheet()
		if err != nil || !f.Understood() {
			return out, broker.E(broker.NotUnderstood, "ebb does not understand request "+r.ID+", so it cannot draft a rule for it.", err)
		}
		set, ttl := r.Scopes, r.TTL
		if !r.Granted.Empty() { // an approver may have narrowed it
			set, ttl = r.Granted, r.GrantedTTL
		}
		key := fmt.Sprintf("%q %q %q %s %d %s %t", f.Sandbox.Attestor, f.TaskKind, f.Owner, set, ttl, f.Delivery, len(f.Taint) > 0)
		if known[key] {
			continue
		}
		known[key] = true
		text, err := policy.Permit{
			ID: "like-" + r.ID, Why: "Drafted from request " + r.ID + ".", Attestor: f.Sandbox.Attestor, Kind: f.TaskKind, Owner: f.Owner,
			Scopes: set, TTL: ttl.Duration(), Delivery: f.Delivery, Tainted: len(f.Taint) > 0,
		}.Text()
		if err != nil {
			return out, broker.E(broker.Invalid, "Request "+r.ID+" asks for a scope with a wildcard. A rule for it would also permit other scopes, so write it by hand.", err)
		}
		out.Text += text
	}
	out.Name = "like-" + ids[0] + ".cedar"
	return out, nil
}

// rebaseDraft records that the author has checked the draft against the policies in force.
func (ps *Pages) rebaseDraft(c echo.Context, v *session.Visit) error {
	ctx, id := c.Request().Context(), c.Param("id")
	d, err := ps.Broker.PolicyDraft(ctx, v.Principal, id)
	if err != nil {
		return err
	}
	if _, err := ps.Broker.RedraftPolicies(ctx, v.Principal, id, c.Request().PostForm.Get("was"), d.Note, d.Files, true); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/policy/drafts/"+id)
}

func (ps *Pages) dropDraft(c echo.Context, v *session.Visit) error {
	if err := ps.Broker.DropPolicies(c.Request().Context(), v.Principal, c.Param("id"), c.Request().PostForm.Get("was")); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/policy")
}

// publishDraft puts a draft in force. The publisher is not the author, and has
// just proved their identity.
func (ps *Pages) publishDraft(c echo.Context, v *session.Visit) error {
	ctx, id, digest := c.Request().Context(), c.Param("id"), c.Request().PostForm.Get("digest")
	d, err := ps.Broker.PolicyDraft(ctx, v.Principal, id)
	if err != nil {
		return err
	}
	yes := broker.Verdict{Approve: true, Digest: digest}
	if err = ps.Broker.MayPublish(v.Principal, d); err == nil {
		err = ps.Proofs.StepUp(c, v, risk.High, d.ChangedAt, &yes, passkey.Decision{Request: id, Choice: proof.ChoicePublish, Digest: yes.Digest})
	}
	var r policyset.Release
	if err == nil {
		r, err = ps.Broker.PublishPolicies(ctx, v.Principal, id, digest, yes)
	}
	if err == nil {
		return ps.Shell.Redirect(c, "/policy/releases/"+strconv.FormatInt(r.Number, 10))
	}
	e := broker.AsError(err)
	ev := web.EventOf(c)
	ev.Kind, ev.Cause = e.Kind, e.Cause
	// Show the current draft with the error.
	now, again := ps.Broker.PolicyDraft(ctx, v.Principal, id)
	if again != nil {
		return err
	}
	return ps.drawDraft(c, web.Lookup(e.Kind).Status, v, now, e.Public)
}

// challengeForDraft is challenge for publishing. The visitor must be allowed to publish.
func (ps *Pages) challengeForDraft(c echo.Context, v *session.Visit) error {
	d, err := ps.Broker.PolicyDraft(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	if err := ps.Broker.MayPublish(v.Principal, d); err != nil {
		return err
	}
	return ps.Proofs.Ask(c, v, []passkey.Decision{{Request: d.ID, Choice: proof.ChoicePublish, Digest: c.QueryParam("digest")}})
}

// againForDraft redirects to the identity provider, which returns to the draft.
func (ps *Pages) againForDraft(c echo.Context, v *session.Visit) error {
	return ps.Proofs.SignInAgain(c, v, "/policy/drafts/"+url.PathEscape(c.Param("id")), "")
}

// patchDraft returns the draft as a patch against the policy files in force,
// for a repository that keeps them.
func (ps *Pages) patchDraft(c echo.Context, v *session.Visit) error {
	d, err := ps.Broker.PolicyDraft(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	live, err := ps.Broker.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+d.ID+`.patch"`)
	return c.Blob(http.StatusOK, "text/x-diff; charset=utf-8", []byte(policyset.Patch(live.Files, d.Files)))
}
