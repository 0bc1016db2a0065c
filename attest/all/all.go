package all

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"ebb/attest"
	"ebb/attest/enroll"
	"ebb/attest/jose"
	"ebb/attest/oidc"
)

// Env is what kinds borrow. A kind that needs a member that is missing says so.
type Env struct {
	// Issuer is ebb's own, the iss of its tokens.
	Issuer string
	// Tickets and Keys are the broker's, for enroll.
	Tickets enroll.Tickets
	Keys    jose.KeySource
	// MaxTask is the longest life of a task and so of a task token. Default 24 h.
	MaxTask time.Duration
	// HTTPClient is borrowed for its transport, nil: one of their own. Now: nil =
	// time.Now. Logger: nil = discard.
	HTTPClient *http.Client
	Now        func() time.Time
	Logger     *slog.Logger
}

// kind opens one instance. config is the instance's part of the configuration
// file as JSON, to be decoded strictly.
type kind struct {
	name string
	open func(name string, config json.RawMessage, env Env) (attest.Attestor, error)
}

// kinds is the table, one line per kind.
func kinds() []kind {
	return []kind{
		{"enroll", openEnroll},
		{"oidc", openOIDC},
	}
}

// Kinds lists the names of the kinds, sorted.
func Kinds() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

// Open makes the instance name of a kind. An unknown kind, and anything in config
// that the kind does not know, is an error. Nothing is connected to.
func Open(name, kindName string, config json.RawMessage, env Env) (attest.Attestor, error) {
	for _, k := range kinds() {
		if k.name == kindName {
			return k.open(name, config, env)
		}
	}
	return nil, fmt.Errorf("attest: %q: there is no kind %q; the kinds are %s", name, kindName, strings.Join(Kinds(), ", "))
}

// replicaSkew is how far the clocks of replicas may differ: a task token that
// another one has just issued is not from the future. Nothing is gained at its
// other end: what is issued on it ends with the token's own expiry.
const replicaSkew = 10 * time.Second

func openEnroll(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	c, err := enroll.Decode(config)
	if err != nil {
		return nil, err
	}
	c.Name, c.Issuer, c.Tickets, c.Keys, c.MaxLifetime, c.Now = name, env.Issuer, env.Tickets, env.Keys, env.MaxTask, env.Now
	c.Leeway = replicaSkew
	return opened(enroll.New(c))
}

func openOIDC(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, errors.New("attest: oidc needs a config with issuer, audience and jwks_url")
	}
	c, err := oidc.Decode(config)
	if err != nil {
		return nil, err
	}
	c.Name, c.HTTPClient, c.Now, c.Logger = name, env.HTTPClient, env.Now, env.Logger
	return opened(oidc.New(c))
}

// opened keeps a nil pointer from becoming an attestor that is not nil.
func opened[A attest.Attestor](a A, err error) (attest.Attestor, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}
