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

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
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

// errEarly is returned by a probe if the published lists hold the certificate, but hosts may not
// have fetched them yet. The state is then unknown.
var errEarly = fmt.Errorf("ssh provider: it is published as revoked, and hosts may not have fetched that yet: %w", errors.ErrUnsupported)

// Probe reads the lists that hosts read: the file and the URL, or the list that ebb publishes if
// neither is configured. A certificate that is missing from one of them is alive. It is dead when
// it has expired on every host, or when all lists have held its serial for the bound, as far as
// this process saw: another replica's file or response may be older, and hosts need time to fetch
// it. In between, the error wraps errors.ErrUnsupported. Probe does not log in to a host, so it
// does not test the hosts.
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
