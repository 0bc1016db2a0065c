package oidc

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

	jsonv2 "github.com/go-json-experiment/json"

	"ebb/attest"
	"ebb/attest/fetch"
	"ebb/attest/jose"
)

// Config configures one issuer.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Issuer is the exact iss. Required.
	Issuer string `json:"issuer"`
	// Audience that tokens must be meant for: ebb. Required.
	Audience string `json:"audience"`
	// JWKS is a key set in place; JWKSFile and JWKSURL say where one is. Exactly
	// one is required. A URL is https, or http on a loopback address.
	JWKS     json.RawMessage `json:"jwks"`
	JWKSFile string          `json:"jwks_file"`
	JWKSURL  string          `json:"jwks_url"`
	// Algs accepted. Default RS256, ES256, EdDSA.
	Algs []jose.Alg `json:"algs"`
	// Types accepted in typ. Default: JWT or none. Types of other documents, such
	// as at+jwt, are refused here.
	Types []string `json:"types"`
	// Required maps claim paths to the texts of which the claim must be one.
	Required map[string][]string `json:"-"`
	// Selectors maps selector names to claim paths. See the package comment.
	Selectors map[string]string `json:"selectors"`
	// Subject is the path of the claim that becomes Identity.Subject. Default sub.
	Subject string `json:"subject"`
	// Present are paths of claims that must be there with any text but the empty one.
	Present []string `json:"-"`
	// OtherAudiences are audiences that a token may name beside Audience, each with the
	// reason: whoever runs one of them can present the token here first. Default none.
	OtherAudiences map[string]string `json:"other_audiences"`
	// Class of the identities. Default attest.ClassSigned; attest.ClassBearer for
	// tokens that whoever was shown one can show again.
	Class attest.Class `json:"-"`
	// MaxLifetime of a token, default 24 h.
	MaxLifetime time.Duration `json:"max_lifetime"`
	// Leeway for clocks. Default 0, with a preset 30 s, which is usual; at most 5 m.
	Leeway *time.Duration `json:"leeway"`

	// Fetch says how JWKSURL may be asked.
	Fetch fetch.Config `json:",embed"`
	// Now is the clock, nil = time.Now. Logger: nil = discard.
	Now    func() time.Time `json:"-"`
	Logger *slog.Logger     `json:"-"`

	shape  shape                     // of the subject, from a preset
	unique [][]string                // selectors that together name one sandbox, from a preset
	shared map[string]*regexp.Regexp // values of them that do not, from a preset
}

// Documents with a type of their own must not pass for workload tokens
// (RFC 8725, section 3.12).
var otherDocuments = []string{"at+jwt", "dpop+jwt", "ebb-task+jwt", "secevent+jwt", "statuslist+jwt",
	"token-introspection+jwt", "logout+jwt", "client-authentication+jwt", "wit+jwt", "wpt+jwt", "txntoken+jwt"}

const maxLeeway = 5 * time.Minute

