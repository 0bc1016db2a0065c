package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"ebb/attest"
	"ebb/attest/fetch"
	"ebb/attest/jose"
)

// The modes.
const (
	ModeReview = "tokenreview" // the API server judges the token, and the pod is read
	ModeJWKS   = "jwks"        // the signature alone; a deletion is not seen
)

// Config configures one cluster.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Mode is ModeReview, the default, or ModeJWKS.
	Mode string `json:"mode"`
	// Audience that tokens must be made for, and for no other: ebb. Required; not
	// one of the API server's own.
	Audience string `json:"audience"`
	// Issuer is the exact iss. Required in ModeJWKS; elsewhere "" leaves it to the
	// API server, which accepts its own alone.
	Issuer string `json:"issuer"`
	// Namespaces whose pods may ask. None: every namespace.
	Namespaces []string `json:"namespaces"`
	// AllowUnbound accepts tokens that are bound to no pod. They outlive whatever
	// asked for them, and the sandbox cannot be watched.
	AllowUnbound bool `json:"allow_unbound"`
	// MaxLifetime of a token, exp - iat. Default 1 h, which is what a projected
	// token has by default.
	MaxLifetime time.Duration `json:"max_lifetime"`
	// Leeway for clocks. Default 0; at most 5 m.
	Leeway *time.Duration `json:"leeway"`
	// CAFile holds the roots of Server or JWKSURL in PEM, read at start; "": those
	// of the system.
	CAFile string `json:"ca_file"`

	// Server is the API server's URL. "" with TokenFile and CAFile also "": as a pod
	// finds it. TokenFile holds ebb's own login and is read for each call.
	Server    string `json:"server"`
	TokenFile string `json:"token_file"`
	// Owner that a pod must have; nil: any or none.
	Owner *Owner `json:"owner"`
	// UntilRemoved takes a pod that is being deleted for alive until it is gone.
	UntilRemoved bool `json:"until_removed"`
	// Poll is the longest time between two looks at a pod while it cannot be watched.
	// Default 5 s.
	Poll time.Duration `json:"poll"`

	// JWKS, JWKSFile or JWKSURL is where the cluster's keys are: exactly one in
	// ModeJWKS.
	JWKS     json.RawMessage `json:"jwks"`
	JWKSFile string          `json:"jwks_file"`
	JWKSURL  string          `json:"jwks_url"`
	// Algs accepted. Default RS256, ES256.
	Algs []jose.Alg `json:"algs"`

	// Fetch says how Server or JWKSURL may be asked.
	Fetch fetch.Config `json:",embed"`
	// Getenv is where a pod finds its API server, nil = os.Getenv.
	Getenv func(string) string `json:"-"`
	// Now is the clock, nil = time.Now. Logger: nil = discard.
	Now    func() time.Time `json:"-"`
	Logger *slog.Logger     `json:"-"`
}

// Owner is the kind of object that controls a pod: agents.x-k8s.io, Sandbox. The
// version is left out, since an upgrade of the CRD changes it for the same object.
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
	kindForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,62}$`)
	// DNS label and subdomain of RFC 1123, as the API server checks names.
	labelForm     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	subdomainForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

// Decode reads the part of the configuration file that belongs to one instance. The
// caller sets Name and what is borrowed.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("kubernetes", raw) }

// check reports all problems at once and fills in the defaults.
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
		bad("name is empty")
	}
	if c.MaxLifetime < 0 {
		bad("max_lifetime is negative")
	}
	if c.Leeway == nil {
		c.Leeway = new(time.Duration)
	}
	if *c.Leeway < 0 || *c.Leeway > maxLeeway {
		bad("leeway is not between 0 and %s; 30s is usual", maxLeeway)
	}
	for _, a := range c.Algs {
		if !a.Valid() {
			bad("algs: %q is not an algorithm that ebb accepts; RS256 and ES256 are usual", a)
		}
	}
	for _, ns := range c.Namespaces {
		if !labelForm.MatchString(ns) {
			bad("namespaces: %q is not the name of a namespace", ns)
		}
	}
	switch c.Mode {
	case ModeReview:
		c.checkReview(bad)
	case ModeJWKS:
		c.checkJWKS(bad)
	default:
		bad("mode: %q is neither %s nor %s", c.Mode, ModeReview, ModeJWKS)
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
		bad("audience is not a short plain text")
	case c.Audience == c.Issuer || c.Audience == c.Server || apiServerAudience(c.Audience):
		bad("audience %q is the API server's own: whoever sees such a token could act as the pod there; use the URL of this ebb", c.Audience)
	}
}

// apiServerAudience knows what clusters call their API server when nobody says
// otherwise (--api-audiences is --service-account-issuer by default).
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
		bad("jwks, jwks_file, jwks_url and allow_private_addresses belong to mode %s; here the API server judges", ModeJWKS)
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
		bad("poll is not between %s and %s", minPoll, maxPoll)
	}
}

func (c *Config) checkJWKS(bad func(string, ...any)) {
	if c.Server != "" || c.TokenFile != "" || c.Owner != nil || c.UntilRemoved {
		bad("server, token_file, owner and until_removed belong to mode %s; a signature says nothing of these", ModeReview)
	}
	if u, err := url.Parse(c.Issuer); err != nil || u.Scheme == "" || u.Host == "" {
		bad("issuer is not a URL; copy it from kubectl get --raw /.well-known/openid-configuration")
	}
	if !c.keys().OnePlace() {
		bad("set exactly one of jwks, jwks_file and jwks_url; kubectl get --raw /openid/v1/jwks shows the keys")
	}
}

// keys says where the cluster's keys are.
func (c *Config) keys() jose.CacheConfig {
	return jose.CacheConfig{Set: c.JWKS, File: c.JWKSFile, URL: c.JWKSURL, Fetch: c.Fetch, Now: c.Now, Logger: c.Logger}
}
