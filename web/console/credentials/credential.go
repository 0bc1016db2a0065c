package credentials

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// narrowedRows and leaseEntries limit the lists on the page of one credential.
const (
	narrowedRows = 100
	leaseEntries = 200
)

type credentialPage struct {
	list.Credential
	Life        []moment
	Narrowed    []list.Credential
	More        bool // there are more narrowed credentials than listed
	Entries     []audit.Entry
	Names       map[string]string // of the tasks of the entries, by id
	Reads       bool              // the visitor may read its audit entries
	Transcripts list.Transcripts
	Task        broker.Task
	Revoke      bool // the visitor may revoke it, and it is not revoked yet
	Retry       bool
	Force       bool
}

// moment is one event in the life of a credential.
type moment struct {
	At   time.Time
	What string
	Note string
	Tone string
}

// credential shows one credential: its scope, its events, and the actions that are left.
func (ps *Pages) credential(c echo.Context, v *session.Visit) error {
	ctx, id := c.Request().Context(), c.Param("id")
	l, err := ps.Broker.Lease(ctx, v.Principal, id)
	if err != nil {
		return err
	}
	page := credentialPage{Credential: list.Credential{Lease: l, Now: v.Now}}
	if page.Task, err = ps.Broker.Task(ctx, v.Principal, l.TaskID); err != nil {
		return err
	}
	page.Names = map[string]string{page.Task.ID: page.Task.Name}
	of := "" // a runner may read its own tasks only; narrowed credentials may belong to a child task
	if !v.Has(broker.RoleAuditor, broker.RoleOperator, broker.RoleViewer) {
		of = l.TaskID
	}
	children, err := ps.Broker.Leases(ctx, v.Principal, broker.LeaseFilter{Parents: []string{id}, TaskID: of, Page: broker.Page{Limit: narrowedRows + 1}})
	if err != nil {
		return err
	}
	for _, n := range children[:min(len(children), narrowedRows)] {
		page.Narrowed = append(page.Narrowed, list.Credential{Lease: n, Now: v.Now})
	}
	page.More = len(children) > narrowedRows
	if page.Reads = v.Has(session.AuditReaders...); page.Reads {
		if page.Entries, err = ps.entriesOf(c, v, broker.EntryFilter{LeaseID: id, TaskID: of, Limit: leaseEntries}); err != nil {
			return err
		}
	}
	page.Transcripts = ps.Entries.Transcripts(v, "lease="+id, transcript.Filter{LeaseID: id})
	page.Life = lifeOf(page.Credential)
	ends := v.Has(broker.RoleOperator) || v.Has(broker.RoleRunner) && page.Task.Runner == v.ID
	page.Revoke = ends && (l.State == broker.LeaseLive || l.State == broker.LeaseIntent)
	page.Retry = v.Has(broker.RoleOperator) && l.State == broker.LeaseRevoking && l.Upstream != nil
	page.Force = page.Retry
	return ps.Shell.Draw(c, http.StatusOK, v, "credential", shell.Frame{Title: shell.OneLine(risk.TitleOf(l.Scopes, l.Provider).String()) + " · Credential", Nav: "/credentials"}, page)
}

// entriesOf reads entries into memory. The filter must have a limit.
func (ps *Pages) entriesOf(c echo.Context, v *session.Visit, f broker.EntryFilter) ([]audit.Entry, error) {
	seq, err := ps.Broker.Entries(c.Request().Context(), v.Principal, f)
	if err != nil {
		return nil, err
	}
	var out []audit.Entry
	for e, err := range seq {
		if err != nil {
			return nil, unreadable(err)
		}
		out = append(out, e)
	}
	return out, nil
}

func unreadable(err error) error {
	return &broker.Error{Kind: broker.Unavailable, Public: "The audit log cannot be read at the moment. Try again in 5 seconds.", Cause: err, RetryAfter: 5 * time.Second}
}

// lifeOf returns past and expected events of the credential, in order of time.
func lifeOf(l list.Credential) []moment {
	out := []moment{{l.IssuedAt, "Issued", "", "good"}}
	add := func(at time.Time, what, note, tone string) {
		if !at.IsZero() {
			out = append(out, moment{at, what, note, tone})
		}
	}
	add(l.RevokedAt, "Refused by ebb", l.Why(), "warn")
	if u := l.Upstream; u != nil {
		add(u.AcceptedAt, "Provider accepted the revocation", "", "")
		add(u.ProbedAt, "Probed at the provider", "", "")
		add(u.DeadAt, "Dead at the provider", l.Proof(), "good")
		add(u.NextAt, "Next attempt", "", "")
		if !u.DiesAt.Equal(l.ExpiresAt) {
			add(u.DiesAt, "Expires at the provider", "", "")
		}
	}
	add(l.ExpiresAt, "Expires", "", "")
	slices.SortStableFunc(out, func(a, b moment) int { return cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli()) })
	return out
}

// revokeCredential revokes one credential. It works while the LiveStore is unavailable.
func (ps *Pages) revokeCredential(c echo.Context, v *session.Visit) error {
	id, reason := c.Param("id"), strings.TrimSpace(c.Request().PostForm.Get("reason"))
	if reason == "" {
		return broker.E(broker.Invalid, "A reason is required: it is written to the audit log. Go back and fill it in.", nil)
	}
	if _, err := ps.Broker.RevokeLease(c.Request().Context(), v.Principal, id, reason); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/credentials/"+id)
}

// retryCredential makes the next revocation attempt at the provider due now.
func (ps *Pages) retryCredential(c echo.Context, v *session.Visit) error {
	if _, err := ps.Broker.RetryLease(c.Request().Context(), v.Principal, c.Param("id")); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/credentials/"+c.Param("id"))
}

// forceCredential closes a pending revocation on the operator's word. The
// operator types the provider's name as a confirmation.
func (ps *Pages) forceCredential(c echo.Context, v *session.Visit) error {
	ctx, id, form := c.Request().Context(), c.Param("id"), c.Request().PostForm
	l, err := ps.Broker.Lease(ctx, v.Principal, id)
	if err != nil {
		return err
	}
	if form.Get("provider") != l.Provider {
		return broker.E(broker.Invalid, "The typed provider name does not match. Type it exactly as the page shows it. Nothing was changed.", nil)
	}
	if _, err := ps.Broker.ForceLease(ctx, v.Principal, id, strings.TrimSpace(form.Get("reason"))); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/credentials/"+id)
}
