package storetest

import (
	"errors"
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
		"Take": notifyTake, "TakeRace": notifyTakeRace, "Settle": notifySettle, "Fence": notifyFence, "Told": notifyTold, "Sent": notifySent, "Backlogs": notifyBacklogs, "Forget": notifyForget, "Refuses": notifyRefuses,
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

// Entries from before ReadFromHere are not read; of a later writer all entries are read.
func notifyBegin(t *notifyTest) {
	t.write(audit.RequestCreated)
	for range 2 {
		if err := t.ReadFromHere(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if rs := t.unread(10); len(rs) != 0 {
		t.Errorf("unread: %+v", rs)
	}
	t.write(audit.RequestCreated)
	second := t.again()
	if err := second.Append(t.Context(), broker.Record{Entries: []audit.Entry{Entry(audit.RequestCreated, "tsk_2")}}); err != nil {
		t.Fatal(err)
	}
	if err := second.ReadFromHere(t.Context()); err != nil { // reading has begun before
		t.Fatal(err)
	}
	if rs := t.unread(10); len(rs) != 2 || len(rs[0].Entries) != 1 || len(rs[1].Entries) != 1 {
		t.Errorf("unread: %+v", rs)
	}
}

// Unread returns only entries of the given kinds, and counts the others as read.
func notifyUnread(t *notifyTest) {
	for range 3 {
		t.write(audit.LiveStoreLost)
		t.write(audit.RequestCreated)
		t.write(audit.TaskTicket)
	}
	var got []string
	for rounds := 0; ; rounds++ {
		rs := t.unread(2)
		if len(rs) == 0 {
			break
		}
		if rounds > 20 || len(rs) != 1 || rs[0].To-rs[0].From > 2 {
			t.Fatalf("round %d: %+v", rounds, rs)
		}
		for _, e := range rs[0].Entries {
			got = append(got, e.Kind)
		}
		if err := t.Keep(t.Context(), notify.Plan{Reading: rs[0], Now: Epoch}); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprint([]string{audit.RequestCreated, audit.TaskTicket, audit.RequestCreated, audit.TaskTicket, audit.RequestCreated, audit.TaskTicket})
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// Of replicas that read the same range, one stores its plan.
func notifyKeepRace(t *notifyTest) {
	second := t.again()
	for n := range 5 {
		t.write(audit.RequestCreated)
		var r notify.Reading
		for _, x := range t.unread(100) {
			r = x
		}
		errs := race(8, func(i int) error {
			return []NotifyStore{t, second}[i%2].Keep(t.Context(), notify.Plan{Reading: r, Items: []notify.Item{item(100*n + i)}, Now: Epoch, Window: window})
		})
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, notify.ErrStale):
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d won", won)
		}
	}
	if got := t.take(Epoch, 100); len(got) != 5 {
		t.Errorf("%d messages, want 5", len(got))
	}
	// A plan without a reading adds its items once.
	for range 2 {
		if err := second.Keep(t.Context(), notify.Plan{Items: []notify.Item{item(1000)}, Now: Epoch, Window: window}); err != nil {
			t.Fatal(err)
		}
	}
	if got := t.take(Epoch, 100); len(got) != 1 {
		t.Errorf("%d messages, want 1", len(got))
	}
}

func notifyRefuses(t *notifyTest) {
	ctx := t.Context()
	if _, err := t.Unread(ctx, nil, 1); err == nil {
		t.Error("no kinds")
	}
	bad := item(1)
	bad.Notice.Subject = "\x00"
	t.write(audit.RequestCreated)
	r := t.unread(10)[0]
	for name, p := range map[string]notify.Plan{
		"no writer": {Reading: notify.Reading{From: 1, To: 2}, Now: Epoch}, "nothing read": {Reading: notify.Reading{Writer: r.Writer, From: 1, To: 1}, Now: Epoch}, "no time": {Reading: r},
		"no window": {Reading: r, Now: Epoch, Items: []notify.Item{item(1)}}, "NUL": {Reading: r, Now: Epoch, Items: []notify.Item{item(2), bad}, Window: window},
	} {
		if err := t.Keep(ctx, p); err == nil {
			t.Errorf("%s: kept", name)
		}
	}
	if got := t.take(Epoch, 10); len(got) != 0 { // all or nothing
		t.Errorf("kept: %+v", got)
	}
	for _, o := range []notify.Outcome{{}, {ID: "x", At: Epoch, State: "gone"}, {ID: "x", At: Epoch, State: notify.StateWaiting}, {ID: "x", At: Epoch, State: notify.StateSent, Next: Epoch}} {
		if err := t.SettleMessage(ctx, o); err == nil || errors.Is(err, notify.ErrStale) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := t.TakeMessages(ctx, "ops", Epoch, Epoch, 1); err == nil {
		t.Error("a claim without a time")
	}
}

// The same notice is sent once, with the same id, however often it is planned.
func notifyOnce(t *notifyTest) {
	t.keep(item(1))
	t.keep(item(1), item(1))
	digest := item(1)
	digest.Digest, digest.SendAt = true, Epoch.Add(window)
	t.keep(digest)
	got := t.take(Epoch.Add(time.Hour), 10)
	if len(got) != 1 || got[0].ID != item(1).MessageID() || len(got[0].Items) != 1 || got[0].More != 0 {
		t.Fatalf("got %+v", got)
	}
	if n := got[0].Items[0].Notice; fmt.Sprint(n) != fmt.Sprint(item(1).Notice) {
		t.Errorf("got %+v", n)
	}
	t.settle(got[0], notify.StateSent)
	t.keep(item(1))
	if got := t.take(Epoch.Add(time.Hour), 10); len(got) != 0 {
		t.Errorf("told again: %+v", got)
	}
}

// Items for the same time are one message; an item that comes during its delivery goes
// into the next one.
func notifyDigest(t *notifyTest) {
	of := func(n int, person string) notify.Item {
		i := item(n)
		i.Person, i.Address, i.Digest, i.SendAt = person, person+"@example.com", true, Epoch.Add(window)
		return i
	}
	t.keep(of(1, ""), of(2, ""), of(1, "ana"))
	t.keep(of(3, ""))
	if got := t.take(Epoch.Add(window-time.Second), 10); len(got) != 0 {
		t.Fatalf("too early: %+v", got)
	}
	got := t.take(Epoch.Add(window), 10)
	if len(got) != 2 || len(got[0].Items)+len(got[1].Items) != 4 || !got[0].Digest {
		t.Fatalf("got %+v", got)
	}
	t.keep(of(4, ""))
	next := t.take(Epoch.Add(2*window), 10)
	var late []notify.Taken
	for _, m := range next { // claims of the first have ended
		if m.ID != got[0].ID && m.ID != got[1].ID {
			late = append(late, m)
		}
	}
	if len(late) != 1 || len(late[0].Items) != 1 || late[0].Items[0].Notice.Subject != "req_4" {
		t.Errorf("got %+v", next)
	}
}

// Further immediate messages to one recipient become one digest; other recipients are not
// delayed.
func notifyCrowd(t *notifyTest) {
	var items []notify.Item
	for n := range 100 {
		items = append(items, item(n))
	}
	other := item(1)
	other.Person = "ana"
	t.keep(append(items, other)...)
	got := t.take(Epoch, 100)
	if len(got) != 6 {
		t.Fatalf("%d at once, want 5 and one of another", len(got))
	}
	for _, m := range got {
		t.settle(m, notify.StateSent)
	}
	got = t.take(Epoch.Add(2*window), 100)
	if len(got) != 1 || len(got[0].Items) != 95 || !got[0].Digest {
		t.Errorf("got %d messages: %+v", len(got), got)
	}
}

// A flood stores a limited number of rows.
func notifyFlood(t *notifyTest) {
	var items []notify.Item
	for n := range 3 * notify.MaxItems {
		i := item(n)
		i.Digest, i.SendAt = true, Epoch.Add(window)
		items = append(items, i)
	}
	t.keep(items...)
	got := t.take(Epoch.Add(window), 10)
	if len(got) != 1 || len(got[0].Items) != notify.MaxItems || got[0].More != 2*notify.MaxItems {
		t.Errorf("%d messages of %d and %d more", len(got), len(got[0].Items), got[0].More)
	}
}

func notifyTold(t *notifyTest) {
	person, escalated, other := item(1), item(1), item(2)
	person.Person, person.Address = "ana", "ana@example.com"
	escalated.Notice.Event, escalated.Channel = notify.Escalated, "dev"
	t.keep(item(1), person, escalated, other)
	if got, err := t.Told(t.Context(), "req_1"); err != nil || len(got) != 0 {
		t.Errorf("no recipient was notified: %v, %v", got, err)
	}
	for _, m := range t.take(Epoch, 10) {
		if m.Person == "" {
			t.settle(m, notify.StateSent)
		} // the other is being sent
	}
	got, err := t.Told(t.Context(), "req_1")
	if want := []notify.Recipient{{Channel: "ops"}, {Channel: "ops", Person: "ana", Address: "ana@example.com"}}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func notifySent(t *notifyTest) {
	ana, bo, failed, planned, dropped, waits := item(1), item(1), item(1), item(1), item(1), item(1)
	ana.Person, bo.Person, planned.Person, dropped.Person = "ana", "bo", "cy", "di"
	failed.Notice.Event, planned.Notice.Event, planned.SendAt = notify.Escalated, notify.Escalated, Epoch.Add(time.Hour)
	other := item(2)
	outcome := item(1)
	outcome.Notice.Event = notify.Approved
	waits.Channel = "dev"
	t.keep(item(1), ana, bo, planned, dropped, waits, other, outcome)
	for _, m := range t.take(Epoch, 10) {
		state := notify.StateSent
		if m.Person == "di" {
			state = notify.StateDropped
		}
		t.settle(m, state)
	}
	t.keep(failed)
	t.settle(t.take(Epoch, 1)[0], notify.StateFailed)
	at := Epoch.Add(time.Second)
	got, err := t.Sent(t.Context(), "req_1", Epoch)
	want := []notify.Sent{{Channel: "dev", State: notify.StateWaiting, N: 1}, {Channel: "ops", State: notify.StateFailed, N: 1, At: at}, {Channel: "ops", State: notify.StateSent, N: 1, At: at}, {Channel: "ops", People: true, State: notify.StateSent, N: 2, At: at}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := t.Sent(t.Context(), "req_3", Epoch); err != nil || len(got) != 0 {
		t.Errorf("of another request: %v, %v", got, err)
	}
}

func notifyBacklogs(t *notifyTest) {
	later := item(2)
	later.SendAt = Epoch.Add(time.Minute)
	t.keep(item(1), later)
	for at, want := range map[time.Time]string{
		Epoch.Add(-time.Second): "[]",
		Epoch:                   fmt.Sprint([]notify.Backlog{{Channel: "ops", Waiting: 1, Oldest: Epoch}}),
		Epoch.Add(time.Minute):  fmt.Sprint([]notify.Backlog{{Channel: "ops", Waiting: 2, Oldest: Epoch}}),
	} {
		if got, err := t.Backlogs(t.Context(), at); err != nil || fmt.Sprint(got) != want {
			t.Errorf("got %v, %v; want %s", got, err, want)
		}
	}
}

func notifyForget(t *notifyTest) {
	t.keep(item(1), item(2))
	t.settle(t.take(Epoch, 1)[0], notify.StateSent)
	for _, before := range []time.Time{Epoch, Epoch.Add(time.Hour)} {
		if err := t.ForgetMessages(t.Context(), before); err != nil {
			t.Fatal(err)
		}
	}
	if got := t.take(Epoch.Add(time.Hour), 10); len(got) != 1 || len(got[0].Items) != 1 {
		t.Errorf("what waits was forgotten: %+v", got)
	}
	told1, err1 := t.Told(t.Context(), "req_1")
	told2, err2 := t.Told(t.Context(), "req_2")
	if err1 != nil || err2 != nil || len(told1)+len(told2) != 1 { // the one taken last
		t.Errorf("told: %v, %v", told1, told2)
	}
}
