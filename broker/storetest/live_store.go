package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes"
)

// OpenLiveStore opens a client of a LiveStore whose clock is now. A further call with the
// same t opens a second client of the same LiveStore; each test has its own. It cleans up
// with t.Cleanup.
type OpenLiveStore = func(t *testing.T, now func() time.Time) broker.LiveStore

// RunLiveStore tests the contract in broker/live_store.go.
func RunLiveStore(t *testing.T, open OpenLiveStore) {
	for _, c := range []struct {
		name string
		run  func(*liveStoreTest)
	}{
		{"task/put and read", taskPutAndRead},
		{"task/put is monotonic", taskPutMonotonic},
		{"task/states", taskStates},
		{"task/closing", taskClosing},
		{"task/closing an unknown task", taskTombstone},
		{"task/remembered until keep", taskKeep},
		{"task/touch", taskTouch},
		{"task/touch concurrently", taskTouchRace},
		{"task/taint is bounded", taskTaintBound},
		{"task/sandbox has one winner", taskSandboxRace},
		{"task/bad input", taskBadInput},
		{"task/due", taskDue},
		{"task/due moves", taskDueMoves},
		{"task/due has one taker", taskDueFencing},
		{"task/one close wins", taskCloseRace},
		{"lease/life", leaseLife},
		{"lease/put refuses", leasePutRefuses},
		{"lease/end", leaseEnd},
		{"lease/end is final", leaseEndFinal},
		{"lease/end has one winner", leaseEndRace},
		{"lease/cap", leaseCap},
		{"lease/cap under concurrency", leaseCapRace},
		{"lease/counts", leaseCounts},
		{"lease/no survivor of a close", leaseCloseRace},
		{"lease/no survivor of an end", leaseEndPutRace},
		{"lease/clock going backwards", leaseClockBack},
		{"lease/many", leaseMany},
		{"owner/cap", ownerCap},
		{"owner/cap under concurrency", ownerCapRace},
		{"owner/ends give places back", ownerEnds},
		{"owner/what is refused gives its place back", ownerRefused},
		{"owner/one of each runner", ownerOfRunner},
		{"owner/refill counts", ownerRefill},
		{"owner/many that ended", ownerManyEnded},
		{"owner/puts, ends and closes at once", ownerRace},
		{"gate/admit", gateAdmit},
		{"gate/claims", gateClaims},
		{"gate/claim has one winner", gateClaimRace},
		{"gate/claims and a clock going backwards", gateClaimClockBack},
		{"gate/rates", gateRates},
		{"gate/rates under concurrency", gateRateRace},
		{"gate/rates and a clock going backwards", gateRateClockBack},
		{"gate/order of failures", gateOrder},
		{"gate/put and take", gateTake},
		{"gate/take has one winner", gateTakeRace},
		{"gate/pace", gatePace},
		{"gate/bad input", gateBadInput},
		{"feed/events", feedEvents},
		{"feed/cursor", feedCursor},
		{"feed/strange cursors", feedStrangeCursor},
		{"feed/wakes", feedWakes},
		{"feed/ends with its context", feedContext},
		{"feed/keeps events until", feedKeeps},
		{"guard/mark", guardMark},
		{"guard/ended context", guardContext},
		{"guard/close", guardClose},
		{"model", liveStoreModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			lt := newLiveStoreTest(t, open)
			if c.name != "guard/mark" { // a LiveStore that was never marked counts as lost
				lt.want("Mark", lt.l.Mark(lt.ctx), nil)
			}
			c.run(lt)
		})
	}
}

// liveStoreTest is the LiveStore and clock of one test.
type liveStoreTest struct {
	*testing.T
	ctx   context.Context
	clock *clock
	open  OpenLiveStore
	l     broker.LiveStore
}

func newLiveStoreTest(t *testing.T, open OpenLiveStore) *liveStoreTest {
	c := &clock{}
	// Far from the real time: the clock that is passed in decides.
	c.ms.Store(time.Date(2031, 5, 6, 7, 8, 9, 123_000_000, time.UTC).UnixMilli())
	return &liveStoreTest{T: t, ctx: t.Context(), clock: c, open: open, l: open(t, c.now)}
}

// second opens another client.
func (t *liveStoreTest) second() broker.LiveStore { return t.open(t.T, t.clock.now) }