// check reports all problems at once and fills in the defaults.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty")
	}
	if u, err := url.Parse(c.Issuer); err != nil || u.Scheme == "" || u.Host == "" {
		bad("issuer is not a URL; copy the iss of a token byte for byte")
	}
	if c.Audience == "" {
		bad("audience is empty; set it to the URL of this ebb and have tokens made for it")
	}
	for other, reason := range c.OtherAudiences {
		if other == "" || other == c.Audience || strings.TrimSpace(reason) == "" {
			bad("other_audiences %q: name another audience than ebb's, and as its value the reason why tokens name it too", other)
		}
	}
	if !c.keys().OnePlace() {
		bad("set exactly one of jwks, jwks_file and jwks_url; the URL is the jwks_uri of the issuer's discovery document")
	}
	if len(c.Algs) == 0 {
		c.Algs = []jose.Alg{jose.RS256, jose.ES256, jose.EdDSA}
	}
	for _, a := range c.Algs {
		if !a.Valid() {
			bad("algs: %q is not an algorithm that ebb accepts; RS256, ES256 and EdDSA are usual", a)
		}
	}
	for _, t := range c.Types {
		if slices.Contains(otherDocuments, strings.TrimPrefix(strings.ToLower(t), "application/")) || t == "" {
			bad("types: %q is another kind of document", t)
		}
	}
	if c.Leeway == nil {
		c.Leeway = new(time.Duration)
	}
	if *c.Leeway < 0 || *c.Leeway > maxLeeway {
		bad("leeway is not between 0 and %s; 30s is usual", maxLeeway)
	}
	if c.MaxLifetime < 0 {
		bad("max_lifetime is negative")
	}
	if c.Subject == "" {
		c.Subject = "sub"
	}
	if c.Class == "" {
		c.Class = attest.ClassSigned
	}
	if c.Class != attest.ClassSigned && c.Class != attest.ClassBearer {
		bad("class %q is not what a token can be", c.Class)
	}
	c.checkPaths(bad)
	if len(errs) > 0 {
		return fmt.Errorf("attest/oidc %q: %w", c.Name, errors.Join(errs...))
	}
	return nil
}

// keys says where the issuer's keys are.
func (c *Config) keys() jose.CacheConfig {
	return jose.CacheConfig{Set: c.JWKS, File: c.JWKSFile, URL: c.JWKSURL, Fetch: c.Fetch, Now: c.Now, Logger: c.Logger}
}

func (c *Config) checkPaths(bad func(string, ...any)) {
	if _, err := parsePath(c.Subject); err != nil {
		bad("subject: %w", err)
	}
	for _, path := range c.Present {
		if _, err := parsePath(path); err != nil {
			bad("present: %w", err)
		}
	}
	for path, values := range c.Required {
		if _, err := parsePath(path); err != nil {
			bad("required: %w", err)
		}
		if len(values) == 0 || slices.Contains(values, "") {
			bad("required %q: name the values that are accepted; none is empty", path)
		}
	}
	for name, path := range c.Selectors {
		if name == "" {
			bad("selectors: one has no name")
		}
		if name == "sub" && path != c.Subject {
			bad("selectors: sub is always the subject; set subject instead")
		}
		if _, err := parsePath(path); err != nil {
			bad("selectors %q: %w", name, err)
		}
	}
}

// fileConfig is what the configuration file may say: Config, or a preset with what
// narrows it.
type fileConfig struct {
	Config
	Required map[string]anyOf `json:"required"`

	Preset       string            `json:"preset"`
	Parameters   map[string]string `json:"parameters"`
	Allow        []string          `json:"allow"`
	AcceptBearer bool              `json:"accept_bearer"`
}

// anyOf is one text or a list of them.
type anyOf []string

// UnmarshalJSON accepts both forms.
func (a *anyOf) UnmarshalJSON(b []byte) error {
	var one string
	if jsonv2.Unmarshal(b, &one) == nil {
		*a = anyOf{one}
		return nil
	}
	var many []string
	if jsonv2.Unmarshal(b, &many) != nil {
		return errors.New("it is neither a text nor a list of texts")
	}
	*a = many
	return nil
}

// Decode reads the part of the configuration file that belongs to one instance: the
// members of Config, or preset, with parameters, allow, accept_bearer and what of the
// former may narrow it. The caller sets Name and what is borrowed.
func Decode(raw json.RawMessage) (Config, error) {
	f, err := attest.Decode[fileConfig]("oidc", raw)
	if err != nil {
		return Config{}, err
	}
	c := f.Config
	c.Required = map[string][]string{}
	for path, values := range f.Required {
		c.Required[path] = values
	}
	if f.Preset != "" {
		if err := f.expand(&c); err != nil {
			return Config{}, err
		}
	} else if len(f.Parameters) > 0 || len(f.Allow) > 0 || f.AcceptBearer {
		return Config{}, errors.New("attest/oidc: configuration: parameters, allow and accept_bearer are for presets; name one with preset")
	}
	return c, nil
}
