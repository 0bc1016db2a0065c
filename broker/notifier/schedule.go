package notifier

import (
	"time"

	"ebb/broker/notify"
	"ebb/broker/people"
	"ebb/broker/risk"
)

// newsFor is how long it is worth telling somebody of what has no end of its own.
const newsFor = 24 * time.Hour

// add plans one notice for one recipient, unless they do not want it or it would come too
// late. must: it is for now, whatever its risk; quiet hours hold it up all the same, but not
// an event that is told whatever anybody wishes.
func (n *Notifier) add(items []notify.Item, to recipient, notice notify.Notice, from, until time.Time, must bool) []notify.Item {
	if until.IsZero() {
		until = n.cfg.Now().Add(newsFor)
	}
	if notice.Event.Must() {
		return append(items, notify.Item{Recipient: to.Recipient, Notice: notice, SendAt: from, Until: until})
	}
	// Tasks and the policy have no level of risk: they are rare, and as important as one.
	high := notice.Risk == "" || notice.Risk == string(risk.High)
	wish := people.InDigest
	if high {
		wish = people.AtOnce
	}
	if to.wishes != nil {
		wish = to.wishes.Of(notice.Risk)
	}
	if wish == people.Never {
		return items
	}
	i := notify.Item{Recipient: to.Recipient, Notice: notice, SendAt: from, Until: until}
	next := from.Truncate(n.cfg.Digest).Add(n.cfg.Digest)
	// What would be nearly over when the digest comes is told at once.
	if wish == people.InDigest && !must && next.Add(n.cfg.Digest/3).Before(until) {
		i.SendAt, i.Digest = next, true
	}
	if w := to.wishes; w != nil && (!high || !w.HighBreaks) {
		if end := w.QuietUntil(i.SendAt); end.After(i.SendAt) {
			i.SendAt, i.Digest = end, true
		}
	}
	if !i.SendAt.Before(until) {
		return items
	}
	return append(items, i)
}
