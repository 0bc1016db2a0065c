package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/transcript"
)

// narrowedRows and leaseEntries bound what a page of one credential lists.
const (
	narrowedRows = 100
	leaseEntries = 200
)

type credentialPage struct {
	credential
	Life        []moment
	Narrowed    []credential
	More        bool // there are more that were narrowed from it
	Entries     []audit.Entry
	Reads       bool // who looks sees the record of it
	Transcripts transcriptsOf
	Task        broker.Task
	Revoke      bool // may be revoked by who looks, and there is something to revoke
	Retry       bool
	Force       bool
}

// moment is one of a life.
type moment struct {
	At   time.Time
	What string
	Note string
	Tone string
}

// credential shows one: what it may, its life, and what is left to do about it.
func (s *Console) credential(c echo.Context, v *visit) error {
	ctx, id := c.Request().Context(), c.Param("id")
	l, err := s.b.Lease(ctx, v.Principal, id)
	if err != nil {
		return err
	}
	page := credentialPage{credential: credential{l, v.now}}
	if page.Task, err = s.b.Task(ctx, v.Principal, l.TaskID); err != nil {
		return err
	}
	of := "" // a runner names its task; what was narrowed may be of one below it
	if !v.Has(broker.RoleAuditor, broker.RoleOperator, broker.RoleViewer) {
		of = l.TaskID
	}
	children, err := s.b.Leases(ctx, v.Principal, broker.LeaseFilter{Parents: []string{id}, TaskID: of, Page: broker.Page{Limit: narrowedRows + 1}})
	if err != nil {
		return err
	}
	for _, n := range children[:min(len(children), narrowedRows)] {
		page.Narrowed = append(page.Narrowed, credential{n, v.now})
	}
	page.More = len(children) > narrowedRows
	if page.Reads = v.Has(readers...); page.Reads {
		if page.Entries, err = s.entriesOf(c, v, broker.EntryFilter{LeaseID: id, TaskID: of, Limit: leaseEntries}); err != nil {
			return err
		}
	}
	page.Transcripts = s.transcriptsOf(v, "lease="+id, transcript.Filter{LeaseID: id})
	page.Life = page.life()
	ends := v.Has(broker.RoleOperator) || v.Has(broker.RoleRunner) && page.Task.Runner == v.ID
	page.Revoke = ends && (l.State == broker.LeaseLive || l.State == broker.LeaseIntent)
	page.Retry = v.Has(broker.RoleOperator) && l.State == broker.LeaseRevoking && l.Upstream != nil
	page.Force = page.Retry
	return s.draw(c, http.StatusOK, v, "credential", frame{Title: "Credential", Nav: "/credentials"}, page)
}

// entriesOf reads entries into memory; the filter has a limit.
func (s *Console) entriesOf(c echo.Context, v *visit, f broker.EntryFilter) ([]audit.Entry, error) {
	seq, err := s.b.Entries(c.Request().Context(), v.Principal, f)
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
	return &broker.Error{Kind: broker.Unavailable, Public: "The record cannot be read at the moment; try again shortly.", Cause: err, RetryAfter: 5 * time.Second}
}

// life is what happened to it and what will, in order.
func (l credential) life() []moment {
	out := []moment{{l.IssuedAt, "Issued", "", "good"}}
	add := func(at time.Time, what, note, tone string) {
		if !at.IsZero() {
			out = append(out, moment{at, what, note, tone})
		}
	}
	add(l.RevokedAt, "Refused here", l.Why(), "warn")
	if u := l.Upstream; u != nil {
		add(u.AcceptedAt, "Provider took the revocation", "", "")
		add(u.ProbedAt, "Tried at the provider", "", "")
		add(u.DeadAt, "Dead at the provider", l.Proof(), "good")
		add(u.NextAt, "Looked at again", "", "")
		if !u.DiesAt.Equal(l.ExpiresAt) {
			add(u.DiesAt, "Refused by the provider by itself", "", "")
		}
	}
	add(l.ExpiresAt, "Ends by itself", "", "")
	slices.SortStableFunc(out, func(a, b moment) int { return cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli()) })
	return out
}

// revokeCredential ends one. It works although the ledger is gone.
func (s *Console) revokeCredential(c echo.Context, v *visit) error {
	id, reason := c.Param("id"), strings.TrimSpace(c.Request().PostForm.Get("reason"))
	if reason == "" {
		return broker.E(broker.Invalid, "Say why it is revoked: it goes on the record. Go back and fill in the reason.", nil)
	}
	if _, err := s.b.RevokeLease(c.Request().Context(), v.Principal, id, reason); err != nil {
		return err
	}
	return s.redirect(c, "/credentials/"+id)
}

// retryCredential makes the next attempt at its provider due now.
func (s *Console) retryCredential(c echo.Context, v *visit) error {
	if _, err := s.b.RetryLease(c.Request().Context(), v.Principal, c.Param("id")); err != nil {
		return err
	}
	return s.redirect(c, "/credentials/"+c.Param("id"))
}

// forceCredential ends what is owed by a person's word, who types the provider's name
// to have read what that means.
func (s *Console) forceCredential(c echo.Context, v *visit) error {
	ctx, id, form := c.Request().Context(), c.Param("id"), c.Request().PostForm
	l, err := s.b.Lease(ctx, v.Principal, id)
	if err != nil {
		return err
	}
	if form.Get("provider") != l.Provider {
		return broker.E(broker.Invalid, "Type the name of the provider exactly as the page has it. Nothing was changed.", nil)
	}
	if _, err := s.b.ForceLease(ctx, v.Principal, id, strings.TrimSpace(form.Get("reason"))); err != nil {
		return err
	}
	return s.redirect(c, "/credentials/"+id)
}
