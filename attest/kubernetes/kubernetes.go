package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// gate has the steps of both modes before and after a token is verified.
type gate struct {
	cfg     Config
	profile jose.Profile
}

// New returns the attestor of the configured mode; that of ModeReview is an
// attest.Watcher. It reads files but makes no connections, so that ebb starts while a
// cluster is down.
func New(c Config) (attest.Attestor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	g := gate{cfg: c, profile: jose.Profile{
		// Service account tokens have no typ.
		Types: []string{"jwt"}, AllowNoType: true, Algs: c.Algs, Issuer: c.Issuer, AnyIssuer: c.Issuer == "",
		Audience: c.Audience, MaxLifetime: c.MaxLifetime, Leeway: *c.Leeway,
	}}
	open := newReviewed
	if c.Mode == ModeJWKS {
		open = newSigned
	}
	a, err := open(g)
	if err != nil {
		return nil, fmt.Errorf("attest/kubernetes %q: %w", c.Name, err)
	}
	return a, nil
}

// identity returns the Identity for a verified token.
func (g *gate) identity(t token) attest.Identity {
	id := attest.Identity{
		Attestor: g.cfg.Name, Subject: t.subject(), Class: attest.ClassSigned, NotAfter: t.expiry,
		ReplayID: "jwt:" + t.digest, ReplayUntil: t.expiry.Add(*g.cfg.Leeway),
		Selectors: map[string]string{"namespace": t.namespace, "service_account": t.account.Name, "service_account_uid": t.account.UID},
	}
	if t.pod.Name != "" {
		id.Selectors["pod"], id.Selectors["pod_uid"] = t.pod.Name, t.pod.UID
	}
	if t.node.Name != "" {
		id.Selectors["node"] = t.node.Name
	}
	return id
}

// tell reports the claims of a token to the trace in ctx.
func (g *gate) tell(ctx context.Context, t token) {
	attest.Passed(ctx, "audience", g.cfg.Audience)
	attest.Passed(ctx, "expiry", t.expiry.UTC().Format(time.RFC3339))
	attest.Passed(ctx, "bound to", t.subject())
}

// failure adds the name of the instance to an error that is not a rejection.
func (g *gate) failure(err error) error {
	if err = attest.FromToken(err); errors.Is(err, attest.ErrRejected) {
		return err
	}
	return fmt.Errorf("attest/kubernetes %q: cannot judge: %w", g.cfg.Name, err)
}

// The modes.
const (
	ModeReview = "tokenreview" // the API server verifies the token, and ebb reads the pod
	ModeJWKS   = "jwks"        // ebb verifies the signature only; a deleted pod is not detected
)

// Config configures one cluster.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Mode is ModeReview, the default, or ModeJWKS.
	Mode string `json:"mode"`
	// Audience is the aud that tokens must have, with no other: the URL of ebb.
	// Required. It must not be an audience of the API server.
	Audience string `json:"audience"`
	// Issuer is compared with iss byte for byte. Required in ModeJWKS. Optional in
	// ModeReview, where the API server accepts only its own issuer.
	Issuer string `json:"issuer"`
	// Namespaces are the namespaces whose pods are accepted. Empty means all.
	Namespaces []string `json:"namespaces"`
	// AllowUnbound accepts tokens that are not bound to a pod. Such a token stays valid
	// after its sandbox has exited, and the sandbox cannot be watched.
	AllowUnbound bool `json:"allow_unbound"`
	// MaxLifetime is the maximum of exp - iat. Default 1 h, the default of a projected
	// token.
	MaxLifetime time.Duration `json:"max_lifetime"`
	// Leeway is the accepted difference between clocks. Default 0; at most 5 m.
	Leeway *time.Duration `json:"leeway"`
	// CAFile is a PEM file with the root certificates for Server or JWKSURL, read at
	// start. "" means those of the system.
	CAFile string `json:"ca_file"`

	// Server is the URL of the API server. When Server, TokenFile and CAFile are all
	// "", the values that a pod has are used. TokenFile is the file with ebb's own
	// token for the API server; it is read for each request.
	Server    string `json:"server"`
	TokenFile string `json:"token_file"`
	// Owner is the kind of controller that a pod must have; nil accepts any or none.
	Owner *Owner `json:"owner"`
	// UntilRemoved treats a pod that is being deleted as alive until it has been
	// removed.
	UntilRemoved bool `json:"until_removed"`
	// Poll is the maximum time between two reads of a pod that cannot be watched.
	// Default 5 s.
	Poll time.Duration `json:"poll"`

	// JWKS is the cluster's key set; JWKSFile and JWKSURL are the path and the address
	// of one. ModeJWKS requires exactly one.
	JWKS     json.RawMessage `json:"jwks"`
	JWKSFile string          `json:"jwks_file"`
	JWKSURL  string          `json:"jwks_url"`
	// Algs are the accepted signature algorithms. Default RS256, ES256.
	Algs []jose.Alg `json:"algs"`

	// Fetch configures requests to Server or JWKSURL.
	Fetch fetch.Config `json:",embed"`
	// Getenv returns the environment in which a pod finds its API server. Default
	// os.Getenv.
	Getenv func(string) string `json:"-"`
	// Now defaults to time.Now. Logger defaults to discarding.
	Now    func() time.Time `json:"-"`
	Logger *slog.Logger     `json:"-"`
}

// Owner is the kind of object that controls a pod, such as Sandbox of agents.x-k8s.io.
// It has no version, because an upgrade of the CRD changes the version of the same
// object.
type Owner struct {
	Group string `json:"group"` // "" = core
	Kind  string `json:"kind"`
}

