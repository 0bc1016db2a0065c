package policies

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/policyadmin"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/replay"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// replayWait limits the wait for a replay. After it the page shows the progress.
const replayWait = 2 * time.Second

// replayPage shows the decisions that a draft would have made on past requests.
type replayPage struct {
	policyadmin.PolicyReplay
	Draft policyset.Draft
	Live  policyset.InForce
	Days  []int
	Moves []moveRow
}

// moveRow groups the requests whose decision changes from one given effect to another.
type moveRow struct {
	ID       string
	Says     string
	Wider    bool
	N        int
	Refused  int
	Examples []pairRow
	More     int // number of examples not listed
}

type pairRow struct {
	At             time.Time
	Task, Scope    string
	Request        string // id of the approval request
	Refused        bool
	Rule, NewRules string
	Diff           []string
}

func (ps *Pages) replay(c echo.Context, v *session.Visit) error {
	ctx := c.Request().Context()
	d, err := ps.Broker.PolicyDraft(ctx, v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	live, err := ps.Broker.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	days := 7
	if text := c.QueryParam("days"); text != "" {
		if days, err = strconv.Atoi(text); err != nil {
			days = 0 // ReplayPolicies refuses 0
		}
	}
	got, err := ps.Broker.ReplayPolicies(ctx, v.Principal, d.ID, days, replayWait)
	if err != nil {
		return err
	}
	page := replayPage{PolicyReplay: got, Draft: d, Live: live, Days: []int{1, 7, 30}}
	for i, m := range got.Moves {
		page.Moves = append(page.Moves, moveOf(i, m))
	}
	return ps.Shell.Draw(c, http.StatusOK, v, "replay", shell.Frame{Title: "Replay against a draft", Nav: "/policy"}, page)
}

func moveOf(i int, m replay.Move) moveRow {
	r := moveRow{ID: "move-" + strconv.Itoa(i), Wider: m.Wider, N: m.N, Refused: m.Refused, More: m.N - len(m.Examples)}
	says := policy.Move(m.From, m.To)
	r.Says = strings.ToUpper(says[:1]) + says[1:]
	for _, p := range m.Examples {
		row := pairRow{At: p.At, Task: p.TaskID, Scope: agenttext.Name(p.Recorded.Query.Scopes.String()), Request: p.Request, Refused: p.Refused, Rule: agenttext.Name(strings.Join(p.Live.Rules, ", ")), NewRules: agenttext.Name(strings.Join(p.Draft.Rules, ", "))}
		for _, d := range p.Diff {
			row.Diff = append(row.Diff, agenttext.Name(d))
		}
		r.Examples = append(r.Examples, row)
	}
	return r
}
