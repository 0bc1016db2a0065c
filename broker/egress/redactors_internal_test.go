package egress

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/redact"
)

// long returns a secret whose redactor takes megabytes.
func long(i int) []string {
	return []string{fmt.Sprintf("%08d", i) + strings.Repeat("abcdefghijklmnop", 400)}
}

// child is a delegate, whose redactors count for the task above it.
var child = broker.Caller{TaskID: "tsk_child", Above: []string{"tsk_root"}}

// short is a secret whose redactor takes little memory.
var short = []string{"sk_0123456789"}

// droppedHeaders returns the number of cached redactors.
func (t *redactors) droppedHeaders() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// nothing fails the test unless t has no redactor and counts no memory.
func (t *redactors) nothing(test *testing.T, when string) {
	test.Helper()
	if n := t.droppedHeaders(); n != 0 || t.held.n != 0 || len(t.held.of) != 0 {
		test.Errorf("%s: %d are left, of %d bytes, of %d tasks", when, n, t.held.n, len(t.held.of))
	}
}

// A lease has one redactor for its secrets, and a task as many as fit into its memory limit.
//
//ebb:invariant I12 The memory for the redactors of a task is limited
func TestRedactors(t *testing.T) {
	t.Parallel()
	all := newRedactors(redact.New)
	ctx := t.Context()
	first, err := all.take(ctx, child, "lse_1", long(1))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := all.take(ctx, child, "lse_1", long(1)); err != nil || again != first {
		t.Fatalf("the same secret of the same lease is looked for by another: %v", err)
	}
	if other, err := all.take(ctx, child, "lse_2", long(1)); err != nil || other == first {
		t.Fatalf("another lease: %v", err)
	}
	held := []*redactor{}
	for i := 3; ; i++ {
		x, err := all.take(ctx, child, fmt.Sprint("lse_", i), long(i))
		if err != nil {
			if reasonOf(err) != TooOften {
				t.Fatal(err)
			}
			break
		}
		if held = append(held, x); all.held.of["tsk_root"] > taskRedactors || i > 100 {
			t.Fatalf("the task has %d bytes", all.held.of["tsk_root"])
		}
	}
	if _, err := all.take(ctx, broker.Caller{TaskID: "tsk_other"}, "lse_o", long(1)); err != nil {
		t.Errorf("another task: %v", err)
	}
	if len(held) < taskRedactors/redact.Cost(long(1)...) {
		t.Errorf("%d have room: they count as what they take at most, and not as what they take", len(held))
	}
	all.give(held[0], time.Hour)
	late, err := all.take(ctx, child, "lse_late", long(9999)) // the unused redactors make room for it
	if err != nil {
		t.Fatalf("once one is given back: %v", err)
	}
	if all.give(late, time.Hour); !held[0].gone || late.gone {
		t.Error("a redactor other than the least recently used was removed")
	}
	if _, err := all.take(ctx, broker.Caller{TaskID: "tsk_x"}, "lse_x", []string{"short"}); err == nil || all.held.of["tsk_x"] != 0 {
		t.Errorf("what cannot be looked for: %v, and %d bytes are counted for it", err, all.held.of["tsk_x"])
	}
}

// Tasks that take all the memory they can leave room for others, because each gets only a part of
// the free memory.
//
//ebb:invariant I12 The memory for the redactors of all tasks is limited, and no task can use the whole limit
func TestRedactorsOfManyTasks(t *testing.T) {
	t.Parallel()
	all := newRedactors(redact.New)
	secret := long(1)
	most := redact.Cost(secret...)
	fill := func(task string) (n int) {
		for {
			if _, err := all.reserve(broker.Caller{TaskID: task}, redactorKey{leaseID: fmt.Sprint(task, n)}, most); err != nil {
				return n
			}
			n++
		}
	}
	whole := fill("tsk_first")
	if whole < 2 || whole != taskRedactors/most {
		t.Fatalf("the first has %d", whole)
	}
	for i := range 16 {
		fill(fmt.Sprint("tsk_", i))
	}
	if n := fill("tsk_late"); n == 0 || n >= whole {
		t.Errorf("a late one has %d, the first %d", n, whole)
	}
	if all.held.n > maxRedactors {
		t.Errorf("%d bytes in all", all.held.n)
	}
}

