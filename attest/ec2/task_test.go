package ec2_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/ec2"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// bed is a complete ebb whose tasks expect instances.
type bed struct {
	*brokertest.Env
	*fixture
	twin *ec2.Attestor // a second attestor for the same accounts, with the longest window
	t    *testing.T
}

func newBed(t *testing.T, change ...func(*ec2.Config)) *bed {
	t.Helper()
	f := newFixture(t)
	clock := brokertest.RealClock(0)
	f.config.Now = clock.Now
	f.Attestor = f.open(t, change...)
	b := &bed{fixture: f, twin: f.open(t, func(c *ec2.Config) { c.Name, c.LaunchWindow, c.Lifetime = "twin", 30*time.Minute, 30*time.Minute }), t: t}
	b.Env = brokertest.New(t, brokertest.Config{Clock: clock, Attestors: map[string]attest.Attestor{"cloud": f.Attestor, "twin": b.twin}})
	return b
}

// task opens a task that expects one instance.
func (b *bed) task(instance string) string {
	b.t.Helper()
	return b.taskAt("cloud", instance)
}

func (b *bed) taskAt(attestor, instance string) string {
	b.t.Helper()
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: attestor, Selectors: map[string]string{"instance_id": instance, "account": account}}
	task, _, err := b.Broker.OpenTask(b.t.Context(), b.Principals[brokertest.Runner], spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return task.ID
}

// enrol sends a document for a challenge of the key.
func (b *bed) enrol(task string, raw []byte, key jose.Signer) (broker.Enrolment, error) {
	b.t.Helper()
	p := b.Prove(b.t, key)
	return b.Broker.Enrol(b.t.Context(), task, b.shown(b.t, raw, p.Key), p)
}

func (b *bed) refused(what, task string, raw []byte, key jose.Signer) {
	b.t.Helper()
	if _, err := b.enrol(task, raw, key); err == nil || broker.AsError(err).Kind == broker.Unavailable {
		b.t.Errorf("%s: got %v", what, err)
	}
}

// The first key that attests with a launch is the only one to use it, in all tasks, for
// as long as a copy of the document would be accepted.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	at, box := b.Clock.Now(), instance()
	copyOf := func() []byte { return b.maker.launch(at, box).sealed() }
	mine, thief, task := brokertest.NewKey(t), brokertest.NewKey(t), b.task(box)

	// A rejected attempt does not consume the launch.
	b.refused("another instance's document", task, b.maker.launch(at, instance()).sealed(), thief)
	b.refused("the document for another instance's task", b.task(instance()), copyOf(), thief)
	en, err := b.enrol(task, copyOf(), mine)
	if err != nil {
		t.Fatal(err)
	}
	if end := at.UTC().Truncate(time.Second).Add(time.Hour); !en.ExpiresAt.Equal(end) {
		t.Errorf("the task token ends at %v, want %v", en.ExpiresAt, end)
	}
	second := b.task(box)
	b.refused("the task with another key", task, copyOf(), thief)
	b.refused("another task of the instance with another key", second, copyOf(), thief)
	b.refused("the same in DER", second, func() []byte { p := b.maker.launch(at, box); p.wrap = der; return p.sealed() }(), thief)
	if _, err := b.enrol(task, copyOf(), mine); err != nil {
		t.Errorf("again with its key: %v", err)
	}
	b.Clock.Add(5*time.Minute - 5*time.Second)
	b.refused("at the end of the window", second, copyOf(), thief)
	if _, err := b.enrol(second, copyOf(), mine); err != nil {
		t.Errorf("another task of the instance with its key: %v", err)
	}
	b.Clock.Add(10 * time.Second)
	b.refused("after the window", b.task(box), copyOf(), mine)
	b.refused("after the window with another key", b.task(box), copyOf(), thief)

	// After a restart of the instance the document is of another launch, which the
	// first key to attest gets.
	again := b.maker.launch(b.Clock.Now(), box).sealed()
	if _, err := b.enrol(b.task(box), again, thief); err != nil {
		t.Errorf("after a new launch: %v", err)
	}
	b.refused("the new launch with the old key", b.task(box), again, mine)
}

// A launch that was used at one attestor cannot be used at another one for the same
// account, also after the first one's window has ended.
func TestFirstUseAtATwin(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *ec2.Config) { c.LaunchWindow, c.Lifetime = time.Minute, time.Minute })
	box := instance()
	raw := b.maker.launch(b.Clock.Now(), box).sealed()
	mine, thief := brokertest.NewKey(t), brokertest.NewKey(t)
	if _, err := b.enrol(b.task(box), raw, mine); err != nil {
		t.Fatal(err)
	}
	b.Attestor = b.twin
	task := b.taskAt("twin", box)
	atTwin := func(key jose.Signer) error {
		p := b.Prove(t, key)
		e := b.shown(t, raw, p.Key)
		e.Attestor = "twin"
		_, err := b.Broker.Enrol(t.Context(), task, e, p)
		return err
	}
	for _, later := range []time.Duration{0, 29 * time.Minute} {
		b.Clock.Add(later)
		if err := atTwin(thief); err == nil || !strings.Contains(err.Error(), "the evidence with another key") {
			t.Errorf("another key, %s later: %v", later, err)
		}
	}
	if err := atTwin(mine); err != nil {
		t.Errorf("its key: %v", err)
	}
}

// When many keys attest with one launch concurrently, for many tasks, one succeeds.
func TestFirstUseRace(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	box := instance()
	raw := b.maker.launch(b.Clock.Now(), box).sealed()
	const callers = 16
	won := make([]bool, callers)
	var wg sync.WaitGroup
	for i := range callers {
		task, key := b.task(box), brokertest.NewKey(t)
		p := b.Prove(t, key)
		e := b.shown(t, raw, p.Key)
		wg.Go(func() {
			_, err := b.Broker.Enrol(t.Context(), task, e, p)
			won[i] = err == nil
		})
	}
	wg.Wait()
	n := 0
	for _, w := range won {
		if w {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of %d keys got in, want 1", n, callers)
	}
}

// A task that any instance would match is not opened.
func TestTaskOfAnyInstance(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "cloud", Selectors: map[string]string{"account": account, "image_id": "ami-0fa9e1f64142cde17"}}
	if _, _, err := b.Broker.OpenTask(t.Context(), b.Principals[brokertest.Runner], spec); err == nil {
		t.Error("it was opened")
	}
}

// Another ebb refuses a challenge of this one. It accepts the document with its own
// challenge.
func TestAnotherEbb(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	there := b.open(t, func(c *ec2.Config) { c.Nonces = newNonces(t, 2) })
	p := b.Prove(t, brokertest.NewKey(t))
	e := b.shown(t, b.maker.launch(b.Clock.Now(), instance()).sealed(), p.Key)
	if _, err := there.Attest(t.Context(), e); attesttest.Reason(err) != attest.ReasonNonce {
		t.Errorf("got %v", err)
	}
}
