package policies

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// filePage is the editor of one file of a draft.
type filePage struct {
	Draft      string
	Was        string // digest of the draft when the form was drawn
	Name, Text string
	Known      bool // the draft already contains the file
	Note       string
	Problems   []string
}

func (ps *Pages) draftFile(c echo.Context, v *session.Visit) error {
	d, err := ps.Broker.PolicyDraft(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	page := filePage{Draft: d.ID, Was: d.Digest(), Note: d.Note}
	if name := c.QueryParam("name"); name != "" {
		i := slices.IndexFunc(d.Files, func(f policyset.File) bool { return f.Name == name })
		if i < 0 {
			return broker.E(broker.NotFound, "The draft has no such file.", nil)
		}
		page.Name, page.Text, page.Known = name, d.Files[i].Text, true
	}
	return ps.drawFile(c, http.StatusOK, v, page)
}

func (ps *Pages) drawFile(c echo.Context, status int, v *session.Visit, page filePage) error {
	page.Name, page.Text = agenttext.Name(page.Name), shell.Editable(page.Text)
	return ps.Shell.Draw(c, status, v, "draftfile", shell.Frame{Title: "Edit a policy file", Nav: "/policy"}, page)
}

// saveFile stores a file in the visitor's own draft. The whole draft must load with it. Otherwise
// nothing is stored, and the page shows every problem next to the typed text.
func (ps *Pages) saveFile(c echo.Context, v *session.Visit) error {
	ctx, form, id := c.Request().Context(), c.Request().PostForm, c.Param("id")
	d, err := ps.Broker.PolicyDraft(ctx, v.Principal, id)
	if err != nil {
		return err
	}
	page := filePage{Draft: id, Was: form.Get("was"), Name: form.Get("name"), Text: form.Get("text"), Note: form.Get("note"), Known: form.Get("known") != ""}
	_, err = ps.Broker.RedraftPolicies(ctx, v.Principal, id, page.Was, page.Note, policyset.With(d.Files, policyset.File{Name: page.Name, Text: page.Text}), false)
	if err == nil {
		return ps.Shell.Redirect(c, "/policy/drafts/"+id)
	}
	e := broker.AsError(err)
	for _, p := range policyset.Problems(err) {
		page.Problems = append(page.Problems, shell.OneLine(p.String()))
	}
	switch {
	case len(page.Problems) > 0:
	case e.Kind == broker.Invalid || e.Kind == broker.Conflict:
		page.Problems = []string{e.Public}
	default:
		return err
	}
	status := web.Lookup(e.Kind).Status
	if e.Kind == broker.Invalid {
		status = http.StatusUnprocessableEntity
	}
	return ps.drawFile(c, status, v, page)
}
