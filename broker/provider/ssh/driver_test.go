package ssh_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/provider/ssh"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
	"github.com/ebb-broker/ebb/scopes"
)

const instance = "0a1b2c3d"

// record is the part of the database that a driver reads.
type record struct {
	mu    sync.Mutex
	ended []provider.Target
	err   error
	reads int
}

func (r *record) list(_ context.Context, after time.Time, yield func(provider.Target) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if r.err != nil {
		return r.err
	}
	for _, t := range r.ended {
		if !t.ExpiresAt.After(after) {
			continue
		}
		if err := yield(t); err != nil {
			return err
		}
	}
	return nil
}

func (r *record) set(err error, ended ...provider.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.err = ended, err
}

func (r *record) add(t provider.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, t)
}

// clock is a wall clock and a steady clock, both set by hand.
type clock struct{ at, ahead atomic.Int64 } // in seconds; ahead is how far at was set ahead

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Now().Unix())
	return c
}

func (c *clock) now() time.Time { return time.Unix(c.at.Load(), 0).UTC() }

func (c *clock) steady() time.Duration {
	return time.Duration(c.at.Load()-c.ahead.Load()) * time.Second
}

// forward lets time pass.
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d / time.Second)) }

// jump sets the wall clock.
func (c *clock) jump(d time.Duration) {
	c.ahead.Add(int64(d / time.Second))
	c.forward(d)
}

func options() ssh.Options {
	return ssh.Options{
		Groups: map[string]ssh.Group{
			"web": {Logins: []string{"deploy", "bo"}}, "*.db.example": {Logins: []string{"dba"}},
			"edge": {Logins: []string{"deploy"}, SourceAddress: []string{"192.0.2.7/32", "2001:db8::/32"}},
		},
		Commands: map[string]string{"restart-web": "/usr/bin/systemctl restart web"},
		KRL:      ssh.KRLOptions{Refresh: "60s"},
	}
}

type rig struct {
	*ssh.Driver
	clock  *clock
	record *record
	dir    string
	o      ssh.Options
}

func newRig(t testing.TB, change func(*ssh.Options)) *rig {
	t.Helper()
	r := &rig{clock: newClock(), record: &record{}, dir: t.TempDir() + "/ca", o: options()}
	if change != nil {
		change(&r.o)
	}
	r.Driver = r.again(t)
	return r
}

