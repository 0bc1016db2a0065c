package brokertest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
)

// message is the body of every request and answer.
type message struct {
	Name   string    `json:"name,omitempty"`
	Handle string    `json:"handle,omitempty"`
	Token  string    `json:"token,omitempty"`
	TTL    int       `json:"ttl,omitempty"` // seconds; 0 = no expiry
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
		if it == nil { // the request has only a name
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

// find returns a credential by its handle, or without a handle by its name.
func (u *Upstream) find(in message) *item {
	if in.Handle != "" {
		return u.items[in.Handle]
	}
	return u.items[in.Name]
}

// token returns a random, recognisable token: it must not appear in a log, the audit log
// or a store.
func token() string { return "canary" + secret.New(randomText()).Hash()[:24] }
