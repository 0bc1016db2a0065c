package issuance

import (
	"errors"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/scopes"
)

// I4: each limit alone sets the expiry when it is the earliest.
//
//ebb:invariant I4 A credential lives no longer than its mint request asked for
//ebb:invariant I4 A credential lives no longer than policy allows
//ebb:invariant I4 A credential expires no later than the deadline of its task
//ebb:invariant I4 A credential expires no later than the evidence of its sandbox permits
//ebb:invariant I4 A credential expires no later than the approved grant under which it is minted permits
//ebb:invariant I4 A credential expires no later than the parent credential from which it was narrowed
func TestEachFrameEnds(t *testing.T) {
	t.Parallel()
	b := &TokenIssuer{limits: broker.Limits{}.WithDefaults()}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const short, long = 5 * time.Minute, 10 * time.Minute
	all := scopes.MustParseSet("o:a:read")
	for name, cut := range map[string]func(w *kernel.MintRequest, d *kernel.Decision){
		"asked":    func(w *kernel.MintRequest, _ *kernel.Decision) { w.TTL = short },
		"policy":   func(_ *kernel.MintRequest, d *kernel.Decision) { d.TTL = short },
		"provider": func(w *kernel.MintRequest, _ *kernel.Decision) { w.Provider.MaxTTL = short },
		"deadline": func(w *kernel.MintRequest, _ *kernel.Decision) { w.Live.Deadline = now.Add(short) },
		"evidence": func(w *kernel.MintRequest, _ *kernel.Decision) { w.NotAfter = now.Add(short) },
		"grant":    func(_ *kernel.MintRequest, d *kernel.Decision) { d.Until = now.Add(short) },
	} {
		end := now.Add(long)
		w := kernel.MintRequest{Caller: kernel.Caller{Live: broker.Live{Task: broker.Task{Ceiling: all, Deadline: end}}, NotAfter: end}, Scopes: all, TTL: long, Provider: broker.Provider{MaxTTL: long}}
		w.Parent = &kernel.OwnToken{Scopes: all, Exp: end}
		d := kernel.Decision{Scopes: all, TTL: long, Until: end}
		if _, exp, err := b.frame(w, d, now); err != nil || !exp.Equal(end) {
			t.Fatalf("all alike: %s, %v", exp, err)
		}
		cut(&w, &d)
		if _, exp, err := b.frame(w, d, now); err != nil || !exp.Equal(now.Add(short)) {
			t.Errorf("%s: expires at %s, %v", name, exp, err)
		}
	}
	// Only the parent token limits the expiry here: a token that outlives it is refused.
	w := kernel.MintRequest{Caller: kernel.Caller{Live: broker.Live{Task: broker.Task{Ceiling: all, Deadline: now.Add(long)}}}, Scopes: all, TTL: long}
	w.Parent = &kernel.OwnToken{Scopes: all, Exp: now.Add(short)}
	if _, exp, err := b.frame(w, kernel.Decision{Scopes: all, TTL: long}, now); !errors.Is(err, kernel.ErrWider) {
		t.Errorf("beyond its parent until %s, %v", exp, err)
	}
}

// I5: when any limit is narrower than the decided scope, no token is issued.
//
//ebb:invariant I5 A mint is refused unless the scope that the request asked for covers the issued scope
//ebb:invariant I5 A mint is refused unless the ceiling of the task covers the issued scope
//ebb:invariant I5 A mint is refused unless the scope of the parent credential covers the issued scope
func TestEachFrameCovers(t *testing.T) {
	t.Parallel()
	b := &TokenIssuer{limits: broker.Limits{}.WithDefaults()}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	wide, narrow := scopes.MustParseSet("o:a:read o:a:write"), scopes.MustParseSet("o:a:read")
	for name, cut := range map[string]func(w *kernel.MintRequest, d *kernel.Decision){
		"asked":   func(w *kernel.MintRequest, _ *kernel.Decision) { w.Scopes = narrow },
		"ceiling": func(w *kernel.MintRequest, _ *kernel.Decision) { w.Live.Ceiling = narrow },
		"parent":  func(w *kernel.MintRequest, _ *kernel.Decision) { w.Parent.Scopes = narrow },
		"decided": func(_ *kernel.MintRequest, d *kernel.Decision) { d.Scopes = scopes.Set{} },
	} {
		w := kernel.MintRequest{Caller: kernel.Caller{Live: broker.Live{Task: broker.Task{Ceiling: wide, Deadline: now.Add(time.Hour)}}}, Scopes: wide, TTL: time.Minute}
		w.Parent = &kernel.OwnToken{Scopes: wide, Exp: now.Add(time.Hour)}
		d := kernel.Decision{Scopes: wide, TTL: time.Minute}
		if got, _, err := b.frame(w, d, now); err != nil || !got.Covers(wide) {
			t.Fatalf("all alike: %s, %v", got, err)
		}
		cut(&w, &d)
		if got, _, err := b.frame(w, d, now); !errors.Is(err, kernel.ErrWider) {
			t.Errorf("%s: issued %s, %v", name, got, err)
		}
	}
}
