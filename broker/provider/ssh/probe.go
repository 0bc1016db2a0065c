package ssh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"sync"
	"time"

	"ebb/broker/provider"
	"ebb/broker/provider/ssh/krl"
)

// watch remembers since when it has seen a serial in the published lists. A
// restart forgets it, and another replica does not know it, which makes the answer
// later, never wrong.
type watch struct {
	client *http.Client
	url    string

	mu   sync.Mutex
	seen map[uint64]sighting
}

type sighting struct{ first, until time.Time }

func newWatch(c *http.Client, url string) *watch {
	return &watch{client: c, url: url, seen: map[uint64]sighting{}}
}

// errEarly is what a probe says of a certificate that is in the published lists,
// but not yet for as long as hosts may take to fetch them: nobody can tell.
var errEarly = fmt.Errorf("ssh provider: it is published as revoked, and hosts may not have fetched that yet: %w", errors.ErrUnsupported)

// Probe reads the lists that hosts read, the file and the URL, or without either
// what ebb publishes. A certificate that is missing from one of them is alive. It
// is dead when it has expired on every host, or when all of them have held its
// serial, as far as this process saw, for the bound: the file or the answer of
// another replica may be behind the one that was read, and hosts take their time;
// between the two the error wraps errors.ErrUnsupported. It is no login: it shows
// what hosts are told, not what they do.
func (d *Driver) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	now, until := d.cfg.Now(), d.expiry(t)
	if now.After(until.Add(skew)) {
		return false, nil
	}
	lists, err := d.published(ctx)
	if err != nil {
		return true, err
	}
	cas, err := d.ca.keys()
	if err != nil {
		return true, err
	}
	serial := SerialOf(t.LeaseID)
	for _, l := range lists {
		for _, ca := range cas {
			if !l.Revokes(krl.Subject{CA: ca.Marshal(), Serial: serial, KeyID: KeyIDOf(t.Instance, t.LeaseID)}) {
				d.probe.forget(serial)
				return true, nil
			}
		}
	}
	if now.Sub(d.probe.since(serial, now, until)) < d.set.bound() {
		return true, errEarly
	}
	return false, nil
}

// published are the lists that hosts can read.
func (d *Driver) published(ctx context.Context) ([]krl.List, error) {
	var out []krl.List
	if d.file != nil {
		b, err := os.ReadFile(d.file.path)
		if err != nil {
			return nil, fmt.Errorf("ssh provider: krl.file: %w", err)
		}
		l, err := krl.Parse(b)
		if err != nil {
			return nil, fmt.Errorf("ssh provider: krl.file: %w", err)
		}
		out = append(out, l)
	}
	if d.probe.url != "" {
		l, err := d.probe.fetch(ctx)
		if err != nil {
			return nil, fmt.Errorf("ssh provider: krl.url: %w", err)
		}
		out = append(out, l)
	}
	if len(out) > 0 {
		return out, nil
	}
	l, err := d.KRL(ctx)
	return []krl.List{l}, err
}

func (w *watch) fetch(ctx context.Context) (krl.List, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return krl.List{}, err
	}
	r.Header.Set("Cache-Control", "no-cache")
	res, err := w.client.Do(r) //nolint:bodyclose // ReadBody closes it
	if err != nil {
		return krl.List{}, err
	}
	b, err := provider.ReadBody(res, krl.MaxSize)
	if err != nil {
		return krl.List{}, err
	}
	if res.StatusCode != http.StatusOK {
		return krl.List{}, errors.New("it answers " + res.Status)
	}
	return krl.Parse(b)
}

// since is when the serial was first seen.
func (w *watch) since(serial uint64, now, until time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.seen[serial]
	if !ok || now.Before(s.first) {
		maps.DeleteFunc(w.seen, func(_ uint64, s sighting) bool { return now.After(s.until) })
		s = sighting{first: now, until: until.Add(keep)}
		w.seen[serial] = s
	}
	return s.first
}

func (w *watch) forget(serial uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, serial)
}
