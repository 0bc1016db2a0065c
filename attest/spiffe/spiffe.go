package spiffe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// The kinds of SVIDs, as named in the configuration and by the selector svid.
const (
	svidJWT  = "jwt"
	svidX509 = "x509"
)

// Attestor judges the SVIDs of the configured trust domains.
type Attestor struct {
	cfg     Config
	profile jose.Profile
	sources map[string]*source // by trust domain
}

var _ attest.ClientAuth = (*Attestor)(nil)

// The methods of draft-ietf-oauth-spiffe-client-auth.
const (
	methodJWT     = "spiffe_jwt"
	methodX509    = "spiffe_x509"
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe"
)

// New returns an Attestor. It makes no connections and reads no bundle, so that ebb starts
// while a trust domain is unavailable.
func New(c Config) (*Attestor, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	sources, err := c.check()
	if err != nil {
		return nil, err
	}
	return &Attestor{cfg: c, sources: sources, profile: jose.Profile{
		Types: []string{"jwt", "jose"}, AllowNoType: true, // JWT-SVID, section 2.3
		Algs: []jose.Alg{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512},
		// The trust domain of sub identifies the issuer; iss is optional.
		AnyIssuer: true,
		// A JWT-SVID is a bearer token, so each other audience could present it to ebb.
		Audience:    c.Audience,
		MaxLifetime: c.MaxLifetime, Leeway: *c.Leeway,
	}}, nil
}

// ClientMethods implements attest.ClientAuth.
func (a *Attestor) ClientMethods() []attest.ClientMethod {
	var out []attest.ClientMethod
	if slices.Contains(a.cfg.SVIDs, svidJWT) {
		out = append(out, attest.ClientMethod{Name: methodJWT, AssertionType: assertionType})
	}
	if slices.Contains(a.cfg.SVIDs, svidX509) {
		out = append(out, attest.ClientMethod{Name: methodX509})
	}
	return out
}

// Attest implements attest.Attestor. A non-empty document is a JWT-SVID. Without a document
// the client certificate is the evidence.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, fmt.Errorf("attest/spiffe %q: %w", a.cfg.Name, err)
	}
	kind, judge := svidJWT, a.jwtSVID
	if len(e.Document) == 0 {
		kind, judge = svidX509, a.x509SVID
	}
	if !slices.Contains(a.cfg.SVIDs, kind) {
		return attest.Identity{}, attest.Reject(attest.ReasonType, map[string]string{
			svidJWT:  "this attestor does not accept JWT-SVIDs; use an X.509-SVID as the client certificate",
			svidX509: "no JWT-SVID was sent, and X.509-SVIDs are not accepted here",
		}[kind], nil)
	}
	id, err := judge(ctx, e)
	if err != nil {
		if err = attest.FromToken(err); errors.Is(err, attest.ErrRejected) {
			return attest.Identity{}, err
		}
		return attest.Identity{}, fmt.Errorf("attest/spiffe %q: cannot judge: %w", a.cfg.Name, err)
	}
	return id, nil
}

// domain returns the source for the trust domain of id.
func (a *Attestor) domain(id spiffeid.ID) (*source, error) {
	s, known := a.sources[id.TrustDomain().Name()]
	if !known {
		return nil, attest.Reject(attest.ReasonIssuer, "the trust domain of the SVID is not configured for this attestor", nil)
	}
	return s, nil
}

// identity returns the Identity for a verified document. replay identifies the document.
func (a *Attestor) identity(ctx context.Context, s *source, id spiffeid.ID, kind, replay string, notAfter time.Time) (attest.Identity, error) {
	if !allowed(s.allow, id) {
		return attest.Identity{}, attest.Reject(attest.ReasonClaims, "the path of the SPIFFE ID is not accepted by this attestor", nil)
	}
	attest.Passed(ctx, "path is accepted", id.Path())
	return attest.Identity{
		Attestor: a.cfg.Name, Subject: id.String(), Class: attest.ClassSigned, NotAfter: notAfter,
		Selectors: map[string]string{
			"sub": id.String(), "spiffe_id": id.String(), "trust_domain": id.TrustDomain().Name(), "path": id.Path(), "svid": kind,
		},
		ReplayID: kind + ":" + replay, ReplayUntil: notAfter,
	}, nil
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	return []string{"spiffe_id", "sub", "trust_domain", "path", "svid"}
}

// checkSocket accepts only unix:///path. The Workload API over TCP is neither encrypted nor
// authenticated: a process that takes over the port could supply its own keys.
func checkSocket(addr string) error {
	u, err := url.Parse(addr)
	if err != nil || u.Scheme != "unix" || u.Host != "" || u.Opaque != "" || len(u.Path) < 2 || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("workload_api is not the path of a socket; write it like unix:///run/spire/agent.sock")
	}
	return workloadapi.ValidateAddress(addr)
}

// workloadReader returns a reader of the bundles that a SPIFFE agent gives to ebb: those of
// the agent's own trust domain and of those it federates with. The agent needs an entry for
// ebb.
func workloadReader(td spiffeid.TrustDomain, addr string) (reader, error) {
	if err := checkSocket(addr); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (_ *bundle, _ time.Duration, err error) {
		client, err := workloadapi.New(ctx, workloadapi.WithAddr(addr))
		if err != nil {
			return nil, 0, err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		certs, err := client.FetchX509Bundles(ctx)
		if err != nil {
			return nil, 0, err
		}
		keys, err := client.FetchJWTBundles(ctx)
		if err != nil {
			return nil, 0, err
		}
		// An agent that does not know the trust domain must not be taken for one that has
		// revoked its keys.
		x, err := certs.GetX509BundleForTrustDomain(td)
		if err != nil {
			return nil, 0, err
		}
		j, err := keys.GetJWTBundleForTrustDomain(td)
		if err != nil {
			return nil, 0, err
		}
		jwt, err := jwtKeys(j.JWTAuthorities())
		if err != nil {
			return nil, 0, err
		}
		b, err := newBundle(td, jwt, x.X509Authorities())
		return b, defaultRefresh, err
	}, nil
}
