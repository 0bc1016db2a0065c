package broker

import (
	"errors"
	"testing"
	"time"

	"ebb/scopes"
)

// I4: whichever frame ends first is the end, each by itself.
func TestEachFrameEnds(t *testing.T) {
	t.Parallel()
	b := &Broker{cfg: Config{Limits: Limits{}.withDefaults()}}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const short, long = 5 * time.Minute, 10 * time.Minute
	all := scopes.MustParseSet("o:a:read")
	for name, cut := range map[string]func(w *want, d *decided){
		"asked":    func(w *want, _ *decided) { w.ttl = short },
		"policy":   func(_ *want, d *decided) { d.ttl = short },
		"provider": func(w *want, _ *decided) { w.provider.MaxTTL = short },
		"deadline": func(w *want, _ *decided) { w.live.Deadline = now.Add(short) },
		"evidence": func(w *want, _ *decided) { w.notAfter = now.Add(short) },
		"grant":    func(_ *want, d *decided) { d.until = now.Add(short) },
	} {
		end := now.Add(long)
		w := want{asker: asker{live: Live{Task: Task{Ceiling: all, Deadline: end}}, notAfter: end}, scopes: all, ttl: long, provider: Provider{MaxTTL: long}}
		w.parent = &ownToken{scopes: all, exp: end}
		d := decided{scopes: all, ttl: long, until: end}
		if _, exp, err := b.frame(w, d, now); err != nil || !exp.Equal(end) {
			t.Fatalf("all alike: %s, %v", exp, err)
		}
		cut(&w, &d)
		if _, exp, err := b.frame(w, d, now); err != nil || !exp.Equal(now.Add(short)) {
			t.Errorf("%s: expires at %s, %v", name, exp, err)
		}
	}
	// Nobody else says when a parent ends: nothing that outlives it is issued.
	w := want{asker: asker{live: Live{Task: Task{Ceiling: all, Deadline: now.Add(long)}}}, scopes: all, ttl: long}
	w.parent = &ownToken{scopes: all, exp: now.Add(short)}
	if _, exp, err := b.frame(w, decided{scopes: all, ttl: long}, now); !errors.Is(err, errWider) {
		t.Errorf("beyond its parent until %s, %v", exp, err)
	}
}

// I5: whichever frame is narrower than what was decided, nothing is issued.
func TestEachFrameCovers(t *testing.T) {
	t.Parallel()
	b := &Broker{cfg: Config{Limits: Limits{}.withDefaults()}}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	wide, narrow := scopes.MustParseSet("o:a:read o:a:write"), scopes.MustParseSet("o:a:read")
	for name, cut := range map[string]func(w *want, d *decided){
		"asked":   func(w *want, _ *decided) { w.scopes = narrow },
		"ceiling": func(w *want, _ *decided) { w.live.Ceiling = narrow },
		"parent":  func(w *want, _ *decided) { w.parent.scopes = narrow },
		"decided": func(_ *want, d *decided) { d.scopes = scopes.Set{} },
	} {
		w := want{asker: asker{live: Live{Task: Task{Ceiling: wide, Deadline: now.Add(time.Hour)}}}, scopes: wide, ttl: time.Minute}
		w.parent = &ownToken{scopes: wide, exp: now.Add(time.Hour)}
		d := decided{scopes: wide, ttl: time.Minute}
		if got, _, err := b.frame(w, d, now); err != nil || !got.Covers(wide) {
			t.Fatalf("all alike: %s, %v", got, err)
		}
		cut(&w, &d)
		if got, _, err := b.frame(w, d, now); !errors.Is(err, errWider) {
			t.Errorf("%s: issued %s, %v", name, got, err)
		}
	}
}
