package egress

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/broker"
)

// long is a token that takes megabytes to look for.
func long(i int) []string {
	return []string{fmt.Sprintf("%08d", i) + strings.Repeat("abcdefghijklmnop", 400)}
}

func TestTables(t *testing.T) {
	t.Parallel()
	var all tables
	now := time.Unix(0, 0)
	who := broker.Caller{TaskID: "tsk_child", Above: []string{"tsk_root"}}
	first, err := all.take(who, "lse_1", long(1), now)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := all.take(who, "lse_1", long(1), now); err != nil || again != first {
		t.Fatalf("the same secret of the same lease is looked for by another: %v", err)
	}
	if other, err := all.take(who, "lse_2", long(1), now); err != nil || other == first {
		t.Fatalf("another lease: %v", err)
	}
	held := []*table{}
	for i := 2; ; i++ {
		x, err := all.take(who, fmt.Sprint("lse_", i), long(i), now)
		if err != nil {
			if reasonOf(err) != TooOften {
				t.Fatal(err)
			}
			break
		}
		if held = append(held, x); all.of["tsk_root"] > taskTables {
			t.Fatalf("the task has %d bytes", all.of["tsk_root"])
		}
	}
	if n := len(held); n < 2 || n > 100 {
		t.Fatalf("%d have a place", n)
	}
	if _, err := all.take(broker.Caller{TaskID: "tsk_other"}, "lse_o", long(1), now); err != nil {
		t.Errorf("another task: %v", err)
	}
	all.give(held[0], false, now)
	if _, err := all.take(who, "lse_late", long(9999), now); err != nil {
		t.Errorf("once one is given back: %v", err)
	}
	if _, err := all.take(who, "lse_x", []string{"short"}, now); err == nil {
		t.Error("what cannot be looked for has a redactor")
	}
}

// What is kept for the next request goes with its time, its lease and its tasks.
func TestTablesAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	who := broker.Caller{TaskID: "tsk_child", Above: []string{"tsk_root"}}
	for _, end := range []string{"tsk_root", "tsk_child", "lse_1"} {
		var all tables
		x, _ := all.take(who, "lse_1", long(1), now)
		y, _ := all.take(who, "lse_1", long(2), now)
		all.give(y, false, now)
		all.drop(end)
		if len(all.all) != 1 {
			t.Errorf("%s: %d are left while one is in use", end, len(all.all))
		}
		all.give(x, false, now)
		if len(all.all) != 0 || all.idle != 0 || all.used != 0 || len(all.of) != 0 {
			t.Errorf("%s: %d are left, %d bytes idle, %d in use", end, len(all.all), all.idle, all.used)
		}
	}
	var all tables
	x, _ := all.take(who, "lse_1", long(1), now)
	if all.give(x, true, now); len(all.all) != 0 {
		t.Error("one that was cut is kept")
	}
	x, _ = all.take(who, "lse_1", long(1), now)
	all.give(x, false, now)
	if kept, _ := all.take(who, "lse_1", long(1), now.Add(time.Second)); kept != x {
		t.Error("it is not kept")
	}
	all.give(x, false, now)
	y, _ := all.take(who, "lse_2", long(2), now.Add(2*idleTable))
	if len(all.all) != 1 || all.idle != 0 {
		t.Errorf("%d are left, %d bytes idle", len(all.all), all.idle)
	}
	all.give(y, false, now)
}

func TestTablesRace(t *testing.T) {
	t.Parallel()
	var all tables
	var wg sync.WaitGroup
	now := time.Unix(0, 0)
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				x, err := all.take(broker.Caller{TaskID: fmt.Sprint("tsk_", i%3)}, fmt.Sprint("lse_", j%5), []string{fmt.Sprintf("secret-%08d", j%7)}, now)
				if err != nil {
					t.Error(err)
					return
				}
				if text, n := x.Text("a " + fmt.Sprintf("secret-%08d", j%7)); n != 1 {
					t.Errorf("%q", text)
				}
				if j%9 == 0 {
					all.drop(fmt.Sprint("lse_", j%5))
				}
				all.give(x, false, now)
			}
		})
	}
	wg.Wait()
	if all.used != 0 || len(all.of) != 0 {
		t.Errorf("%d bytes are in use by nobody", all.used)
	}
}
