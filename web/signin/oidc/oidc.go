package oidc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/signin"
)

// Config holds the settings of New.
type Config struct {
	Base         string // base URL of the console; required
	Key          []byte // 32 bytes that replicas share; required
	Name         string // first part of the ids of people; required
	Issuer       string // required
	ClientID     string // required
	ClientSecret secret.Secret
	Scopes       []string // openid is added

	GroupsClaim  string // default groups
	NameClaim    string // default name
	SubjectClaim string // default sub
	// ACRValues are requested when a person signs in again for a decision; the
	// token must then contain one of them (RFC 9470 section 4). Empty = any.
	ACRValues []string
	// Roles maps groups to roles. A person without a role cannot sign in.
	Roles broker.RoleGroups

	Fetch  fetch.Config     // HTTP settings for requests to the provider
	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = discard
}

// OIDC is the Method. It is safe for concurrent use.
type OIDC struct {
	cfg    Config
	client *http.Client
	source *fetch.Cache[*source]
}

var (
	_ signin.Prover = (*OIDC)(nil)
	_ signin.Knower = (*OIDC)(nil)
)

// New checks the configuration. It contacts the provider at the first sign-in, not before.
func New(c Config) (*OIDC, error) {
	if c.Base == "" || len(c.Key) != 32 || c.Name == "" || c.Issuer == "" || c.ClientID == "" || c.ClientSecret.Empty() || len(c.Roles) == 0 {
		return nil, errors.New("oidc: Base, a Key of 32 bytes, Name, Issuer, ClientID, ClientSecret and Roles are required")
	}
	for _, d := range []struct {
		to  *string
		def string
	}{{&c.GroupsClaim, "groups"}, {&c.NameClaim, "name"}, {&c.SubjectClaim, "sub"}} {
		if *d.to == "" {
			*d.to = d.def
		}
	}
	if !slices.Contains(c.Scopes, "openid") {
		c.Scopes = append([]string{"openid"}, c.Scopes...)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	o := &OIDC{cfg: c}
	var err error
	if o.client, err = fetch.NewClient(c.Issuer, c.Fetch); err != nil {
		return nil, err
	}
	o.source, err = fetch.NewCache(fetch.CacheConfig[*source]{Read: o.read, Name: c.Issuer, Now: c.Now, Logger: c.Logger})
	return o, err
}

// Name implements signin.Method.
func (o *OIDC) Name() string { return "oidc" }

// Label implements signin.Method.
func (o *OIDC) Label() string { return "Sign in with " + o.cfg.Name }

// Strong implements signin.Prover.
func (o *OIDC) Strong(acr string) bool {
	return len(o.cfg.ACRValues) == 0 || slices.Contains(o.cfg.ACRValues, acr)
}

// Know implements signin.Knower.
func (o *OIDC) Know(p broker.Principal) broker.Principal { return o.cfg.Roles.Assign(p) }

// derive computes a value such as state or nonce from the id of one sign-in.
// The values are not stored, and none reveals another.
func (o *OIDC) derive(what, id string) string {
	m := hmac.New(sha256.New, o.cfg.Key)
	m.Write([]byte(what + "\x00" + id))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
