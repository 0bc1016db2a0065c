package crashtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// Party is a third party that keeps running when the broker is killed.
type Party struct {
	Scope  string   // the scope to mint; policy allows it
	Driver any      // the JSON configuration from which Child makes its driver
	Fast   int      // how much faster the broker's clock runs, for slow providers; 0 = not
	Store  string   // URL of an empty database; "" = SQLite
	Redis  []string // addresses of the LiveStore, which then keeps running, too; nil = memory
	Prefix string   // prefix of its keys there
	// Alive returns the credentials that exist and work. Only those of this broker exist.
	Alive func(t *testing.T) []string
}

// away is how long a killed broker is away: longer than any of its claims.
const away = 3 * time.Minute

// two limits the running children to two, for any number of parallel tests.
var two = make(chan struct{}, 2)

// phases of a matrix.
const (
	working  = "mint and complete"
	revoking = "revoke"
	recovery = "recovery"
)

// Run kills a broker before and after each step of a mint and of the close of its task,
// and after each step of the revocation of a credential, with a new party for each. Then
// it takes a broker that was killed after the provider had minted and before the outcome
// was recorded, and kills the recovering broker after each of its steps.
func Run(t *testing.T, party func(t *testing.T) Party) {
	t.Helper()
	m := &matrix{party: party, rows: map[string][]string{}}
	begin := m.whole(t, working, 8, func(r *rig) []string { return r.run(order{}) })
	m.each(t, working, begin, func(r *rig, kill int, after bool) []string {
		return r.run(order{Kill: kill, After: after})
	})
	end := m.whole(t, revoking, 4, func(r *rig) []string { return r.run(order{Revoke: true}) })
	m.each(t, revoking, end, func(r *rig, kill int, after bool) []string {
		return r.run(order{Revoke: true, Kill: kill, After: after})
	})
	minted := 0
	for i, name := range begin {
		if name == "driver: Mint" {
			minted = i + 1
		}
	}
	crash := func(r *rig) {
		if r.run(order{Kill: minted, After: true}); len(r.party.Alive(r.t)) != 1 {
			r.t.Fatal("no credential was minted: the test proves nothing")
		}
	}
	again := m.whole(t, recovery, 4, func(r *rig) []string {
		crash(r)
		return r.run(order{Recover: true, Ahead: away})
	})
	m.each(t, recovery, again, func(r *rig, kill int, after bool) []string {
		crash(r)
		return r.run(order{Recover: true, Kill: kill, After: after, Ahead: away})
	})
	t.Cleanup(func() { t.Log("\n" + m.table()) })
}

type matrix struct {
	party func(t *testing.T) Party

	mu   sync.Mutex
	rows map[string][]string // by phase
}

// whole runs a phase without a crash and returns its steps, at least least of them.
func (m *matrix) whole(t *testing.T, phase string, least int, run func(*rig) []string) (steps []string) {
	t.Helper()
	t.Run(phase+" without a crash", func(t *testing.T) {
		r := newRig(t, m.party)
		steps = run(r)
		if r.killed {
			t.Fatal("it ended by itself")
		}
		if phase == revoking { // its task stays open
			r.run(order{Recover: true, Ahead: away})
		}
		r.check(t)
	})
	if t.Failed() || len(steps) < least {
		t.Fatalf("steps: %q", steps)
	}
	return steps
}

// each kills before and after each step, and checks the result of the next broker.
func (m *matrix) each(t *testing.T, phase string, steps []string, crash func(r *rig, kill int, after bool) []string) {
	t.Helper()
	t.Run(phase, func(t *testing.T) {
		for i, name := range steps {
			for _, after := range []bool{false, true} {
				if !after && phase != working {
					continue // the same moment as after the step before it; only steps of a mint contain others
				}
				when := map[bool]string{false: "before", true: "after"}[after]
				t.Run(fmt.Sprintf("%02d %s %s", i+1, when, name), func(t *testing.T) {
					t.Parallel()
					two <- struct{}{}
					defer func() { <-two }()
					r := newRig(t, m.party)
					done := crash(r, i+1, after)
					// Concurrent steps may come in another order, and fewer steps may be
					// needed.
					if !r.killed && i+1 <= len(done) {
						t.Fatal("it was not killed")
					}
					at := "not reached"
					if r.killed {
						at = done[i]
					}
					left := len(r.party.Alive(t))
					r.run(order{Recover: true, Ahead: 2 * away})
					m.row(phase, fmt.Sprintf("%02d\t%s\t%s\t%d\t%s", i+1, when, at, left, r.check(t)))
				})
			}
		}
	})
}

func (m *matrix) row(phase, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[phase] = append(m.rows[phase], text)
}

// table returns the results as a table for people.
func (m *matrix) table() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, phase := range []string{working, revoking, recovery} {
		_, _ = fmt.Fprintf(w, "%s\tkilled\tstep\talive then\tin the end: alive, lease, proof\n", phase)
		for _, r := range slices.Sorted(slices.Values(m.rows[phase])) {
			_, _ = fmt.Fprintln(w, r)
		}
	}
	_ = w.Flush()
	return b.String()
}

// Late kills a broker while the provider works on its mint, and lets the provider finish
// after the next broker has settled the intent. The credential is then an orphan, which a
// search must find. party returns a channel that is closed when the provider is asked,
// and a function that lets it finish.
func Late(t *testing.T, party func(t *testing.T) (p Party, asked <-chan struct{}, finish func())) {
	t.Helper()
	var asked <-chan struct{}
	var finish func()
	r := newRig(t, func(t *testing.T) (p Party) {
		p, asked, finish = party(t)
		return p
	})
	r.started = func(p *os.Process) {
		<-asked
		_ = p.Kill()
	}
	r.run(order{})
	r.started = nil
	r.run(order{Recover: true, Ahead: away})
	r.check(t) // no credential existed yet
	finish()
	for end := time.Now().Add(childTime); len(r.party.Alive(t)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the provider never finished")
		}
	}
	r.run(order{Recover: true, Ahead: 2 * away})
	r.orphans = 1
	r.check(t)
}
