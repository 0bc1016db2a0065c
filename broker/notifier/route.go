package notifier

import (
	"context"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/risk"
)

// knownFor is the time after the last sign-in for which a person is still notified. Identity
// providers do not report that a person has left.
const knownFor = 30 * 24 * time.Hour

// maxPeople bounds the recipients of one notice through one channel.
const maxPeople = 200

// everybody is the list of people with an address of their own.
type everybody []people.Reach

func (n *Notifier) everybody(ctx context.Context) (everybody, error) {
	for _, c := range n.channels {
		if c.People || c.Push {
			return n.cfg.People.Reachable(ctx, n.cfg.Now().Add(-knownFor))
		}
	}
	return nil, nil
}

// concerned selects recipients: members of groups, holders of a role, or the owner of a task. It
// also names the people to leave out.
type concerned struct {
	groups []string
	roles  []string
	owner  string
	not    []string
}

func (c concerned) includes(p people.Reach) bool {
	if slices.ContainsFunc(c.not, p.Is) {
		return false
	}
	common := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
	}
	return p.Is(c.owner) || common(c.roles, p.Roles) || slices.Contains(p.Roles, string(broker.RoleApprover)) && common(c.groups, p.Groups)
}

// takes reports whether the route selects this event.
func (r Route) takes(e notify.Event, level risk.Level, provider string, groups []string) bool {
	common := slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(r.Groups, g) })
	return (len(r.Events) == 0 || slices.Contains(r.Events, e)) && (len(r.Groups) == 0 || common) &&
		(len(r.Providers) == 0 || slices.Contains(r.Providers, provider)) && level.Rank() >= r.MinRisk.Rank()
}

// recipients returns the shared destinations and the people that the named channels reach.
func (n *Notifier) recipients(names []string, whom concerned, known everybody) (out []recipient) {
	for _, name := range names {
		c := n.channels[name]
		if c.Place {
			out = append(out, recipient{Recipient: notify.Recipient{Channel: name}})
		}
		told := 0
		for _, p := range known { // most recent sign-in first
			if address := c.address(p); address != "" && told < maxPeople && whom.includes(p) {
				out = append(out, recipient{notify.Recipient{Channel: name, Person: p.Person, Address: address}, &p.Preferences})
				told++
			}
		}
	}
	return out
}

// address returns the person's address in the form of the channel, "" without one.
func (c Channel) address(p people.Reach) string {
	switch {
	case c.People:
		return p.Mail
	case c.Push && p.Browsers > 0:
		return p.Person
	}
	return ""
}

// recipient is a shared destination, or a person with their preferences.
type recipient struct {
	notify.Recipient
	preferences *people.Preferences
}

// asked plans the notices that a request waits: one now and one at half of its waiting time.
func (n *Notifier) asked(r broker.Request, known everybody) (items []notify.Item) {
	notice, now := noticeOf(r, notify.Waiting), n.cfg.Now()
	level := risk.Level(notice.Risk)
	half := r.CreatedAt.Add(r.ExpiresAt.Sub(r.CreatedAt) / 2)
	mine := []string{r.Owner, r.Runner} // they have no vote
	for _, route := range n.cfg.Routes {
		if route.takes(notify.Waiting, level, r.Provider, r.Groups) {
			for _, to := range n.recipients(route.Channels, concerned{groups: r.Groups, not: mine}, known) {
				items = n.add(items, to, notice, now, r.ExpiresAt, false)
			}
		}
		if !route.takes(notify.Escalated, level, r.Provider, r.Groups) {
			continue
		}
		groups := route.EscalateGroups
		if len(groups) == 0 {
			groups = r.Groups
		}
		late := notice
		late.Event = notify.Escalated
		for _, to := range n.recipients(route.Escalate, concerned{groups: groups, not: mine}, known) {
			items = n.add(items, to, late, slices.MaxFunc([]time.Time{half, now}, time.Time.Compare), r.ExpiresAt, true)
		}
	}
	return items
}

// ended plans the notices of a request's result, for the recipients of the first notice and for
// the owner of the task.
func (n *Notifier) ended(ctx context.Context, e audit.Entry, known everybody) (items []notify.Item, err error) {
	r, found, err := n.request(ctx, e.RequestID)
	if err != nil || !found {
		return nil, err
	}
	told, err := n.cfg.Outbox.Told(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	notice := outcomeOf(r, e)
	for _, route := range n.cfg.Routes {
		if !route.takes(notice.Event, risk.Level(notice.Risk), r.Provider, r.Groups) {
			continue
		}
		for _, to := range n.recipients(route.Channels, concerned{owner: r.Owner}, known) {
			if to.Person != "" {
				items = n.add(items, to, notice, n.cfg.Now(), time.Time{}, false)
			}
		}
	}
	for _, t := range told {
		to := recipient{Recipient: t}
		if i := slices.IndexFunc(known, func(p people.Reach) bool { return p.Person == t.Person }); t.Person != "" && i >= 0 {
			to.preferences = &known[i].Preferences
		}
		if n.channels[t.Channel] != nil { // it may have been removed from the configuration
			items = n.add(items, to, notice, n.cfg.Now(), time.Time{}, false)
		}
	}
	return items, nil
}

// paused plans the notice to the owner of a task that the broker paused.
func (n *Notifier) paused(ctx context.Context, e audit.Entry, known everybody) ([]notify.Item, error) {
	if e.Actor != self {
		return nil, nil
	}
	ts, err := n.cfg.Tasks.Tasks(ctx, broker.TaskFilter{IDs: []string{e.TaskID}})
	if err != nil || len(ts) != 1 {
		return nil, err
	}
	return n.told(pausedOf(ts[0], e), concerned{owner: ts[0].Owner}, known), nil
}

// happened plans the notices of entries that concern more people than the task's owner.
func (n *Notifier) happened(e audit.Entry, known everybody) []notify.Item {
	notice, tell := happening(e)
	if !tell {
		return nil
	}
	whom := concerned{roles: []string{string(broker.RoleApprover), string(broker.RoleAuditor)}}
	if notice.Event == notify.Draft {
		whom = concerned{roles: []string{string(broker.RoleOperator)}, not: []string{e.Actor}}
	}
	return n.told(notice, whom, known)
}

// told plans the notices of an event that is not a request. Events that are too old are left out.
func (n *Notifier) told(notice notify.Notice, whom concerned, known everybody) (items []notify.Item) {
	for _, route := range n.cfg.Routes {
		if route.takes(notice.Event, risk.High, "", nil) {
			for _, to := range n.recipients(route.Channels, whom, known) {
				items = n.add(items, to, notice, n.cfg.Now(), time.Time{}, false)
			}
		}
	}
	return items
}
