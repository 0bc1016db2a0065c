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

	"ebb/broker"
	"ebb/scopes"
)

// OpenLedger opens a client of a ledger whose clock is now. Called again with
// the same t it opens a second client of the same ledger; each test has its own
// ledger. It cleans up after itself with t.Cleanup.
type OpenLedger = func(t *testing.T, now func() time.Time) broker.Ledger

// RunLedger holds a Ledger to every sentence of the contract in broker/ledger.go.
func RunLedger(t *testing.T, open OpenLedger) {
	for _, c := range []struct {
		name string
		run  func(*ledgerTest)
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
		{"model", ledgerModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			lt := newLedgerTest(t, open)
			if c.name != "guard/mark" { // a ledger that was never marked counts as lost
				lt.want("Mark", lt.l.Mark(lt.ctx), nil)
			}
			c.run(lt)
		})
	}
}

// ledgerTest is one test's ledger and clock.
type ledgerTest struct {
	*testing.T
	ctx   context.Context
	clock *clock
	open  OpenLedger
	l     broker.Ledger
}

func newLedgerTest(t *testing.T, open OpenLedger) *ledgerTest {
	c := &clock{}
	// Far from the real time: what decides is the clock that is passed in.
	c.ms.Store(time.Date(2031, 5, 6, 7, 8, 9, 123_000_000, time.UTC).UnixMilli())
	return &ledgerTest{T: t, ctx: t.Context(), clock: c, open: open, l: open(t, c.now)}
}

// second opens another client.
func (t *ledgerTest) second() broker.Ledger { return t.open(t.T, t.clock.now) }

type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time                    { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) move(d time.Duration)              { c.ms.Add(d.Milliseconds()) }
func (c *clock) in(d time.Duration) time.Time      { return c.now().Add(d) }
func (t *ledgerTest) in(d time.Duration) time.Time { return t.clock.in(d) }
func (t *ledgerTest) now() time.Time               { return t.clock.now() }
func (t *ledgerTest) keep() time.Time              { return t.in(time.Hour) }
func (t *ledgerTest) id(kind string, n int) string { return fmt.Sprintf("%s_%032x", kind, n) }
func (t *ledgerTest) live(id string) broker.Live   { return liveTask(id, t.now()) }
func (t *ledgerTest) task(n int) string            { return t.put(t.live(t.id("tsk", n))) }
func (t *ledgerTest) lease(task string, n int, ttl time.Duration) broker.LiveLease {
	return broker.LiveLease{ID: t.id("lse", n), TaskID: task, ExpiresAt: t.in(ttl)}
}

func (t *ledgerTest) put(l broker.Live) string {
	t.Helper()
	t.want("PutTask", t.l.PutTask(t.ctx, l, t.keep()), nil)
	return l.ID
}

func (t *ledgerTest) putLease(l broker.LiveLease) {
	t.Helper()
	t.want("PutLease", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, false), nil)
}

func (t *ledgerTest) close(id string) broker.Counts {
	t.Helper()
	c, _, err := t.l.SetState(t.ctx, id, broker.TaskClosed, t.now(), t.keep())
	t.want("SetState", err, nil)
	return c
}

func (t *ledgerTest) read(id string) broker.Live {
	t.Helper()
	l, err := t.l.Admit(t.ctx, broker.Admission{TaskID: id})
	t.want("Admit", err, nil)
	return l
}

func (t *ledgerTest) alive(want bool, l broker.LiveLease) {
	t.Helper()
	got, err := t.l.Status(t.ctx, l.TaskID, l.ID, t.now())
	if err != nil || got != want {
		t.Errorf("Status(%s) = %t, %v, want %t", l.ID, got, err, want)
	}
}

func (t *ledgerTest) want(call string, err, want error) {
	t.Helper()
	if class(err) != class(want) {
		t.Errorf("%s: got error %v, want %v", call, err, want)
	}
}

func (t *ledgerTest) same(what string, got, want any) {
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

// class names the contract's error that err is, so that errors compare.
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

// errAny is an error that is none of the sentinels.
var errAny = errors.New("any")

// race runs f n times at once and returns how often it was true.
func (t *ledgerTest) race(n int, f func(i int) (bool, error)) int {
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

// liveTask fills every member, so that none can get lost on the way.
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
