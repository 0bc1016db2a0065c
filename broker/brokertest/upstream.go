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
	OpReserve = "reserve" // an id for a credential to come
	OpMint    = "mint"
	OpRevoke  = "revoke"
	OpProbe   = "probe"
	OpList    = "list"
)

// Fault is what an Upstream does instead of answering well.
type Fault string

// Faults. The last three do what was asked.
const (
	Hang      Fault = "hang"    // no answer until the caller gives up
	Garbage   Fault = "garbage" // 200 and no JSON
	Error500  Fault = "500"     //
	Busy      Fault = "busy"    // 429 with Retry-After 7
	Refuse    Fault = "refuse"  // 403
	Unsure    Fault = "unsure"  // 501: it cannot tell now
	DoneError Fault = "done-500"
	DoneCut   Fault = "done-cut" // the connection ends in the middle of the answer
	DoneHang  Fault = "done-hang"
)

// Upstream is a third party over HTTP with a state of its own: what it knows is
// what counts, whatever a broker believes. It does as it is told.
type Upstream struct {
	URL   string
	Now   func() time.Time
	Delay time.Duration // of each answer
	Lag   time.Duration // from a revocation to its effect
	Deaf  bool          // a revocation is accepted and does nothing
	Life  time.Duration // of every credential; 0 = as asked

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
	Revocations         int // that found it alive
}

// NewUpstream starts one.
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

// Before has f called before each operation.
func (u *Upstream) Before(f func(op, name string)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.before = f
}

// On makes an operation fail from now on; "" heals it.
func (u *Upstream) On(op string, f Fault) { u.OnCall(op, func(int) Fault { return f }) }

// OnCall makes each call of an operation fail as f says, which is told how many
// there were before.
func (u *Upstream) OnCall(op string, f func(n int) Fault) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.faults[op], u.calls[op] = f, 0
}

// Calls counts the calls of an operation since its last On.
func (u *Upstream) Calls(op string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls[op]
}

// Alive lists the names of the credentials that are accepted.
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

// Minted is how many credentials ever came into being.
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

// Revocations is how often a living credential was ended, of those with a name.
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

// Accepts uses a token.
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

// Plant puts a credential there that no broker asked for.
func (u *Upstream) Plant(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.items[name] = &item{Name: name, Handle: name, Token: "planted", Minted: true, Dies: u.Now().Add(24 * time.Hour)}
}

func (u *Upstream) alive(it *item) bool {
	now := u.Now()
	return it.Minted && (it.Dies.IsZero() || now.Before(it.Dies)) && (it.RevokedAt.IsZero() || now.Before(it.RevokedAt.Add(u.Lag)))
}