// A redactor beyond the limit is refused before it is built, and at most two are built at a time.
//
//ebb:invariant I12 The memory of a redactor is counted before it is built, and at most two redactors are built at a time
func TestRedactorsAreCountedBeforeTheyAreBuilt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var under, atOnce, built, refused atomic.Int32
		gate := make(chan struct{})
		all := newRedactors(func(secrets ...string) (*redact.Redactor, error) {
			now := under.Add(1)
			for most := atOnce.Load(); now > most && !atOnce.CompareAndSwap(most, now); most = atOnce.Load() {
			}
			defer under.Add(-1)
			<-gate
			built.Add(1)
			return redact.New(secrets...)
		})
		fit := int32(taskRedactors / redact.Cost(long(1)...))
		for i := range 64 {
			go func() {
				if _, err := all.take(t.Context(), child, fmt.Sprint("lse_", i), long(i)); err != nil {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		if refused.Load() != 64-fit || built.Load() != 0 {
			t.Errorf("%d of 64 are refused before one is built, and %d have room", refused.Load(), fit)
		}
		close(gate)
		synctest.Wait()
		if built.Load() != fit || atOnce.Load() != redactorsMade {
			t.Errorf("%d are built, %d at one time; %d have room", built.Load(), atOnce.Load(), fit)
		}
	})
}

// A caller that is disconnected while it waits for a slot holds nothing. If the caller hangs up
// while it builds a redactor, the redactor is kept for the next request.
func TestRedactorsOfWhoLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var built atomic.Int32
		all := newRedactors(func(secrets ...string) (*redact.Redactor, error) {
			built.Add(1)
			<-gate
			return redact.New(secrets...)
		})
		ctx, disconnect := context.WithCancelCause(t.Context())
		var waiting atomic.Int32
		for i := range 4 { // two build, and each has one more caller that waits
			for range 2 {
				go func() {
					x, err := all.take(ctx, child, fmt.Sprint("lse_", i), long(i))
					if err == nil {
						all.give(x, time.Hour)
					} else if waiting.Add(1); context.Cause(ctx) != err {
						t.Errorf("it gets %v", err)
					}
				}()
			}
		}
		synctest.Wait()
		disconnect(ErrOver)
		synctest.Wait()
		if n := waiting.Load(); n != 6 {
			t.Errorf("%d of those that wait are let go", n)
		}
		close(gate)
		synctest.Wait()
		if x, err := all.take(t.Context(), child, "lse_0", long(0)); err == nil {
			all.give(x, 0)
		}
		if n := built.Load(); n > 3 || len(all.all) > 2 {
			t.Errorf("%d were built, and %d are kept", n, len(all.all))
		}
		all.dropAll()
		all.nothing(t, "in the end")
	})
}

// An unused redactor is removed by its timer, and with its lease and its tasks.
//
//ebb:invariant I8 The redactor of a credential is removed when its lease expires, or when no request has used it for one minute
//ebb:invariant I8 A redactor that was removed during a request is not given to any other request
func TestRedactorsAreForgotten(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"tsk_root", "tsk_child", "lse_1", ""} {
		all := newRedactors(redact.New)
		x, _ := all.take(t.Context(), child, "lse_1", short)
		y, _ := all.take(t.Context(), child, "lse_1", []string{"another-secret"})
		all.give(y, time.Hour)
		took := x.bytes
		if all.drop(end); end == "" {
			all.dropAll()
		}
		if len(all.all) != 0 || all.held.n != took {
			t.Errorf("%q: %d bytes are counted while one of %d is in use", end, all.held.n, took)
		}
		z, _ := all.take(t.Context(), child, "lse_1", short) // after the task is resumed
		all.give(x, time.Hour)
		if z == x || len(all.all) != 1 {
			t.Errorf("%q: a removed redactor is used again", end)
		}
		all.give(z, 0)
		all.nothing(t, end)
	}
	synctest.Test(t, func(t *testing.T) {
		for life, last := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, time.Hour: idleRedactor} {
			all := newRedactors(redact.New)
			x, _ := all.take(t.Context(), child, "lse_1", short)
			y, _ := all.take(t.Context(), child, "lse_1", short)
			all.give(x, life)
			time.Sleep(2 * last)
			all.give(y, life)
			time.Sleep(last - 1)
			synctest.Wait()
			if droppedHeaders, _ := all.take(t.Context(), child, "lse_1", short); droppedHeaders != x {
				t.Error("it is not kept")
			}
			time.Sleep(2 * last) // its timer does not run while it is in use
			if all.give(x, life); all.droppedHeaders() != 1 {
				t.Error("it is gone while it is in use")
			}
			time.Sleep(last)
			synctest.Wait()
			all.nothing(t, fmt.Sprint("after ", last))
		}
	})
}
