package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

// watch records since when it has seen a serial in the published lists. It loses its state at
// a restart, and replicas do not share it. The probe then answers later, but never wrongly.
type watch struct {
	client *http.Client
	url    string
	clock  *clock.Clock

	mu   sync.Mutex
	seen map[uint64]firstSeen
}

type firstSeen struct {
	at    time.Duration // by the steady clock
	until time.Time
}

func newWatch(c *http.Client, url string, k *clock.Clock) *watch {
	return &watch{client: c, url: url, clock: k, seen: map[uint64]firstSeen{}}
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
	now := d.clock.Read()
	until := d.expiry(t, now.Now)
	if now.Sure.After(until.Add(skew)) {
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
	if d.probe.seenFor(serial, until) < d.set.bound() {
		return true, errEarly
	}
	return false, nil
}

// published returns the lists that hosts can fetch.
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

// seenFor returns how long ago the serial was first seen, which is 0 for a new one. It reads the clock itself,
// because the push or fetch before it takes time.
func (w *watch) seenFor(serial uint64, until time.Time) time.Duration {
	now := w.clock.Read()
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.seen[serial]
	if !ok {
		maps.DeleteFunc(w.seen, func(_ uint64, s firstSeen) bool { return now.Sure.After(s.until) })
		s = firstSeen{at: now.Steady, until: until.Add(keep)}
		w.seen[serial] = s
	}
	return now.Steady - s.at
}

func (w *watch) forget(serial uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, serial)
}

// CheckSetup implements provider.Checker. It cannot check how hosts use the published list.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	var out []provider.Finding
	fatal := func(remedy, format string, args ...any) {
		out = append(out, provider.Finding{Fatal: true, What: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	cas, err := d.ca.keys()
	if err != nil {
		fatal("Start ebb serve once, or set ca.key_file.", "There is no CA key to sign with: %v.", err)
	}
	for _, k := range cas {
		out = append(out, provider.Finding{
			What:   "Hosts must trust " + ssh.FingerprintSHA256(k) + ".",
			Remedy: "Put the lines of GET /v1/ssh/ca into the file that TrustedUserCAKeys of sshd_config names.",
		})
	}
	if d.file != nil {
		if err := d.file.push(ctx, d.list); err != nil {
			fatal("Let ebb write to the directory of krl.file: it makes a new file there and renames it.", "The revocation list cannot be written: %v.", err)
		}
	}
	if d.file == nil && d.probe.url == "" {
		out = append(out, provider.Finding{
			What:   "ebb cannot see what hosts read: neither krl.file nor krl.url is set.",
			Remedy: "Set krl.url to where hosts fetch the revocation list.",
		})
	}
	lists, err := d.published(ctx)
	if err != nil {
		fatal("Serve GET /v1/ssh/krl there, unaltered and not cached.", "The published revocation list cannot be read: %v.", err)
	}
	for _, l := range lists {
		for _, k := range cas {
			if !has(l.Certs, k) {
				fatal("Serve GET /v1/ssh/krl of this ebb there.", "The published revocation list is not about the CA key %s.", ssh.FingerprintSHA256(k))
			}
		}
	}
	if d.set.Kill == nil {
		out = append(out, provider.Finding{
			What:   "Sessions that are open when a certificate is revoked go on: no kill command is set.",
			Remedy: "Set kill.command, see docs/providers/ssh.md.",
		})
	} else if info, err := os.Stat(d.set.Kill.Command[0]); err != nil || info.Mode()&0o111 == 0 || info.IsDir() {
		fatal("chmod +x it, or correct kill.command.", "The kill command %s is no program.", d.set.Kill.Command[0])
	}
	return out
}

// SampleKey implements provider.Certifier.
func (d *Driver) SampleKey() (string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(key)), "\n"), nil
}

// has reports whether a list contains a CA.
func has(list []krl.Certs, ca ssh.PublicKey) bool {
	return slices.ContainsFunc(list, func(c krl.Certs) bool { return slices.Equal(c.CA, ca.Marshal()) })
}
