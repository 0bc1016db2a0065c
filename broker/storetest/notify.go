package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/notify"
)

// NotifyStore is the interface that RunNotify tests.
type NotifyStore interface {
	broker.Store
	notify.Sources
	notify.Outbox
}

// RunNotify tests the contracts of notify.Sources and notify.Outbox. open makes an empty
// database; the returned function opens one more store on it.
func RunNotify(t *testing.T, open func(t *testing.T) func() NotifyStore) {
	for name, f := range map[string]func(*notifyTest){
		"Begin": notifyBegin, "Unread": notifyUnread, "KeepRace": notifyKeepRace, "Once": notifyOnce, "Digest": notifyDigest, "Crowd": notifyCrowd, "Flood": notifyFlood,
		"Take": notifyTake, "TakeRace": notifyTakeRace, "Settle": notifySettle, "Fence": notifyFence, "Told": notifyTold, "Backlogs": notifyBacklogs, "Forget": notifyForget, "Refuses": notifyRefuses,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := open(t)
			f(&notifyTest{T: t, NotifyStore: again(), again: again})
		})
	}
}

type notifyTest struct {
	*testing.T
	NotifyStore
	again func() NotifyStore
}

var notifyKinds = []string{audit.RequestCreated, "task."}

const window = 15 * time.Minute

func (t *notifyTest) write(kind string) {
	t.Helper()
	if err := t.Append(t.Context(), broker.Record{Entries: []audit.Entry{Entry(kind, "tsk_1")}}); err != nil {
		t.Fatal(err)
	}
}

func (t *notifyTest) unread(n int) []notify.Reading {
	t.Helper()
	rs, err := t.Unread(t.Context(), notifyKinds, n)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// item returns a notice for the channel's own destination, to be sent at once.
func item(n int) notify.Item {
	return notify.Item{
		Recipient: notify.Recipient{Channel: "ops"}, SendAt: Epoch, Until: Epoch.Add(time.Hour),
		Notice: notify.Notice{Event: notify.Waiting, Subject: fmt.Sprintf("req_%d", n), Title: "Write \u202e", Risk: "high", Until: Epoch.Add(time.Hour), Path: "/requests/1"},
	}
}

// keep stores items with one new entry of the audit log.
func (t *notifyTest) keep(items ...notify.Item) {
	t.Helper()
	t.write(audit.TaskTicket)
	for _, r := range t.unread(1000) {
		if err := t.Keep(t.Context(), notify.Plan{Reading: r, Items: items, Now: Epoch, Most: 5, Window: window}); err != nil {
			t.Fatal(err)
		}
	}
}

func (t *notifyTest) take(now time.Time, n int) []notify.Taken {
	t.Helper()
	out, err := t.TakeMessages(t.Context(), "ops", now, now.Add(time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (t *notifyTest) settle(m notify.Taken, s notify.State) {
	t.Helper()
	if err := t.SettleMessage(t.Context(), notify.Outcome{ID: m.ID, Fence: m.Fence, State: s, At: Epoch.Add(time.Second)}); err != nil {
		t.Fatal(err)
	}
}
