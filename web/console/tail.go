package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/agenttext"
)

// tailRows is how many rows a tail is told at once: who is further behind loads the page.
const tailRows = 20

// tailRow is a row of a list for the script that follows it: text and links by the names
// of places in the list's template. There is no markup in it, and no script makes any of it.
type tailRow struct {
	Key  string            `json:"key"` // which row it is
	Text map[string]string `json:"text"`
	Href map[string]string `json:"href"`
}

// tailList draws the newest rows of a list that starts with the newest.
type tailList struct {
	Rows []tailRow `json:"rows"`
}

// tailCredentials is the newest of what the same query lists.
func (s *Console) tailCredentials(c echo.Context, v *visit) error {
	a := readAsked(c)
	q := leaseQuery(a)
	if q.Order != "" && q.Order != broker.LeaseNewest {
		a.fail("Only the newest are followed.")
	}
	if err := a.done(); err != nil {
		return err
	}
	q.Limit, q.Look = tailRows, listLook
	slice, err := s.b.LeaseList(c.Request().Context(), v.Principal, q)
	if err != nil {
		return err
	}
	vw, out := s.view(c, v, frame{}, nil), tailList{Rows: []tailRow{}}
	for _, l := range slice.Leases {
		row := credential{l, v.now}
		out.Rows = append(out.Rows, tailRow{Key: l.ID,
			Text: map[string]string{"when": clock(vw, l.IssuedAt), "id": l.ID, "state": row.Word(), "provider": agenttext.Name(l.Provider), "scope": agenttext.Name(l.Scopes.String()), "task": l.TaskID, "owner": agenttext.Name(l.Owner), "ends": clock(vw, l.ExpiresAt)},
			Href: map[string]string{"self": vw.Base + "/credentials/" + l.ID, "task": vw.Base + "/tasks/" + l.TaskID},
		})
	}
	return c.JSON(http.StatusOK, out)
}

// tailTask is the newest of the record of a task, of the kinds that the same query lists.
func (s *Console) tailTask(c echo.Context, v *visit) error {
	a := readAsked(c)
	_, q := taskQuery(a, c.Param("id"))
	if err := a.done(); err != nil {
		return err
	}
	q.Limit, q.Look = tailRows, listLook
	slice, err := s.b.EntryList(c.Request().Context(), v.Principal, q)
	if err != nil {
		return err
	}
	vw, out := s.view(c, v, frame{}, nil), tailList{Rows: []tailRow{}}
	for _, e := range entryRows(vw, slice.Entries).Rows {
		row := tailRow{Key: e.Key(), Text: map[string]string{"when": clock(vw, e.At), "id": "entry " + e.Key(), "kind": e.Kind, "by": agenttext.Name(e.Actor)}, Href: map[string]string{"self": vw.Base + "/audit/" + e.Key()}}
		for _, what := range e.About {
			row.Text["about"] += agenttext.Name(what.Text) + " "
		}
		out.Rows = append(out.Rows, row)
	}
	return c.JSON(http.StatusOK, out)
}