// again is a restart, or another replica.
func (r *rig) again(t testing.TB) *ssh.Driver {
	t.Helper()
	d, err := ssh.New(ssh.Config{Name: "ssh", Options: r.o, Dir: r.dir, Ended: r.record.list, Now: r.clock.now, Steady: r.clock.steady, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var leases atomic.Int64

func newLease() string { return fmt.Sprintf("lse_%032x", leases.Add(1)) }

func (r *rig) grant(t testing.TB, scope string) provider.Grant {
	t.Helper()
	now := r.clock.now()
	return provider.Grant{
		LeaseID: newLease(), Instance: instance, TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "bo", Scopes: scopes.MustParseSet(scope),
		IssuedAt: now, ExpiresAt: now.Add(5 * time.Minute), PublicKey: newKey(t),
	}
}

func newKey(t testing.TB) string {
	t.Helper()
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return line(t, pub)
}

func line(t testing.TB, key any) string {
	t.Helper()
	p, err := xssh.NewPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(p)))
}

func (r *rig) mint(t testing.TB, g provider.Grant) *xssh.Certificate {
	t.Helper()
	c, err := r.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return certificate(t, c)
}

func certificate(t testing.TB, c provider.Credential) *xssh.Certificate {
	t.Helper()
	k, comment, _, rest, err := xssh.ParseAuthorizedKey([]byte(c.Token.Reveal()))
	if err != nil || len(rest) > 0 || !strings.HasPrefix(comment, "lse_") {
		t.Fatalf("the token is no line of a certificate: %v", err)
	}
	return k.(*xssh.Certificate)
}

func target(g provider.Grant) provider.Target {
	return provider.Target{LeaseID: g.LeaseID, Instance: g.Instance, TaskID: g.TaskID, Scopes: g.Scopes, IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, DiesAt: g.ExpiresAt, Now: g.IssuedAt}
}

// trusted are the CA keys that hosts get.
func trusted(t testing.TB, d *ssh.Driver) []xssh.PublicKey {
	t.Helper()
	b, err := d.Authorities()
	if err != nil {
		t.Fatal(err)
	}
	var out []xssh.PublicKey
	for len(b) > 0 {
		var k xssh.PublicKey
		if k, _, _, b, err = xssh.ParseAuthorizedKey(b); err != nil {
			t.Fatal(err)
		}
		out = append(out, k)
	}
	return out
}

// accepts is what a host that trusts d says of a certificate.
func accepts(t testing.TB, d *ssh.Driver, c *xssh.Certificate, principal string, now time.Time) error {
	t.Helper()
	l, err := d.KRL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cas := trusted(t, d)
	check := xssh.CertChecker{
		SupportedCriticalOptions: []string{"force-command", "source-address"}, Clock: func() time.Time { return now },
		IsUserAuthority: func(k xssh.PublicKey) bool {
			return slices.ContainsFunc(cas, func(ca xssh.PublicKey) bool { return bytes.Equal(ca.Marshal(), k.Marshal()) })
		},
		IsRevoked: func(c *xssh.Certificate) bool {
			return l.Revokes(krl.Subject{Key: c.Key.Marshal(), CA: c.SignatureKey.Marshal(), Serial: c.Serial, KeyID: c.KeyId})
		},
	}
	if !check.IsUserAuthority(c.SignatureKey) {
		return errors.New("another CA")
	}
	return check.CheckCert(principal, c)
}

func TestConformance(t *testing.T) {
	r := newRig(t, nil)
	providertest.Run(t, providertest.Subject{
		Driver: r, Grant: func() provider.Grant { return r.grant(t, "ssh:web/deploy:login ssh:web/deploy:pty") }, Unsupported: "ssh:web/*:login",
		Alive: func(_ context.Context, c provider.Credential) (bool, error) {
			return accepts(t, r.Driver, certificate(t, c), "deploy@web", r.clock.now()) == nil, nil
		},
	})
}

func TestCertificateSaysExactlyWhatWasGranted(t *testing.T) {
	r := newRig(t, nil)
	for scope, want := range map[string]struct {
		principals []string
		critical   map[string]string
		extensions []string
	}{
		"ssh:web/deploy:login":                                                    {[]string{"deploy@web"}, nil, nil},
		"ssh:web/deploy:login ssh:web/bo:login":                                   {[]string{"bo@web", "deploy@web"}, nil, nil},
		"ssh:db1.db.example/dba:login":                                            {[]string{"dba@db1.db.example"}, nil, nil},
		"ssh:web/deploy:login ssh:web/deploy:pty":                                 {[]string{"deploy@web"}, nil, []string{"permit-pty"}},
		"ssh:web/deploy:run.restart-web":                                          {[]string{"deploy@web"}, map[string]string{"force-command": "/usr/bin/systemctl restart web"}, nil},
		"ssh:edge/deploy:login":                                                   {[]string{"deploy@edge"}, map[string]string{"source-address": "192.0.2.7/32,2001:db8::/32"}, nil},
		"ssh:web/bo:login ssh:web/bo:port-forwarding ssh:web/bo:agent-forwarding": {[]string{"bo@web"}, nil, []string{"permit-agent-forwarding", "permit-port-forwarding"}},
	} {
		g := r.grant(t, scope)
		c := r.mint(t, g)
		if !slices.Equal(c.ValidPrincipals, want.principals) || !maps.Equal(c.CriticalOptions, want.critical) {
			t.Errorf("%s: principals %v options %v", scope, c.ValidPrincipals, c.CriticalOptions)
		}
		if got := slices.Sorted(maps.Keys(c.Extensions)); !slices.Equal(got, want.extensions) {
			t.Errorf("%s: extensions %v", scope, got)
		}
		if c.CertType != xssh.UserCert || c.Serial != ssh.SerialOf(g.LeaseID) || c.Serial == 0 || c.KeyId != "lease:"+g.LeaseID+"/"+provider.Name(instance, g.LeaseID) {
			t.Errorf("%s: type %d serial %d key id %q", scope, c.CertType, c.Serial, c.KeyId)
		}
		if c.ValidAfter != uint64(g.IssuedAt.Unix()-60) || c.ValidBefore != uint64(g.ExpiresAt.Unix()) {
			t.Errorf("%s: valid from %d to %d", scope, c.ValidAfter, c.ValidBefore)
		}
		if line := strings.TrimSpace(string(xssh.MarshalAuthorizedKey(c.Key))); line != g.PublicKey {
			t.Errorf("%s: another key was certified", scope)
		}
		if err := accepts(t, r.Driver, c, want.principals[0], r.clock.now()); err != nil {
			t.Errorf("%s: a host refuses it: %v", scope, err)
		}
	}
}

func TestCheckRefusesWhatIsNotExact(t *testing.T) {
	r := newRig(t, nil)
	for name, scope := range map[string]string{
		"pattern of groups": "ssh:*/deploy:login", "pattern of logins": "ssh:web/*:login", "any path": "ssh:**:login", "rest": "ssh:web/**:login",
		"any action": "ssh:web/deploy:*", "unknown group": "ssh:mail/deploy:login", "unknown login": "ssh:web/root:login", "unknown action": "ssh:web/deploy:sudo",
		"unknown command": "ssh:web/deploy:run.rm", "command without a name": "ssh:web/deploy:run.", "no login": "ssh:web:login", "deeper": "ssh:web/deploy/x:login",
		"extension alone": "ssh:web/deploy:pty", "login and command": "ssh:web/deploy:login ssh:web/deploy:run.restart-web",
		"uneven extensions": "ssh:web/deploy:login ssh:web/deploy:pty ssh:web/bo:login", "uneven actions": "ssh:web/deploy:login ssh:web/bo:run.restart-web",
		"two source addresses": "ssh:web/deploy:login ssh:edge/deploy:login",
		"the domain itself":    "ssh:db.example/dba:login", "two labels": "ssh:a.b.db.example/dba:login", "upper case host": "ssh:DB1.db.example/dba:login",
		"the pattern by name": "ssh:~.db.example/dba:login", "login of another group": "ssh:db1.db.example/deploy:login", "x11": "ssh:web/deploy:x11-forwarding",
	} {
		set := scopes.MustParseSet(scope)
		if err := r.Check(set); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: Check(%s) = %v", name, scope, err)
		}
		g := r.grant(t, "ssh:web/bo:login")
		g.Scopes = set
		if _, err := r.Mint(t.Context(), g); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: Mint = %v", name, err)
		}
	}
}

