package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// Config configures one issuer.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Issuer is compared with iss byte for byte. Required.
	Issuer string `json:"issuer"`
	// Audience is the aud that tokens must have, usually the URL of ebb. Required.
	Audience string `json:"audience"`
	// JWKS is a key set; JWKSFile and JWKSURL are the path and the address of one.
	// Exactly one of the three is required. A URL is https, or http on loopback.
	JWKS     json.RawMessage `json:"jwks"`
	JWKSFile string          `json:"jwks_file"`
	JWKSURL  string          `json:"jwks_url"`
	// Algs are the accepted signature algorithms. Default RS256, ES256, EdDSA.
	Algs []jose.Alg `json:"algs"`
	// Types are the accepted values of typ. By default typ is JWT or absent. Types of
	// other kinds of tokens, such as at+jwt, are a configuration error.
	Types []string `json:"types"`
	// Required maps claim paths to the accepted values of the claim.
	Required map[string][]string `json:"-"`
	// Selectors maps selector names to claim paths. See the package comment.
	Selectors map[string]string `json:"selectors"`
	// Subject is the path of the claim that becomes Identity.Subject. Default sub.
	Subject string `json:"subject"`
	// Present are the paths of claims that must have a value other than "".
	Present []string `json:"-"`
	// OtherAudiences maps audiences that a token may name beside Audience to the reason
	// for accepting them. The operator of each such service receives the token too and
	// could present it to ebb first. Default none.
	OtherAudiences map[string]string `json:"other_audiences"`
	// Class is the class of the identities. Default attest.ClassSigned. It is
	// attest.ClassBearer for tokens that are sent to several services, each of which
	// could present the token again.
	Class attest.Class `json:"-"`
	// MaxLifetime is the maximum time from iat to exp. Default 24 h.
	MaxLifetime time.Duration `json:"max_lifetime"`
	// Leeway is the accepted difference between clocks, at most 5 m. Default 0, or 30 s
	// with a preset.
	Leeway *time.Duration `json:"leeway"`

	// Fetch configures requests to JWKSURL.
	Fetch fetch.Config `json:",embed"`
	// Now defaults to time.Now. Logger defaults to discarding.
	Now    func() time.Time `json:"-"`
	Logger *slog.Logger     `json:"-"`

	// The members below come from a preset.
	shape  shape                         // pattern of the subject
	unique [][]string                    // sets of selectors that together identify one sandbox
	shared map[string]*lazyregexp.Regexp // values of these selectors that several sandboxes share
}

// otherTypes are typ values of tokens for other purposes. Accepting them would allow
// cross-JWT confusion (RFC 8725 section 3.12).
var otherTypes = []string{"at+jwt", "dpop+jwt", "ebb-task+jwt", "secevent+jwt", "statuslist+jwt",
	"token-introspection+jwt", "logout+jwt", "client-authentication+jwt", "wit+jwt", "wpt+jwt", "txntoken+jwt"}

const maxLeeway = 5 * time.Minute

// check fills in the defaults and returns all problems joined.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty; give the instance a name")
	}
	if u, err := url.Parse(c.Issuer); err != nil || u.Scheme == "" || u.Host == "" || u.User != nil {
		bad("issuer is not a URL, or one with user information; copy the iss of a token byte for byte") // not shown, because it may contain a password
	}
	if c.Audience == "" {
		bad("audience is empty; set it to the URL of this ebb and have tokens made for it")
	}
	for other, reason := range c.OtherAudiences {
		if other == "" || other == c.Audience || strings.TrimSpace(reason) == "" {
			bad("other_audiences %q: the key must be an audience other than ebb's, and its value the reason why tokens have it too", other)
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
			bad("algs: ebb does not accept algorithm %q; RS256, ES256 and EdDSA are usual", a)
		}
	}
	for _, t := range c.Types {
		if slices.Contains(otherTypes, strings.TrimPrefix(strings.ToLower(t), "application/")) || t == "" {
			bad("types: %q is not a type of workload tokens; leave types out to accept JWT", t)
		}
	}
	if c.Leeway == nil {
		c.Leeway = new(time.Duration)
	}
	if *c.Leeway < 0 || *c.Leeway > maxLeeway {
		bad("leeway is %s, not between 0 and %s; 30s is usual", *c.Leeway, maxLeeway)
	}
	if c.MaxLifetime < 0 {
		bad("max_lifetime is negative: %s; the default is 24h", c.MaxLifetime)
	}
	if c.Subject == "" {
		c.Subject = "sub"
	}
	if c.Class == "" {
		c.Class = attest.ClassSigned
	}
	if c.Class != attest.ClassSigned && c.Class != attest.ClassBearer {
		bad("class %q is not a class of tokens; use %s or %s", c.Class, attest.ClassSigned, attest.ClassBearer)
	}
	c.checkPaths(bad)
	if len(errs) > 0 {
		return fmt.Errorf("attest/oidc %q: %w", c.Name, errors.Join(errs...))
	}
	return nil
}