const (
	maxLeeway       = 5 * time.Minute
	defaultLifetime = time.Hour
	defaultPoll     = 5 * time.Second
	minPoll         = time.Second
	maxPoll         = 5 * time.Minute
)

var (
	kindForm = lazyregexp.New(`^[A-Za-z][A-Za-z0-9]{0,62}$`)
	// labelForm is a DNS label of RFC 1123, as the API server checks names.
	labelForm     = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	subdomainForm = lazyregexp.New(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

// Decode decodes the configuration of one instance from the configuration file. The
// caller then sets the members without a JSON name.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("kubernetes", raw) }

// check fills in the defaults and returns all problems joined.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Mode == "" {
		c.Mode = ModeReview
	}
	if c.MaxLifetime == 0 {
		c.MaxLifetime = defaultLifetime
	}
	if c.Poll == 0 {
		c.Poll = defaultPoll
	}
	if len(c.Algs) == 0 {
		c.Algs = []jose.Alg{jose.RS256, jose.ES256}
	}
	if c.Name == "" {
		bad("name is empty; give the instance a name")
	}
	if c.MaxLifetime < 0 {
		bad("max_lifetime is negative; the default is 1h")
	}
	if c.Leeway == nil {
		c.Leeway = new(time.Duration)
	}
	if *c.Leeway < 0 || *c.Leeway > maxLeeway {
		bad("leeway is %s, not between 0 and %s; 30s is usual", *c.Leeway, maxLeeway)
	}
	for _, a := range c.Algs {
		if !a.Valid() {
			bad("algs: ebb does not accept algorithm %q; RS256 and ES256 are usual", a)
		}
	}
	for _, ns := range c.Namespaces {
		if !labelForm.MatchString(ns) {
			bad("namespaces: %q is not a valid name of a namespace; list names as kubectl get namespaces shows them", ns)
		}
	}
	switch c.Mode {
	case ModeReview:
		c.checkReview(bad)
	case ModeJWKS:
		c.checkJWKS(bad)
	default:
		bad("mode: %q is unknown; use %s or %s", c.Mode, ModeReview, ModeJWKS)
	}
	c.checkAudience(bad)
	if len(errs) > 0 {
		return fmt.Errorf("attest/kubernetes %q: %w", c.Name, errors.Join(errs...))
	}
	return nil
}

func (c *Config) checkAudience(bad func(string, ...any)) {
	switch {
	case c.Audience == "":
		bad("audience is empty; set it to the URL of this ebb, and audience of the projected token to the same")
	case len(c.Audience) > 2048 || !jose.Plain(c.Audience):
		bad("audience is too long or has control characters; use the URL of this ebb")
	case c.Audience == c.Issuer || c.Audience == c.Server || apiServerAudience(c.Audience):
		bad("audience %q is the API server's own, and a token for it would give access to the API server as the pod; use the URL of this ebb", c.Audience)
	}
}

// apiServerAudience reports whether aud is a default audience of API servers. The
// default of --api-audiences is --service-account-issuer.
func apiServerAudience(aud string) bool {
	host := strings.ToLower(aud)
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		host = u.Hostname()
	}
	host = strings.TrimSuffix(strings.TrimSuffix(host, "/"), ".")
	return slices.Contains([]string{"api", "k3s", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}, host) ||
		strings.HasPrefix(host, "kubernetes.default.svc.")
}

func (c *Config) checkReview(bad func(string, ...any)) {
	if len(c.JWKS) > 0 || c.JWKSFile != "" || c.JWKSURL != "" || c.Fetch.Private {
		bad("jwks, jwks_file, jwks_url and allow_private_addresses belong to mode %s; in this mode the API server verifies the token, so leave them out", ModeJWKS)
	}
	c.inCluster(bad)
	if c.TokenFile != "" {
		if _, err := readLogin(c.TokenFile); err != nil {
			bad("token_file: %w", err)
		}
	}
	if c.Owner != nil && (!kindForm.MatchString(c.Owner.Kind) || c.Owner.Group != "" && !subdomainForm.MatchString(c.Owner.Group)) {
		bad("owner: write it like {group: agents.x-k8s.io, kind: Sandbox}")
	}
	if c.Poll < minPoll || c.Poll > maxPoll {
		bad("poll is %s, not between %s and %s; the default is 5s", c.Poll, minPoll, maxPoll)
	}
}

func (c *Config) checkJWKS(bad func(string, ...any)) {
	if c.Server != "" || c.TokenFile != "" || c.Owner != nil || c.UntilRemoved {
		bad("server, token_file, owner and until_removed belong to mode %s, because ebb does not read the pod in this mode; leave them out", ModeReview)
	}
	if u, err := url.Parse(c.Issuer); err != nil || u.Scheme == "" || u.Host == "" || u.User != nil {
		bad("issuer is not a URL, or one with user information; copy it from kubectl get --raw /.well-known/openid-configuration") // not shown, because it may contain a password
	}
	if !c.keys().OnePlace() {
		bad("set exactly one of jwks, jwks_file and jwks_url; kubectl get --raw /openid/v1/jwks shows the keys")
	}
}

// keys returns the configuration of the cluster's key cache.
func (c *Config) keys() jose.CacheConfig {
	return jose.CacheConfig{Set: c.JWKS, File: c.JWKSFile, URL: c.JWKSURL, Fetch: c.Fetch, Now: c.Now, Logger: c.Logger}
}
