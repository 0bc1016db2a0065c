package tasks

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

type sandboxPage struct {
	Task      task
	Sandbox   *broker.Sandbox // nil: no sandbox has enrolled yet
	Class     string
	Selectors []selector
	Last      audit.Entry // the last accepted evidence
	Live      []list.Credential
	More      bool
	Entries   []audit.Entry
	Names     map[string]string // of the tasks of the entries, by id
	Reads     bool
}

// selector compares a selector that the runner registered with the evidence.
type selector struct {
	Name, Registered, Found string
	Result                  string // "", same, DIFFERENT, missing
	Tone                    string
}

// classes explains the classes of evidence.
var classes = map[string]string{
	"kernel": "the kernel of this machine identified the process", "signed": "a signed statement identified it", "hardware": "hardware signed a measurement of the running code",
	"ticket": "it presented the one-time ticket of the task", "bearer": "it presented a bearer document, which others can copy",
}

// sandbox shows the evidence of a sandbox. A task has exactly one sandbox, with
// the same id after the prefix.
func (ps *Pages) sandbox(c echo.Context, v *session.Visit) error {
	ctx, id := c.Request().Context(), c.Param("id")
	t, err := ps.Broker.Task(ctx, v.Principal, "tsk_"+strings.TrimPrefix(id, "sbx_"))
	if err != nil || !strings.HasPrefix(id, "sbx_") {
		if err == nil || broker.AsError(err).Kind == broker.NotFound {
			err = broker.E(broker.NotFound, "There is no such sandbox.", err)
		}
		return err
	}
	page := sandboxPage{Task: task{t}, Names: map[string]string{t.ID: t.Name}, Sandbox: t.Sandbox, Selectors: selectorsOf(t), Reads: v.Has(session.AuditReaders...)}
	if t.Sandbox != nil {
		page.Class = classes[t.Sandbox.Class]
	}
	if page.Reads {
		slice, err := ps.Broker.LeaseList(ctx, v.Principal, broker.LeaseQuery{TaskID: t.ID, Sandbox: id, Limit: list.Rows, Look: list.Look})
		if err != nil {
			return err
		}
		for _, l := range slice.Leases {
			page.Live = append(page.Live, list.Credential{Lease: l, Now: v.Now})
		}
		page.More = slice.More
		entries, err := ps.Broker.EntryList(ctx, v.Principal, broker.EntryQuery{TaskID: t.ID, Kinds: []string{"sandbox."}, Limit: list.Rows, Look: list.Look})
		if err != nil {
			return err
		}
		page.Entries = entries.Entries
		for _, e := range page.Entries {
			if e.Kind == audit.SandboxEnrolled || e.Kind == audit.SandboxAttested || e.Kind == audit.SandboxToken {
				page.Last = e
				break
			}
		}
	}
	return ps.Shell.Draw(c, http.StatusOK, v, "sandbox", shell.Frame{Title: titleOf(t, "Sandbox"), Nav: "/tasks"}, page)
}

func selectorsOf(t broker.Task) []selector {
	found := map[string]string{}
	if t.Sandbox != nil {
		found = t.Sandbox.Selectors
	}
	names := slices.Collect(maps.Keys(t.Expect.Selectors))
	names = append(names, slices.Collect(maps.Keys(found))...)
	slices.Sort(names)
	var out []selector
	for _, n := range slices.Compact(names) {
		want, registered := t.Expect.Selectors[n]
		got, has := found[n]
		row := selector{Name: n, Registered: want, Found: got}
		switch {
		case t.Sandbox == nil, !registered:
		case !has:
			row.Result, row.Tone = "missing", "bad"
		case want == got:
			row.Result, row.Tone = "same", "good"
		default:
			row.Result, row.Tone = "DIFFERENT", "bad"
		}
		out = append(out, row)
	}
	return out
}
