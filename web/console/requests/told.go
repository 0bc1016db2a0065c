package requests

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// audience finds the people who can decide a request, and the messages about it.
type audience struct {
	b      Context
	reach  people.ReachStore
	rights func(people.Reach) broker.Principal
	outbox notify.Outbox
}

// shortcuts reports whether the person wants shortcuts of one key.
func (a *audience) shortcuts(ctx context.Context, v *session.Visit) bool {
	r, err := a.reach.Reach(ctx, v.ID)
	return err == nil && !r.Preferences.NoShortcuts
}

// told returns a sentence with the number of other people who can approve a waiting request, and a
// sentence with the channels that were notified. Visitors without the right to read the agent's
// text get neither. Both are optional: a store that does not answer must not prevent a denial.
func (a *audience) told(ctx context.Context, v shell.View, r broker.Request) (out []string) {
	if !report.ReadsWords(v.Who.Principal, r) {
		return nil
	}
	waits := r.State == broker.RequestPending && r.ExpiresAt.After(v.Now)
	if known, err := a.reach.Reachable(ctx, v.Now.Add(-people.KnownFor)); err == nil && waits {
		out = append(out, fmt.Sprintf("Approvers: %s. ebb knows %s who can decide this.", groups(r.Groups), a.others(v.Who.Principal, known, r)))
	}
	sent, err := a.outbox.Sent(ctx, r.ID, v.Now)
	if err != nil {
		return out
	}
	var parts []string
	for _, m := range sent {
		parts = append(parts, message(v, m))
	}
	if len(parts) > 0 || waits { // the messages of old requests are removed
		out = append(out, "Notified: "+cmp.Or(strings.Join(parts, "; "), persons(0))+".")
	}
	return out
}

// others returns the number of people besides the visitor who can decide r: configured
// principals, and people who have signed in lately.
func (a *audience) others(visitor broker.Principal, known []people.Reach, r broker.Request) string {
	names := [][]string{visitor.Names()}
	count := func(mine []string) {
		if !slices.ContainsFunc(names, func(other []string) bool { return people.Same(other, mine) }) {
			names = append(names, mine)
		}
	}
	for _, p := range a.b.Approvers(r) {
		count(p.Names())
	}
	for _, k := range known {
		if p := a.rights(k); broker.MayDecide(p, r) == nil {
			count(p.Names())
		}
	}
	n := len(names) - 1
	switch {
	case broker.MayDecide(visitor, r) != nil:
		return persons(n)
	case n == 0:
		return "nobody else"
	case n == 1:
		return "1 other person"
	}
	return fmt.Sprintf("%d other people", n)
}

func groups(names []string) string {
	if len(names) == 1 {
		return "group " + names[0]
	}
	return "groups " + strings.Join(names, ", ")
}

func persons(n int) string {
	switch n {
	case 0:
		return "nobody"
	case 1:
		return "1 person"
	}
	return fmt.Sprintf("%d people", n)
}

// message describes the messages of one channel and one state.
func message(v shell.View, m notify.Sent) string {
	text := m.Channel
	if m.People {
		text += " to " + persons(m.N)
	}
	return text + map[notify.State]string{notify.StateSent: " " + shell.Span(v.Now.Sub(m.At)) + " ago", notify.StateFailed: " failed", notify.StateWaiting: " not sent yet"}[m.State]
}
