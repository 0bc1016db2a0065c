package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/broker/policyset"
	"ebb/broker/replay"
	"ebb/scopes/policy"
)

// replayWait is how long a page waits for a replay before it says how far that is.
const replayWait = 2 * time.Second

// replayPage is what a draft would have decided.
type replayPage struct {
	broker.PolicyReplay
	Draft policyset.Draft
	Live  policyset.InForce
	Days  []int
	Moves []moveRow
}

// moveRow is what went from one answer to another.
type moveRow struct {
	ID       string
	Says     string
	Wider    bool
	N        int
	Refused  int
	Examples []pairRow
	More     int // that are not listed
}

type pairRow struct {
	At             time.Time
	Task, Scope    string
	Request        string // that people were asked by
	Refused        bool
	Rule, NewRules string
	Diff           []string
}

func (s *Console) replay(c echo.Context, v *visit) error {
	ctx := c.Request().Context()
	d, err := s.b.PolicyDraft(ctx, v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	live, err := s.b.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	days := 7
	if text := c.QueryParam("days"); text != "" {
		if days, err = strconv.Atoi(text); err != nil {
			days = 0 // refused below
		}
	}
	got, err := s.b.ReplayPolicies(ctx, v.Principal, d.ID, days, replayWait)
	if err != nil {
		return err
	}
	page := replayPage{PolicyReplay: got, Draft: d, Live: live, Days: []int{1, 7, 30}}
	for i, m := range got.Moves {
		page.Moves = append(page.Moves, moveOf(i, m))
	}
	return s.draw(c, http.StatusOK, v, "replay", frame{Title: "Replay against a draft", Nav: "/policy"}, page)
}

// answered are the answers of a set to what is past.
var answered = map[policy.Effect]string{policy.Allow: "granted", policy.Ask: "asked", policy.Deny: "denied"}

func moveOf(i int, m replay.Move) moveRow {
	r := moveRow{ID: "move-" + strconv.Itoa(i), Says: "Now " + answered[m.To] + ", " + answered[m.From] + " before", Wider: m.Wider, N: m.N, Refused: m.Refused, More: m.N - len(m.Examples)}
	if m.From == m.To {
		r.Says = "Still " + answered[m.To] + ", for other people or another time"
	}
	for _, p := range m.Examples {
		row := pairRow{At: p.At, Task: p.TaskID, Scope: agenttext.Name(p.Recorded.Query.Scopes.String()), Request: p.Request, Refused: p.Refused, Rule: agenttext.Name(strings.Join(p.Live.Rules, ", ")), NewRules: agenttext.Name(strings.Join(p.Draft.Rules, ", "))}
		for _, d := range p.Diff {
			row.Diff = append(row.Diff, agenttext.Name(d))
		}
		r.Examples = append(r.Examples, row)
	}
	return r
}