func TestBareLogins(t *testing.T) {
	r := newRig(t, func(o *ssh.Options) {
		o.Principals, o.Groups = "login", map[string]ssh.Group{"web": {Logins: []string{"deploy"}}}
	})
	if c := r.mint(t, r.grant(t, "ssh:web/deploy:login")); !slices.Equal(c.ValidPrincipals, []string{"deploy"}) {
		t.Errorf("principals %v", c.ValidPrincipals)
	}
}

func TestLifetime(t *testing.T) {
	r := newRig(t, func(o *ssh.Options) { o.MaxTTL = "10m" })
	g := r.grant(t, "ssh:web/bo:login")
	g.ExpiresAt = g.IssuedAt.Add(24 * time.Hour)
	c, err := r.Mint(t.Context(), g)
	if err != nil || !c.ExpiresAt.Equal(g.IssuedAt.Add(10*time.Minute)) || !c.DiesAt.Equal(c.ExpiresAt) {
		t.Errorf("a day was asked: expires %v, dies %v, %v", c.ExpiresAt, c.DiesAt, err)
	}
	cert := certificate(t, c)
	for after, want := range map[time.Duration]bool{0: true, 599 * time.Second: true, 600 * time.Second: false, -60 * time.Second: true, -61 * time.Second: false} {
		if err := accepts(t, r.Driver, cert, "bo@web", g.IssuedAt.Add(after)); (err == nil) != want {
			t.Errorf("%s after it was issued: %v", after, err)
		}
	}
	g = r.grant(t, "ssh:web/bo:login")
	g.ExpiresAt = g.IssuedAt.Add(1900 * time.Millisecond)
	if c := r.mint(t, g); c.ValidBefore != uint64(g.IssuedAt.Unix()+1) {
		t.Errorf("a part of a second became %d", c.ValidBefore-uint64(g.IssuedAt.Unix()))
	}
	for name, spoil := range map[string]func(*provider.Grant){
		"half a second": func(g *provider.Grant) { g.ExpiresAt = g.IssuedAt.Add(500 * time.Millisecond) },
		"no issue time": func(g *provider.Grant) { g.IssuedAt = time.Time{} },
		"1960": func(g *provider.Grant) {
			g.IssuedAt = time.Unix(-300_000_000, 0)
			g.ExpiresAt = g.IssuedAt.Add(time.Minute)
		},
		"no instance":   func(g *provider.Grant) { g.Instance = "" },
		"foreign lease": func(g *provider.Grant) { g.LeaseID = "lse_1\nprincipal root" },
	} {
		g := r.grant(t, "ssh:web/bo:login")
		spoil(&g)
		if _, err := r.Mint(t.Context(), g); err == nil {
			t.Errorf("%s: minted", name)
		}
	}
}

func TestSerialsAreSpread(t *testing.T) {
	seen := map[uint64]bool{}
	high := 0
	for range 10_000 {
		s := ssh.SerialOf(newLease())
		if s == 0 || seen[s] {
			t.Fatal("a serial is zero or not unique")
		}
		seen[s] = true
		if s > 1<<63 {
			high++
		}
	}
	if high < 4_500 || high > 5_500 {
		t.Errorf("%d of 10000 serials have the highest bit", high)
	}
}

func BenchmarkMint(b *testing.B) {
	r := newRig(b, nil)
	g := r.grant(b, "ssh:web/deploy:login")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Mint(b.Context(), g); err != nil {
			b.Fatal(err)
		}
	}
}