type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time                       { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) move(d time.Duration)                 { c.ms.Add(d.Milliseconds()) }
func (c *clock) in(d time.Duration) time.Time         { return c.now().Add(d) }
func (t *liveStoreTest) in(d time.Duration) time.Time { return t.clock.in(d) }
func (t *liveStoreTest) now() time.Time               { return t.clock.now() }
func (t *liveStoreTest) keep() time.Time              { return t.in(time.Hour) }
func (t *liveStoreTest) id(kind string, n int) string { return fmt.Sprintf("%s_%032x", kind, n) }
func (t *liveStoreTest) live(id string) broker.Live   { return liveTask(id, t.now()) }
func (t *liveStoreTest) task(n int) string            { return t.put(t.live(t.id("tsk", n))) }
func (t *liveStoreTest) lease(task string, n int, ttl time.Duration) broker.LiveLease {
	return broker.LiveLease{ID: t.id("lse", n), TaskID: task, ExpiresAt: t.in(ttl)}
}

func (t *liveStoreTest) put(l broker.Live) string {
	t.Helper()
	t.want("PutTask", t.l.PutTask(t.ctx, l, t.keep()), nil)
	return l.ID
}

func (t *liveStoreTest) putLease(l broker.LiveLease) {
	t.Helper()
	t.want("PutLease", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, false), nil)
}

func (t *liveStoreTest) close(id string) broker.Counts {
	t.Helper()
	c, _, err := t.l.SetState(t.ctx, id, broker.TaskClosed, t.now(), t.keep())
	t.want("SetState", err, nil)
	return c
}

func (t *liveStoreTest) read(id string) broker.Live {
	t.Helper()
	l, err := t.l.Admit(t.ctx, broker.Admission{TaskID: id})
	t.want("Admit", err, nil)
	return l
}

func (t *liveStoreTest) alive(want bool, l broker.LiveLease) {
	t.Helper()
	got, err := t.l.Status(t.ctx, l.TaskID, l.ID, t.now())
	if err != nil || got != want {
		t.Errorf("Status(%s) = %t, %v, want %t", l.ID, got, err, want)
	}
}

func (t *liveStoreTest) want(call string, err, want error) {
	t.Helper()
	if class(err) != class(want) {
		t.Errorf("%s: got error %v, want %v", call, err, want)
	}
}

func (t *liveStoreTest) same(what string, got, want any) {
	t.Helper()
	if g, w := text(got), text(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// class names the contract's error that err wraps, so that errors can be compared.
func class(err error) string {
	if err == nil {
		return ""
	}
	if _, ok := errors.AsType[*broker.RateError](err); ok {
		return "rate"
	}
	for _, s := range []error{broker.ErrNotFound, broker.ErrDone, broker.ErrClaimed, broker.ErrTaskClosed, broker.ErrTaskPaused, broker.ErrCap, broker.ErrOwnerCap, broker.ErrLost, broker.ErrExists} {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return "could not judge"
}

// errAny stands for an error that is none of the sentinels.
var errAny = errors.New("any")

// race runs f n times at once and returns how often it returned true.
func (t *liveStoreTest) race(n int, f func(i int) (bool, error)) int {
	t.Helper()
	var wins atomic.Int64
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			won, err := f(i)
			if err != nil {
				t.Errorf("racer %d: %v", i, err)
			}
			if won {
				wins.Add(1)
			}
		})
	}
	start.Done()
	done.Wait()
	return int(wins.Load())
}

// won is for races: losing with one of the expected errors is no failure.
func won(err error, losing ...error) (bool, error) {
	for _, l := range losing {
		if errors.Is(err, l) {
			return false, nil
		}
	}
	return err == nil, err
}

// liveTask sets every member, so that the loss of any one of them is noticed.
func liveTask(id string, now time.Time) broker.Live {
	return broker.Live{
		Task: broker.Task{
			ID: id, Name: "fix \u00e9\u202e \"4711\"", Kind: "bugfix", Owner: "ann@example.org", Runner: "ci",
			Labels:    map[string]string{"team": "web", "ref": "a|b {c} \x01"},
			Ceiling:   scopes.MustParseSet("orders:eu/*:read repo:acme/web:push"),
			Caps:      broker.Caps{Leases: 5, MintsPerMinute: 60, OpenRequests: 2},
			Expect:    broker.Expect{Attestor: "enroll", Selectors: map[string]string{"ns": "agents"}},
			Heartbeat: 30, OpenedAt: now, Deadline: now.Add(time.Hour), State: broker.TaskOpen,
		},
		Due: now.Add(30 * time.Second),
	}
}

func sandbox(n int, now time.Time) *broker.Sandbox {
	return &broker.Sandbox{
		ID: fmt.Sprintf("sbx_%032x", n), Attestor: "enroll", Subject: fmt.Sprint("box ", n), Class: "ticket",
		JKT: fmt.Sprint("jkt", n), JWK: `{"kty":"OKP"}`, Selectors: map[string]string{"a": "b"}, At: now,
	}
}
