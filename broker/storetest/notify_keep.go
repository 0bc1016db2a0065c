package storetest

import (
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker/notify"
)

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
