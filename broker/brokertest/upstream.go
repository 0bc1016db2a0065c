package brokertest

import (
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// Operations of an Upstream.
const (
	OpReserve = "reserve" // an id for a later credential
	OpMint    = "mint"
	OpRevoke  = "revoke"
	OpProbe   = "probe"
	OpList    = "list"
)

// Fault is a failure mode of an Upstream.
type Fault string

// Faults. The last three carry out the operation.
const (
	Hang      Fault = "hang"    // no answer until the caller gives up
	Garbage   Fault = "garbage" // 200 and no JSON
	Error500  Fault = "500"     //
	Busy      Fault = "busy"    // 429 with Retry-After 7
	Refuse    Fault = "refuse"  // 403
	Unsure    Fault = "unsure"  // 501: the state is not known
	DoneError Fault = "done-500"
	DoneCut   Fault = "done-cut" // the connection ends in the middle of the answer
	DoneHang  Fault = "done-hang"
)

// Upstream is a third party over HTTP with a state of its own, which decides whether a
// credential is alive. It fails as the test sets it.
type Upstream struct {
	URL   string
	Now   func() time.Time
	Delay time.Duration // of each answer
	Lag   time.Duration // from a revocation until it takes effect
	Deaf  bool          // a revocation is accepted and has no effect
	Life  time.Duration // of every credential; 0 = as requested

	mu     sync.Mutex
	before func(op, name string)
	faults map[string]func(n int) Fault
	calls  map[string]int // by operation
	items  map[string]*item
	stop   chan struct{}
}

// item is one credential, by its handle.
type item struct {
	Name, Token, Handle string
	Dies                time.Time // zero = never
	Minted              bool
	RevokedAt           time.Time
	Revocations         int // number of revocations while it was alive
}

// NewUpstream starts an Upstream.
func NewUpstream(t testing.TB, now func() time.Time) *Upstream {
	t.Helper()
	if now == nil {
		now = time.Now
	}
	u := &Upstream{Now: now, faults: map[string]func(int) Fault{}, calls: map[string]int{}, items: map[string]*item{}, stop: make(chan struct{})}
	s := httptest.NewServer(u)
	u.URL = s.URL
	t.Cleanup(func() {
		close(u.stop)
		s.CloseClientConnections()
		s.Close()
	})
	return u
}

// Before makes f run before each operation.
func (u *Upstream) Before(f func(op, name string)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.before = f
}

// On sets the fault of an operation; "" removes it.
func (u *Upstream) On(op string, f Fault) { u.OnCall(op, func(int) Fault { return f }) }

// OnCall sets the fault for each call of an operation; f gets the number of earlier
// calls.
func (u *Upstream) OnCall(op string, f func(n int) Fault) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.faults[op], u.calls[op] = f, 0
}

// Calls returns the number of calls of an operation since its last On.
func (u *Upstream) Calls(op string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls[op]
}

// Alive returns the names of the accepted credentials.
func (u *Upstream) Alive() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	for _, it := range u.items {
		if u.alive(it) {
			out = append(out, it.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Minted returns how many credentials were ever minted.
func (u *Upstream) Minted() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, it := range u.items {
		if it.Minted {
			n++
		}
	}
	return n
}

// Revocations returns how often credentials with this name were revoked while they were
// alive.
func (u *Upstream) Revocations(name string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, it := range u.items {
		if it.Name == name {
			n += it.Revocations
		}
	}
	return n
}

// Accepts reports whether a token is accepted.
func (u *Upstream) Accepts(token string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, it := range u.items {
		if it.Token == token {
			return u.alive(it)
		}
	}
	return false
}

// Plant adds a credential that no broker requested.
func (u *Upstream) Plant(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.items[name] = &item{Name: name, Handle: name, Token: "planted", Minted: true, Dies: u.Now().Add(24 * time.Hour)}
}

func (u *Upstream) alive(it *item) bool {
	now := u.Now()
	return it.Minted && (it.Dies.IsZero() || now.Before(it.Dies)) && (it.RevokedAt.IsZero() || now.Before(it.RevokedAt.Add(u.Lag)))
}
