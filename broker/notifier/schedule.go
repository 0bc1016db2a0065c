package notifier

import (
	"time"

	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/risk"
)

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
	if to.preferences != nil {
		wish = to.preferences.Of(notice.Risk)
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
	if w := to.preferences; w != nil && (!high || !w.HighBreaks) {
		if end := w.QuietUntil(i.SendAt); end.After(i.SendAt) {
			i.SendAt, i.Digest = end, true
		}
	}
	if !i.SendAt.Before(until) {
		return items
	}
	return append(items, i)
}
