package storetest

import (
	"errors"
	"time"

	"github.com/ebb-broker/ebb/broker/notify"
)

func notifyTake(t *notifyTest) {
	elsewhere := item(9)
	elsewhere.Channel = "dev"
	later := item(8)
	later.SendAt = Epoch.Add(time.Minute)
	t.keep(item(1), item(2), elsewhere, later)
	if got := t.take(Epoch.Add(-time.Second), 10); len(got) != 0 {
		t.Errorf("too early: %+v", got)
	}
	first := t.take(Epoch, 1)
	second := t.take(Epoch, 10)
	if len(first) != 1 || len(second) != 1 || first[0].ID == second[0].ID {
		t.Fatalf("got %+v and %+v", first, second)
	}
	if got := t.take(Epoch, 10); len(got) != 0 {
		t.Errorf("claimed twice: %+v", got)
	}
	again := t.take(Epoch.Add(time.Minute), 10) // the claims have ended, and the later one is due
	if len(again) != 3 {
		t.Errorf("got %+v", again)
	}
}

func notifyTakeRace(t *notifyTest) {
	second := t.again()
	for n := range 4 {
		t.keep(item(n))
	}
	taken := make([][]notify.Taken, 8)
	for _, err := range race(8, func(i int) (err error) {
		taken[i], err = []NotifyStore{t, second}[i%2].TakeMessages(t.Context(), "ops", Epoch, Epoch.Add(time.Minute), 3)
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	seen := map[string]int{}
	for _, list := range taken {
		for _, m := range list {
			seen[m.ID]++
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d messages were taken, want 4", len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was taken %d times", id, n)
		}
	}
}

func notifySettle(t *notifyTest) {
	t.keep(item(1))
	m := t.take(Epoch, 1)[0]
	if err := t.SettleMessage(t.Context(), notify.Outcome{ID: m.ID, Fence: m.Fence, State: notify.StateWaiting, At: Epoch, Next: Epoch.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if got := t.take(Epoch.Add(59*time.Second), 1); len(got) != 0 {
		t.Errorf("too early: %+v", got)
	}
	m = t.take(Epoch.Add(time.Minute), 1)[0]
	if m.Attempts != 1 {
		t.Errorf("%d attempts", m.Attempts)
	}
	t.settle(m, notify.StateFailed)
	if got := t.take(Epoch.Add(time.Hour), 1); len(got) != 0 {
		t.Errorf("taken again: %+v", got)
	}
	if err := t.SettleMessage(t.Context(), notify.Outcome{ID: m.ID, Fence: m.Fence, State: notify.StateSent, At: Epoch}); !errors.Is(err, notify.ErrStale) {
		t.Errorf("settled twice: %v", err)
	}
}

// Of two workers on one message, only the outcome of the later claim is stored.
func notifyFence(t *notifyTest) {
	t.keep(item(1))
	slow := t.take(Epoch, 1)[0]
	fast := t.take(Epoch.Add(time.Minute), 1)[0]
	if slow.ID != fast.ID || slow.Fence >= fast.Fence {
		t.Fatalf("got %+v and %+v", slow, fast)
	}
	if err := t.SettleMessage(t.Context(), notify.Outcome{ID: slow.ID, Fence: slow.Fence, State: notify.StateFailed, At: Epoch}); !errors.Is(err, notify.ErrStale) {
		t.Errorf("the slow one was heard: %v", err)
	}
	t.settle(fast, notify.StateSent)
}