// keys returns the configuration of the issuer's key cache.
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
			bad("required %q: list the accepted values; an empty value is not allowed", path)
		}
	}
	for name, path := range c.Selectors {
		if name == "" {
			bad("selectors: the one for claim %q has no name; name it", path)
		}
		if name == "sub" && path != c.Subject {
			bad("selectors: sub is always the subject; set subject to the path %q instead", path)
		}
		if _, err := parsePath(path); err != nil {
			bad("selectors %q: %w", name, err)
		}
	}
}

// fileConfig is the form of the configuration file: Config, or a preset with the
// members that narrow it.
type fileConfig struct {
	Config
	Required map[string]anyOf `json:"required"`

	Preset       string            `json:"preset"`
	Parameters   map[string]string `json:"parameters"`
	Allow        []string          `json:"allow"`
	AcceptBearer bool              `json:"accept_bearer"`
}

// anyOf is a list of strings that a single string may stand for.
type anyOf []string

// UnmarshalJSON implements json.Unmarshaler. It accepts a string or an array of strings.
func (a *anyOf) UnmarshalJSON(b []byte) error {
	var one string
	if jsonv2.Unmarshal(b, &one) == nil {
		*a = anyOf{one}
		return nil
	}
	var many []string
	if jsonv2.Unmarshal(b, &many) != nil {
		return errors.New("it is neither a string nor a list of strings")
	}
	*a = many
	return nil
}

// Decode decodes the configuration of one instance from the configuration file. It has
// the members of Config; or preset with parameters, allow, accept_bearer and those
// members of Config that may narrow the preset. The caller then sets the members
// without a JSON name: Name, Now, Logger.
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
		return Config{}, errors.New("attest/oidc: configuration: parameters, allow and accept_bearer are for presets; name a preset in preset, or remove them")
	}
	return c, nil
}

// CheckRegistration implements attest.Registrar for presets. The registration must
// contain one of the preset's sets of selectors that identify one sandbox. A selector
// whose claim the configuration restricts to one value counts as registered. Without a
// preset every registration passes, because ebb does not know the issuer's claims.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	if len(a.cfg.unique) == 0 {
		return nil
	}
	var sets []string
	for _, set := range a.cfg.unique {
		if !slices.ContainsFunc(set, func(name string) bool { return !a.distinguishes(name, selectors[name]) }) {
			return nil
		}
		sets = append(sets, strings.Join(set, " with "))
	}
	if len(a.cfg.shared) > 0 {
		return errors.New("register " + strings.Join(sets, ", or ") + ", with a value that several sandboxes do not share")
	}
	return errors.New("register " + strings.Join(sets, ", or "))
}

// distinguishes reports whether a selector has exactly one value, from the registration
// or because the configuration accepts only one, that several sandboxes do not share.
func (a *Attestor) distinguishes(selector, value string) bool {
	path := a.cfg.Selectors[selector]
	if selector == "sub" {
		path = a.cfg.Subject
	}
	if fixed := a.cfg.Required[path]; value == "" && len(fixed) == 1 {
		value = fixed[0]
	}
	of := a.cfg.shared[selector]
	return value != "" && (of == nil || !of.MatchString(value))
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	names := append([]string{"sub"}, slices.Sorted(maps.Keys(a.cfg.Selectors))...)
	if a.cfg.shape != "" {
		for segment := range strings.SplitSeq(string(a.cfg.shape), "/") {
			if name, named := strings.CutPrefix(segment, "<"); named {
				names = append(names, strings.TrimSuffix(name, ">"))
			}
		}
	}
	return slices.Compact(names)
}
