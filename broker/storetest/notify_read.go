package storetest

import (
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/notify"
)

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
		"no writer": {Now: Epoch}, "nothing read": {Reading: notify.Reading{Writer: r.Writer, From: 1, To: 1}, Now: Epoch}, "no time": {Reading: r},
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
