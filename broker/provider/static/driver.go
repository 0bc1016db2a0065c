package static

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/vaultapi"
	"github.com/ebb-broker/ebb/scopes"
)

// Driver issues placeholders, and adds the secret to requests.
type Driver struct {
	name      string
	cfg       Config
	hosts     map[string]bool // host:port
	secret    source          // nil when requests get no secret
	pem       source          // the client certificate; nil for none
	routes    provider.SealRoutes
	disclosed *provider.Disclosed
	now       func() time.Time
}

var (
	_ provider.Driver       = (*Driver)(nil)
	_ provider.Injector     = (*Driver)(nil)
	_ provider.Discloser    = (*Driver)(nil)
	_ provider.AnswerSealer = (*Driver)(nil)
	_ provider.Upgrader     = (*Driver)(nil)
	_ provider.Presenter    = (*Driver)(nil)
	_ provider.Checker      = (*Driver)(nil)
)

// New returns a driver for the provider of this name. It makes no connections. now may be
// nil; s may be nil when the secret is in Vault.
func New(name string, c Config, s provider.SecretStore, now func() time.Time) (*Driver, error) {
	if err := c.check(name); err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	d := &Driver{name: name, cfg: c, hosts: map[string]bool{}, now: now}
	for _, h := range c.Hosts {
		host, err := stricturl.ParseHost(h, 443)
		if err != nil {
			return nil, fmt.Errorf("hosts: %w", err)
		}
		d.hosts[host.String()] = true
	}
	var errs []error
	d.routes = provider.ReadSealRoutes("seal_response", c.SealResponse, provider.SealKind{Name: name, Port: 443, Check: d.usable, Sends: d.sends},
		func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) })
	err := errors.Join(errs...)
	if err != nil {
		return nil, err
	}
	d.disclosed = d.routes.Disclosed(c.Disclosed)
	if held := (Kept{c.Secret, c.Vault}); held != (Kept{}) {
		if d.secret, err = from(held, "", s, now); err != nil {
			return nil, err
		}
	}
	if c.ClientCertificate != nil {
		if d.pem, err = from(*c.ClientCertificate, "client_certificate.", s, now); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Traits: no credential is made outside ebb, except those that responses make, and none
// leaves ebb.
func (d *Driver) Traits() provider.Traits {
	return d.routes.Promise(provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}, InjectOnly: true})
}

// Check accepts configured scopes.
func (d *Driver) Check(s scopes.Set) error {
	if s.Empty() {
		return fmt.Errorf("%w: there is no scope", provider.ErrUnsupported)
	}
	for _, sc := range s.Scopes() {
		if _, _, known := d.rule(sc); !known {
			return fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, sc)
		}
	}
	return nil
}

// usable is Check for the scopes of credentials from responses. It accepts a rule with objects only for
// all of its objects, so that the credential is for each scope of the rule.
func (d *Driver) usable(set scopes.Set) error {
	for _, s := range set.Scopes() {
		if _, resource, known := d.rule(s); known {
			configured, err := scopes.New(d.name, resource, s.Action())
			if whole := d.allObjects(configured); err == nil && whole != s {
				return fmt.Errorf("%w: %s names some objects of %s, and a credential from a response is for all of them: use %[3]s", provider.ErrUnsupported, s, whole)
			}
		}
	}
	return d.Check(set)
}

// rule returns the configured rule of a scope, and the resource that the configuration names. A rule
// that reads objects from bodies has scopes for the segments below that resource.
func (d *Driver) rule(s scopes.Scope) (r Rule, resource string, known bool) {
	if s.Action() == scopes.Any {
		return r, "", false
	}
	at := s.Segments()
	for n := len(at); n > 0; n-- {
		resource = strings.Join(at[:n], "/")
		if r, known = d.cfg.Grants[resource][s.Action()]; known && (n < len(at)) == r.named() {
			return r, resource, true
		}
	}
	return Rule{}, "", false
}

// allObjects returns the scope for all objects of a configured scope's rule; the configured scope
// itself if scopes of the rule name no objects.
func (d *Driver) allObjects(s scopes.Scope) scopes.Scope {
	if !d.cfg.Grants[s.Resource()][s.Action()].named() {
		return s
	}
	below, err := scopes.New(s.Provider(), s.Resource()+"/"+scopes.Rest, s.Action())
	if err != nil {
		return s // its resource has 16 segments: no scope can name an object
	}
	return below
}

// allObjectsOf applies allObjects to each scope of a set.
func (d *Driver) allObjectsOf(set scopes.Set) scopes.Set {
	var all []scopes.Scope
	for _, s := range set.Scopes() {
		all = append(all, d.allObjects(s))
	}
	out, _ := scopes.NewSet(all...) // as many as before
	return out
}

// fit reads the secret and checks that it can be added to requests. The secret is empty when
// none is configured.
func (d *Driver) fit(ctx context.Context) (secret.Secret, error) {
	if d.secret == nil {
		return secret.Secret{}, nil
	}
	s, err := d.secret(ctx)
	if err == nil {
		err = d.cfg.Inject.fits(s)
	}
	if err != nil {
		return secret.Secret{}, err
	}
	return s, nil
}

// Mint returns a placeholder, never the secret, but fails when the secret does not exist.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	if err := d.Check(g.Scopes); err != nil {
		return provider.Credential{}, provider.Inexact(err)
	}
	if g.LeaseID == "" || !g.ExpiresAt.After(g.IssuedAt) {
		return provider.Credential{}, provider.Refused("The grant is incomplete.", errors.New("static: no lease, or no lifetime"))
	}
	_, err := d.fit(ctx)
	ends := g.ExpiresAt
	if err == nil {
		ends, err = d.until(ctx, ends)
	}
	if errors.Is(err, errMissing) || errors.Is(err, errUnfit) || errors.Is(err, clientcert.ErrUnusable) {
		return provider.Credential{}, provider.Refused("The secret of this provider is missing or unusable. Tell the operator of the broker.", err)
	}
	if err != nil {
		return provider.Credential{}, err
	}
	return provider.Credential{Token: provider.Placeholder(g.LeaseID), Type: "N_A", Format: provider.PlaceholderFormat, ExpiresAt: ends, DiesAt: ends}, nil
}

