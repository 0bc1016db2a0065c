package credentials

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

var credentialHead = []string{"id", "state", "issued_at", "expires_at", "refused_here_at", "revoked_by", "cause", "provider", "scope", "resource", "revocability", "bound_seconds",
	"accepted_by_provider_at", "dead_at_provider_at", "proof", "attempts", "last_error", "task_id", "sandbox", "owner", "tool", "rule", "request_id", "approved_by", "parent_id", "txn"}

func credentialCells(l broker.Lease, approvers []string) []string {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	u := broker.Upstream{}
	if l.Upstream != nil {
		u = *l.Upstream
	}
	return []string{l.ID, string(l.State), stamp(l.IssuedAt), stamp(l.ExpiresAt), stamp(l.RevokedAt), l.RevokedBy, string(l.Cause), l.Provider, l.Scopes.String(), l.Resource, string(l.Class),
		strconv.FormatInt(int64(u.Bound), 10), stamp(u.AcceptedAt), stamp(u.DeadAt), string(u.Proof), strconv.Itoa(u.Attempts), u.LastError, l.TaskID, l.Sandbox, l.Owner, l.Tool, l.Rule, l.RequestID, strings.Join(approvers, " "), l.ParentID, l.Txn}
}

// exportCredentials exports the list that the page shows for the same query.
func (ps *Pages) exportCredentials(format string) func(echo.Context, *session.Visit) error {
	return func(c echo.Context, v *session.Visit) error {
		a := list.ReadQuery(c)
		q, _ := leaseQuery(c, v, a)
		if err := a.Done(); err != nil {
			return err
		}
		q.Limit, q.Look = list.ExportRows, list.ExportLook
		ctx := c.Request().Context()
		// The viewer role may not export: the export contains what the other roles may read.
		who := v.Principal
		who.Roles = slices.DeleteFunc(slices.Clone(who.Roles), func(r broker.Role) bool { return r == broker.RoleViewer })
		page, err := ps.Broker.LeaseList(ctx, who, q)
		if err != nil {
			return err
		}
		x := list.NewExport(ps.Broker, c, v, "credentials", format, a.Filter(), credentialHead)
		x.Open()
		for {
			by, err := ps.approvers(ctx, who, page.Leases)
			if err != nil {
				return x.Close(err)
			}
			for _, l := range page.Leases {
				if err := x.Row(func() []string { return credentialCells(l, by[l.RequestID]) }, l); err != nil {
					return x.Close(err)
				}
			}
			if !page.More {
				return x.Close(nil)
			}
			q.Place = page.Stop
			if page, err = ps.Broker.LeaseList(ctx, who, q); err != nil {
				return x.Close(err)
			}
		}
	}
}

// exportProof sends the audit entries about the listed credentials, with the
// proof that they are in the audit log, unaltered.
func (ps *Pages) exportProof(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	q, _ := leaseQuery(c, v, a)
	if err := a.Done(); err != nil {
		return err
	}
	p, err := ps.Broker.ProveLeases(c.Request().Context(), v.Principal, q, a.Filter())
	if err != nil {
		return err
	}
	return list.NewExport(ps.Broker, c, v, "credentials", list.FormatProof, a.Filter(), nil).Proof(p)
}

// tailCredentials returns the newest rows of the list of credentials with the same query.
func (ps *Pages) tailCredentials(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	q, _ := leaseQuery(c, v, a)
	if q.Order != "" && q.Order != broker.LeaseNewest {
		a.Fail("Only a list sorted newest first can be followed.")
	}
	if err := a.Done(); err != nil {
		return err
	}
	q.Limit, q.Look = list.TailRows, list.Look
	slice, err := ps.Broker.LeaseList(c.Request().Context(), v.Principal, q)
	if err != nil {
		return err
	}
	rows, err := ps.rowsOf(c.Request().Context(), v, slice.Leases)
	if err != nil {
		return err
	}
	vw, out := ps.Shell.View(c, v, shell.Frame{}, nil), list.Tail{Rows: []list.TailRow{}}
	clock := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return shell.Clock(vw, t)
	}
	for _, row := range rows {
		l := row.Lease
		out.Rows = append(out.Rows, list.TailRow{Key: l.ID,
			Text: map[string]string{"when": shell.Clock(vw, l.IssuedAt), "id": l.ID, "state": row.Word(), "provider": agenttext.Name(l.Provider), "scope": agenttext.Name(l.Scopes.String()), "task": list.About{Text: l.TaskID, Name: row.TaskName}.Short(), "owner": agenttext.Name(l.Owner), "ends": shell.Clock(vw, l.ExpiresAt),
				"approvers": agenttext.Name(strings.Join(row.Approvers, ", ")), "refused": clock(l.RevokedAt), "dead": clock(row.DeadAt())},
			Href: map[string]string{"self": vw.Base + "/credentials/" + l.ID, "task": vw.Base + "/tasks/" + l.TaskID},
		})
	}
	return c.JSON(http.StatusOK, out)
}
