package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
)

// tailRows limits the rows of one response. Readers further behind
// reload the page.
const tailRows = 20

// tailRow is a row for the script that follows a list: texts and links, by the
// names of slots in the list's template. It contains no markup, and the script
// creates none.
type tailRow struct {
	Key  string            `json:"key"` // id of the row
	Text map[string]string `json:"text"`
	Href map[string]string `json:"href"`
}

// tailList holds the newest rows of a list that is sorted newest first.
type tailList struct {
	Rows []tailRow `json:"rows"`
}

// tailCredentials returns the newest rows of the list of credentials with the
// same query.
func (ap *auditPages) tailCredentials(c echo.Context, v *visit) error {
	a := readAsked(c)
	q := leaseQuery(a)
	if q.Order != "" && q.Order != broker.LeaseNewest {
		a.fail("Only a list sorted newest first can be followed.")
	}
	if err := a.done(); err != nil {
		return err
	}
	q.Limit, q.Look = tailRows, listLook
	slice, err := ap.b.LeaseList(c.Request().Context(), v.Principal, q)
	if err != nil {
		return err
	}
	vw, out := ap.pages.view(c, v, frame{}, nil), tailList{Rows: []tailRow{}}
	for _, l := range slice.Leases {
		row := credential{l, v.now}
		out.Rows = append(out.Rows, tailRow{Key: l.ID,
			Text: map[string]string{"when": clock(vw, l.IssuedAt), "id": l.ID, "state": row.Word(), "provider": agenttext.Name(l.Provider), "scope": agenttext.Name(l.Scopes.String()), "task": l.TaskID, "owner": agenttext.Name(l.Owner), "ends": clock(vw, l.ExpiresAt)},
			Href: map[string]string{"self": vw.Base + "/credentials/" + l.ID, "task": vw.Base + "/tasks/" + l.TaskID},
		})
	}
	return c.JSON(http.StatusOK, out)
}

// tailTask returns the newest audit entries of a task, of the kinds that the
// page's query selects.
func (ap *auditPages) tailTask(c echo.Context, v *visit) error {
	a := readAsked(c)
	_, q := taskQuery(a, c.Param("id"))
	if err := a.done(); err != nil {
		return err
	}
	q.Limit, q.Look = tailRows, listLook
	slice, err := ap.b.EntryList(c.Request().Context(), v.Principal, q)
	if err != nil {
		return err
	}
	vw, out := ap.pages.view(c, v, frame{}, nil), tailList{Rows: []tailRow{}}
	for _, e := range entryRows(vw, slice.Entries).Rows {
		row := tailRow{Key: e.Key(), Text: map[string]string{"when": clock(vw, e.At), "id": "entry " + e.Key(), "kind": e.Kind, "by": agenttext.Name(e.Actor)}, Href: map[string]string{"self": vw.Base + "/audit/" + e.Key()}}
		for _, what := range e.About {
			row.Text["about"] += agenttext.Name(what.Text) + " "
		}
		out.Rows = append(out.Rows, row)
	}
	return c.JSON(http.StatusOK, out)
}