// Revoke does nothing: the sandbox has no secret, and egress adds none for an ended lease.
func (d *Driver) Revoke(context.Context, provider.Target) error { return nil }

// Describe implements provider.Describer. The effect follows from the methods of the
// requests that the secret is added to.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	rule, _, known := d.rule(s)
	switch {
	case !known:
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	case !slices.ContainsFunc(rule.Methods, func(m string) bool { return m != http.MethodGet && m != http.MethodHead && m != http.MethodOptions }):
		return provider.Reading(), nil
	case slices.Contains(rule.Methods, http.MethodDelete):
		return provider.Effect{Writes: provider.Yes, Reversible: provider.No, Sentence: "What is deleted by it does not come back."}, nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.Unknown, Sentence: "ebb does not know whether this can be undone."}, nil
}

// errMissing is wrapped when the secret is not at its configured location.
var errMissing = errors.New("static: the secret does not exist")

// source returns a secret from its location.
type source func(context.Context) (secret.Secret, error)

// from returns the source of a secret; at is the prefix of the configuration keys.
func from(k Kept, at string, s provider.SecretStore, now func() time.Time) (source, error) {
	if k.Vault != nil {
		client, err := vaultapi.New(k.Vault.Config, now)
		if err != nil {
			return nil, fmt.Errorf("%svault: %w", at, err)
		}
		return fromVault(client, *k.Vault), nil
	}
	if s == nil {
		return nil, fmt.Errorf("%ssecret: this process has no secret store; configure a sealing key (sealing)", at)
	}
	return fromSafe(s, k.Secret), nil
}

func fromSafe(s provider.SecretStore, name string) source {
	return func(ctx context.Context) (secret.Secret, error) {
		v, err := s.Get(ctx, name)
		if errors.Is(err, secretstore.ErrNone) {
			return v, fmt.Errorf("%w: ebb secrets put %s < file: %w", errMissing, name, err)
		}
		return v, err
	}
}

func fromVault(c *vaultapi.Client, kv KV) source {
	where := kv.Mount + "/data/" + kv.Path
	return func(ctx context.Context) (secret.Secret, error) {
		var out *api.Secret
		err := c.Do(ctx, func(ctx context.Context, c *api.Client) (err error) {
			out, err = c.Logical().ReadWithContext(ctx, where)
			return err
		})
		switch {
		case vaultapi.Status(err) == http.StatusForbidden:
			return secret.Secret{}, fmt.Errorf("static: Vault does not let ebb read %s: its policy needs the capability read there: %w", where, err)
		case err != nil:
			return secret.Secret{}, fmt.Errorf("static: reading %s at Vault: %w", where, err)
		case out == nil: // 404
			return secret.Secret{}, fmt.Errorf("%w: Vault has no secret at %s", errMissing, where)
		}
		fields, _ := out.Data["data"].(map[string]any) // null when the version was deleted
		text, _ := fields[kv.Field].(string)
		if text == "" {
			return secret.Secret{}, fmt.Errorf("%w: %s in Vault has no text in the field %s, or was deleted", errMissing, where, kv.Field)
		}
		return secret.New(text), nil
	}
}

// CheckSetup implements provider.Checker.
func (d *Driver) CheckSetup(ctx context.Context) (out []provider.Finding) {
	_, err := d.fit(ctx)
	out = unread(err, Kept{d.cfg.Secret, d.cfg.Vault})
	if errors.Is(err, errUnfit) {
		out[0].What = "The secret is shorter than 8 bytes or longer than 8192, so that answers could not be searched for it, or it holds line ends or characters that do not belong where it goes."
	}
	if d.cfg.Inject.Query != "" {
		out = append(out, provider.Finding{What: "The secret goes into the query, which servers tend to log.", Remedy: "Use a header, if the API takes one."})
	}
	if d.pem == nil {
		return out
	}
	c, err := d.certificate(ctx)
	switch {
	case err != nil:
		found := unread(err, *d.cfg.ClientCertificate)
		if errors.Is(err, errMissing) {
			found[0].What = "The client certificate does not exist."
		}
		out = append(out, found...)
	case c.NotAfter().Sub(d.now()) < clientcert.Soon:
		out = append(out, provider.Finding{What: "The client certificate, or one of its chain, expires on " + c.NotAfter().UTC().Format(time.RFC3339) + ", and leases end with it.", Remedy: "Put a new one in its place: it holds for the next request."})
	}
	return out
}

// unread returns the finding for a secret that cannot be read or used, with the operator's next
// step.
func unread(err error, k Kept) []provider.Finding {
	f := provider.Finding{Fatal: true, Remedy: "Look at the broker's access to where the secret is."}
	if err == nil {
		return nil
	}
	if k.Vault == nil {
		f.Remedy = "ebb secrets put " + k.Secret + " < file"
	}
	switch {
	case errors.Is(err, errMissing):
		f.What = "The secret does not exist."
	case errors.Is(err, clientcert.ErrUnusable):
		f.What = strings.ToUpper(err.Error()[:1]) + err.Error()[1:] + "."
	case !errors.Is(err, errUnfit):
		f.What, f.Remedy = "The secret could not be read: "+err.Error()+".", "Look at the broker's access to where the secret is."
	}
	return []provider.Finding{f}
}
