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

// maxPeople bounds the recipients of one notice through one channel.
const maxPeople = 200

// everybody is the list of people with an address of their own.
type everybody []people.Reach

func (n *Notifier) everybody(ctx context.Context) (everybody, error) {
	for _, c := range n.channels {
		if c.People || c.Push {
			return n.cfg.People.Reachable(ctx, n.cfg.Now().Add(-people.KnownFor))
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
	return p.Is(c.owner) || broker.Meet(c.roles, p.Roles) || slices.Contains(p.Roles, string(broker.RoleApprover)) && broker.Meet(c.groups, p.Groups)
}

// takes reports whether the route selects this event.
func (r Route) takes(e notify.Event, level risk.Level, provider string, groups []string) bool {
	return (len(r.Events) == 0 || slices.Contains(r.Events, e)) && (len(r.Groups) == 0 || broker.Meet(groups, r.Groups)) &&
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
				out = append(out, recipient{notify.Recipient{Channel: name, Person: p.Person, Address: address}, &p})
				told++
			}
		}
	}
	return out
}

// address returns the person's address in the form of the channel, "" without one.
func (c *channel) address(p people.Reach) string {
	switch {
	case c.People:
		return p.Mail
	case c.Push && p.Browsers > 0:
		return p.Person
	}
	return ""
}

// recipient is a shared destination, or a person.
type recipient struct {
	notify.Recipient
	who *people.Reach
}

// waiting plans a notice of a waiting request. A person who is away is left out if their delegate
// gets this notice and may decide the request. A request that needs two approvals notifies both,
// because the delegate has one vote.
func (n *Notifier) waiting(items []notify.Item, r broker.Request, all []recipient, notice notify.Notice, from time.Time, must bool) []notify.Item {
	now := n.cfg.Now()
	for _, to := range all {
		standsIn := func(d recipient) bool {
			return d.who != nil && d.Person == to.who.Preferences.Away.Delegate && !d.who.Preferences.Away.At(now) &&
				broker.MayDecide(n.cfg.Rights(*d.who), r) == nil && len(n.add(nil, d, notice, from, r.ExpiresAt, must)) > 0
		}
		if r.Quorum > 1 || to.who == nil || !to.who.Preferences.Away.At(now) || !slices.ContainsFunc(all, standsIn) {
			items = n.add(items, to, notice, from, r.ExpiresAt, must)
		}
	}
	return items
}

// delegated reports whether a planned notice of a request goes to the recipient's delegate, because the recipient's
// absence began after the notice was planned. If so, delegated also plans the notice for the delegate. Planning a
// notice twice has no effect.
func (n *Notifier) delegated(ctx context.Context, to people.Reach, i notify.Item, r broker.Request, known everybody) (bool, error) {
	var items []notify.Item
	for _, now := range n.asked(r, known) {
		switch {
		case now.Notice.Event != i.Notice.Event:
		case now.Person == to.Person:
			return false, nil
		case now.Person == to.Preferences.Away.Delegate:
			items = append(items, now)
		}
	}
	if len(items) == 0 {
		return false, nil
	}
	return true, n.cfg.Outbox.Keep(ctx, notify.Plan{Items: items, Now: n.cfg.Now(), Most: n.cfg.Most, Window: n.cfg.Digest})
}

// asked plans the notices that a request waits: one now and one at half of its waiting time.
func (n *Notifier) asked(r broker.Request, known everybody) (items []notify.Item) {
	notice, now := noticeOf(r, notify.Waiting), n.cfg.Now()
	level := risk.Level(notice.Risk)
	half := r.CreatedAt.Add(r.ExpiresAt.Sub(r.CreatedAt) / 2)
	mine := []string{r.Owner, r.Runner} // they have no vote
	for _, route := range n.cfg.Routes {
		if route.takes(notify.Waiting, level, r.Provider, r.Groups) {
			items = n.waiting(items, r, n.recipients(route.Channels, concerned{groups: r.Groups, not: mine}, known), notice, now, false)
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
		items = n.waiting(items, r, n.recipients(route.Escalate, concerned{groups: groups, not: mine}, known), late, slices.MaxFunc([]time.Time{half, now}, time.Time.Compare), true)
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
			to.who = &known[i]
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

// newsFor is the time for which an event without a deadline is worth a notice.
const newsFor = 24 * time.Hour

// add plans one notice for one recipient, unless the recipient does not want it or it would come
// too late. must means at once, at any risk. Quiet hours still delay it, except for events that
// ignore all preferences.
func (n *Notifier) add(items []notify.Item, to recipient, notice notify.Notice, from, until time.Time, must bool) []notify.Item {
	if until.IsZero() {
		until = n.cfg.Now().Add(newsFor)
	}
	if notice.Event.Must() {
		return append(items, notify.Item{Recipient: to.Recipient, Notice: notice, SendAt: from, Until: until})
	}
	// Events of tasks and policies have no risk level. They are rare and treated as high risk.
	high := notice.Risk == "" || notice.Risk == string(risk.High)
	wish := people.InDigest
	if high {
		wish = people.AtOnce
	}
	if to.who != nil {
		wish = to.who.Preferences.Of(notice.Risk)
	}
	if wish == people.Never {
		return items
	}
	i := notify.Item{Recipient: to.Recipient, Notice: notice, SendAt: from, Until: until}
	next := from.Truncate(n.cfg.Digest).Add(n.cfg.Digest)
	// A notice goes out at once if its request would be nearly over at the next digest.
	if wish == people.InDigest && !must && next.Add(n.cfg.Digest/3).Before(until) {
		i.SendAt, i.Digest = next, true
	}
	if to.who != nil && (!high || !to.who.Preferences.HighBreaks) {
		if end := to.who.Preferences.QuietUntil(i.SendAt); end.After(i.SendAt) {
			i.SendAt, i.Digest = end, true
		}
	}
	if !i.SendAt.Before(until) {
		return items
	}
	return append(items, i)
}
