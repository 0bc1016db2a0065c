package ssh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// format is the issued_token_type (RFC 8693 section 3) of a certificate. The token is one line
// of authorized_keys, to be saved as <key>-cert.pub.
const format = "urn:ebb:token-type:ssh-certificate"

// Config configures a driver.
type Config struct {
	Name    string // of the provider; required
	Options Options
	// Dir is the directory for CA keys when Options name no key file. Replicas share it. ""
	// makes no key, to check a configuration.
	Dir    string
	Ended  Ended            // the revoked leases in the database; required to publish a list
	Signer Signer           // nil means the CA of Dir or Options
	HTTP   provider.HTTP    // to fetch krl.url
	Now    func() time.Time // required
	// Steady is a monotonic clock, for tests; nil means the monotonic readings of Now.
	Steady func() time.Duration
	Logger *slog.Logger // required
}

// Driver mints certificates. It is safe for concurrent use.
type Driver struct {
	cfg     Config
	clock   *clock.Clock // Sure decides when an entry leaves the list and when a CA key is made or removed
	set     settings
	ca      *ca
	signer  Signer
	revoked *revoked
	file    *file // nil without krl.file
	probe   *watch
}

var (
	_ provider.Driver    = (*Driver)(nil)
	_ provider.Prober    = (*Driver)(nil)
	_ provider.Checker   = (*Driver)(nil)
	_ provider.Certifier = (*Driver)(nil)
	_ provider.Runner    = (*Driver)(nil)
	_ provider.Reacher   = (*Driver)(nil)
)

// New returns a driver, or all problems of the options joined. It makes a CA key when there is
// none.
func New(c Config) (*Driver, error) {
	if c.Name == "" || c.Now == nil || c.Logger == nil {
		return nil, errors.New("ssh provider: name, clock and logger are required")
	}
	set, err := c.Options.check()
	if err != nil {
		return nil, err
	}
	watched := clock.New(c.Now, c.Steady)
	sure := func() time.Time { return watched.Read().Sure }
	authority, err := openCA(set, c.Dir, sure, c.Logger)
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: c, clock: watched, set: set, ca: authority, signer: c.Signer, revoked: newRevoked(c.Ended, sure)}
	if d.signer == nil {
		d.signer = authority
	}
	if set.KRL.File != "" {
		d.file = &file{path: set.KRL.File, turn: make(chan struct{}, 1)}
	}
	d.probe = newWatch(c.HTTP.Client(), set.KRL.URL, watched)
	return d, nil
}

// Check implements provider.Driver.
func (d *Driver) Check(s scopes.Set) error {
	_, err := d.set.planOf(s)
	return err
}

// Mint signs a certificate over the grant's public key.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	p, err := d.set.planOf(g.Scopes)
	if err != nil {
		return provider.Credential{}, err
	}
	key, err := parsePublicKey(g.PublicKey)
	if err != nil {
		return provider.Credential{}, provider.Refused(err.Error()+".", nil)
	}
	cert, expires, err := d.certificate(g, p, key)
	if err != nil {
		return provider.Credential{}, err
	}
	if err := d.signer.Sign(ctx, cert); err != nil {
		return provider.Credential{}, fmt.Errorf("ssh provider: signing: %w", err)
	}
	line := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(cert)), "\n") + " " + g.LeaseID
	return provider.Credential{Token: secret.New(line), Type: "N_A", Format: format, ExpiresAt: expires, DiesAt: expires}, nil
}

// Revoke publishes the certificate's serial as revoked, and then ends open sessions if a kill
// command is configured. After the certificate's expiry it only ends sessions.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	keyID := KeyIDOf(t.Instance, t.LeaseID)
	if keyID == "" {
		return errors.New("ssh provider: the lease or instance has not the form of an id")
	}
	now := d.clock.Read()
	if until := d.expiry(t, now.Now); !now.Sure.After(until.Add(keep)) {
		d.revoked.add(SerialOf(t.LeaseID), until)
		if d.file != nil {
			if err := d.file.push(ctx, d.list); err != nil {
				return err
			}
		}
		if d.probe.url == "" { // with a URL, the server of the list may still serve an older version
			d.probe.seenFor(SerialOf(t.LeaseID), until)
		}
	}
	if d.set.Kill == nil {
		return nil
	}
	return d.kill(ctx, t, keyID)
}

// expiry returns the latest possible expiry of a lease's certificate.
func (d *Driver) expiry(t provider.Target, now time.Time) time.Time {
	until := t.ExpiresAt
	if t.DiesAt.After(until) {
		until = t.DiesAt
	}
	if until.IsZero() {
		until = now.Add(d.set.maxTTL)
	}
	return until
}

// Traits implements provider.Driver.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{
		ThirdParty:   true,
		Revocability: provider.Revocability{Class: provider.ClassEventual, Bound: d.set.bound()},
	}
}

// Authorities returns the CA keys as lines of a TrustedUserCAKeys file, with the signing key
// first.
func (d *Driver) Authorities() ([]byte, error) {
	list, err := d.ca.keys()
	if err != nil {
		return nil, err
	}
	return authorizedKeys(list, "ebb-"+d.cfg.Name), nil
}

// KRL returns the current revocation list, or an error if the list would be incomplete. The
// list contains each serial under every key of the CA, because the signing key of a
// certificate is not stored.
func (d *Driver) KRL(ctx context.Context) (krl.List, error) { return d.list(ctx, false) }

func (d *Driver) list(ctx context.Context, newly bool) (krl.List, error) {
	serials, err := d.revoked.serials(ctx, newly)
	if err != nil {
		return krl.List{}, err
	}
	cas, err := d.ca.keys()
	if err != nil {
		return krl.List{}, err
	}
	var l krl.List
	for _, k := range cas {
		l.Certs = append(l.Certs, krl.Certs{CA: k.Marshal(), Serials: serials})
	}
	return l, nil
}

// Describe implements provider.Describer: a session that runs commands can do everything that the
// account can, also with a forced command.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, _, _, err := d.set.target(s); err != nil {
		return provider.Effect{}, err
	}
	if _, more := extensions[s.Action()]; !more && s.Action() != actionLogin && !strings.HasPrefix(s.Action(), actionRun) {
		return provider.Effect{}, unsupported("%s: there is no such action", s)
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.No, Sentence: "What a command did on a host cannot be undone."}, nil
}
