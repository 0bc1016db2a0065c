package brokertest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"ebb/broker/provider"
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

// message is every body, there and back.
type message struct {
	Name   string    `json:"name,omitempty"`
	Handle string    `json:"handle,omitempty"`
	Token  string    `json:"token,omitempty"`
	TTL    int       `json:"ttl,omitempty"` // seconds; 0 = for ever
	Dies   time.Time `json:"dies,omitzero"`
	Alive  bool      `json:"alive,omitempty"`
	Names  []string  `json:"names,omitempty"`
}

// ServeHTTP implements http.Handler.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op := r.URL.Path[1:]
	var in message
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in); err != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	u.mu.Lock()
	f := Fault("")
	if decide := u.faults[op]; decide != nil {
		f = decide(u.calls[op])
	}
	u.calls[op]++
	before, delay := u.before, u.Delay
	u.mu.Unlock()
	if before != nil {
		before(op, in.Name)
	}
	if delay > 0 {
		u.wait(r, delay)
	}
	switch f {
	case Hang:
		u.wait(r, time.Hour)
		return
	case Garbage:
		_, _ = w.Write([]byte("<html>\x00 so sorry {"))
		return
	case Error500:
		http.Error(w, "canary-of-the-provider", http.StatusInternalServerError)
		return
	case Busy:
		w.Header().Set("Retry-After", "7")
		http.Error(w, "slow down", http.StatusTooManyRequests)
		return
	case Refuse:
		http.Error(w, "no", http.StatusForbidden)
		return
	case Unsure:
		http.Error(w, "who knows", http.StatusNotImplemented)
		return
	}
	u.answer(w, r, f, u.do(op, in))
}

func (u *Upstream) answer(w http.ResponseWriter, r *http.Request, f Fault, out message) {
	raw, _ := json.Marshal(out)
	switch f {
	case DoneError:
		http.Error(w, "canary-of-the-provider", http.StatusInternalServerError)
	case DoneHang:
		u.wait(r, time.Hour)
	case DoneCut:
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		_, _ = w.Write(raw[:len(raw)/2])
		panic(http.ErrAbortHandler)
	default:
		_, _ = w.Write(raw)
	}
}

func (u *Upstream) wait(r *http.Request, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	case <-u.stop:
	}
}

func (u *Upstream) do(op string, in message) (out message) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch op {
	case OpReserve:
		out.Handle = "hdl-" + token()
		u.items[out.Handle] = &item{Name: in.Name, Handle: out.Handle}
	case OpMint:
		it := u.items[in.Handle]
		if it == nil { // the name is all there is
			it = &item{Name: in.Name, Handle: in.Name}
			u.items[in.Name] = it
		}
		it.Minted, it.Token = true, "tok-"+token()
		ttl := time.Duration(in.TTL) * time.Second
		if u.Life > 0 {
			ttl = u.Life
		}
		if ttl > 0 {
			it.Dies = u.Now().Add(ttl)
		}
		out = message{Token: it.Token, Handle: it.Handle, Dies: it.Dies}
	case OpRevoke:
		if it := u.find(in); it != nil && !u.Deaf {
			if u.alive(it) && it.RevokedAt.IsZero() {
				it.Revocations++
				it.RevokedAt = u.Now()
			}
		}
	case OpProbe:
		it := u.find(in)
		out.Alive = it != nil && u.alive(it)
	case OpList:
		for _, it := range u.items {
			if it.Minted && it.RevokedAt.IsZero() && u.alive(it) {
				out.Names = append(out.Names, it.Name)
			}
		}
	}
	return out
}

// find looks a credential up by its handle, or by its name where there is none.
func (u *Upstream) find(in message) *item {
	if in.Handle != "" {
		return u.items[in.Handle]
	}
	return u.items[in.Name]
}

// token is random and recognisable: no log, no record and no store may hold it.
func token() string { return "canary" + provider.NewSecret(randomText()).Hash()[:24] }
