package verify

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/scopes"
)

// Config configures a Verifier. Issuer, Resource, RequireScopes, and either
// Feed or ClientID and Key are required.
type Config struct {
	// Issuer is ebb's public base URL, byte-identical to the iss of its tokens.
	Issuer string
	// IssuerURL is the address to connect to when it differs from Issuer.
	IssuerURL string
	// Resource is this server's own resource URI: the only aud it accepts.
	Resource string
	// PublicURL is this server's base URL for clients; proofs must contain it.
	// "" = scheme and host of Resource. The Host header is never used.
	PublicURL string
	// RequireScopes returns the scopes that a request needs. An error gives a
	// 500. The empty Set denies, unless AnyScope.
	RequireScopes func(*http.Request) (scopes.Set, error)
	// Scopes are published to clients: as scopes_supported in the metadata, and
	// as scope in the challenge of every 401 (RFC 9728 section 2, RFC 6750
	// section 3). Empty = not published.
	Scopes scopes.Set
	// AnyScope accepts every valid token of this resource, regardless of its scope.
	AnyScope bool

	// ClientID and Key authenticate this server at the feed (private_key_jwt of
	// a principal with the role resource_server). KID is needed only when that
	// principal has several keys.
	ClientID string
	Key      jose.Signer
	KID      string
	// Feed replaces the feed over HTTP.
	Feed Feed
	// MaxStaleness is the longest time for which a revoked token can still
	// pass, 3 s or more. 0 = 10 s.
	MaxStaleness time.Duration
	// MaxRevoked limits the revoked tasks and leases in memory. 0 = 200,000.
	MaxRevoked int

	// Algs are the accepted algorithms of access tokens. nil = ES256 and EdDSA.
	Algs []jose.Alg
	// JWKSEvery is the interval of fetching the keys. 0 = 5 min.
	JWKSEvery time.Duration
	// CacheSize is the number of verified tokens in the cache; negative = no
	// cache, 0 = 4096.
	CacheSize int

	// DPoPAlgs and DPoPWindow (each way around iat): see dpop.Options.
	DPoPAlgs   []jose.Alg
	DPoPWindow time.Duration
	// Nonces, if set, are required in every proof (RFC 9449 section 9).
	Nonces *dpop.Nonces
	// Replay stores used proofs. nil = in memory of this process: several
	// replicas behind one URL must share one.
	Replay Replay
	// ClientCert returns the client certificate in DER, nil for none. nil = the
	// certificate of the TLS connection. Behind a proxy it must return only a
	// certificate that the proxy authenticated (RFC 9440).
	ClientCert func(*http.Request) []byte

	HTTP *http.Client     // used but not modified; nil = a new client
	Now  func() time.Time // nil = time.Now
	Log  *slog.Logger     // nil = discard
}

// Verifier checks requests. It is safe for concurrent use.
type Verifier struct {
	cfg      Config
	profile  jose.Profile
	metadata string // URL of the protected resource metadata
	keys     *keySource
	cache    *cache
	revoked  *revoked
	clock    *clock.Clock
}

// leeway is the accepted difference between ebb's clock and this server's.
const leeway = 5 * time.Second

// maxToken is the largest access token in bytes; ebb's are well under 2 KiB.
const maxToken = 8 << 10

// New checks the configuration and reports all errors at once. It makes no
// requests. Until Run has read the feed, every request is answered with 503.
func New(c Config) (*Verifier, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.fill()
	if c.Feed == nil {
		c.Feed = &httpFeed{issuer: c.Issuer, resource: c.Resource, base: c.IssuerURL, id: c.ClientID, kid: c.KID, key: c.Key, http: c.HTTP, now: c.Now}
	}
	v := &Verifier{
		cfg: c,
		profile: jose.Profile{
			Types: []string{"at+jwt"}, Algs: c.Algs, Issuer: c.Issuer, Audience: c.Resource,
			Leeway: leeway, Limits: jose.Limits{Size: maxToken},
		},
		keys:    newKeySource(c.IssuerURL+"/.well-known/jwks.json", c.HTTP),
		cache:   newCache(c.CacheSize),
		revoked: newRevoked(c.MaxRevoked),
		clock:   clock.New(c.Now, nil),
	}
	v.metadata = origin(c.Resource) + v.MetadataPath()
	return v, nil
}

func (c *Config) check() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("verify: "+what))
		}
	}
	base := func(name, raw string) {
		if _, err := scopes.ParseResource(raw); err != nil || strings.ContainsRune(raw, '?') {
			errs = append(errs, fmt.Errorf("verify: %s must be an https URL without query (http only on loopback)", name))
		}
	}
	base("Issuer", c.Issuer)
	if _, err := scopes.ParseResource(c.Resource); err != nil {
		errs = append(errs, fmt.Errorf("verify: Resource: %w", err))
	}
	if c.IssuerURL != "" {
		base("IssuerURL", c.IssuerURL)
	}
	if c.PublicURL != "" {
		base("PublicURL", c.PublicURL)
	}
	need(c.RequireScopes != nil || c.AnyScope, "RequireScopes is required, unless AnyScope is set")
	need(c.RequireScopes == nil || !c.AnyScope, "RequireScopes and AnyScope exclude each other")
	need(c.Feed != nil || c.ClientID != "" && c.Key != nil, "the revocation feed needs ClientID and Key")
	need(c.MaxStaleness == 0 || c.MaxStaleness >= 3*time.Second, "MaxStaleness must be at least 3s")
	need(c.MaxRevoked >= 0 && c.JWKSEvery >= 0 && c.DPoPWindow >= 0, "limits must not be negative")
	for _, a := range append(append([]jose.Alg{}, c.Algs...), c.DPoPAlgs...) {
		need(a.Valid(), fmt.Sprintf("the algorithm %q is not supported", a))
	}
	return errors.Join(errs...)
}

func (c *Config) fill() {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.IssuerURL == "" {
		c.IssuerURL = c.Issuer
	}
	c.IssuerURL = strings.TrimRight(c.IssuerURL, "/")
	if c.PublicURL == "" {
		c.PublicURL = origin(c.Resource)
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	if c.MaxStaleness == 0 {
		c.MaxStaleness = 10 * time.Second
	}
	if c.MaxRevoked == 0 {
		c.MaxRevoked = 200_000
	}
	if len(c.Algs) == 0 {
		c.Algs = []jose.Alg{jose.ES256, jose.EdDSA}
	}
	if len(c.DPoPAlgs) == 0 {
		c.DPoPAlgs = dpop.DefaultAlgs()
	}
	if c.JWKSEvery == 0 {
		c.JWKSEvery = 5 * time.Minute
	}
	if c.CacheSize == 0 {
		c.CacheSize = 4096
	}
	if c.Replay == nil {
		c.Replay = NewReplay(0, c.Now)
	}
	if c.ClientCert == nil {
		c.ClientCert = peerCertificate
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	hc := &http.Client{}
	if c.HTTP != nil {
		*hc = *c.HTTP
	}
	// Keys and revocations must come from ebb, never from the target of a
	// redirect.
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.HTTP = hc
}

// origin returns scheme and authority of a URL that ParseResource accepted.
func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
