package all

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"ebb/attest"
	"ebb/attest/aws"
	"ebb/attest/ec2"
	"ebb/attest/enroll"
	"ebb/attest/fetch"
	"ebb/attest/jose"
	"ebb/attest/kubernetes"
	"ebb/attest/nitro"
	"ebb/attest/oidc"
	"ebb/attest/spiffe"
	"ebb/attest/tpm"
	"ebb/attest/unixpeer"
)

// Env is what kinds borrow. A kind that needs a member that is missing says so.
type Env struct {
	// Issuer is ebb's own, the iss of its tokens.
	Issuer string
	// Tickets and Keys are the broker's, for enroll.
	Tickets enroll.Tickets
	Keys    jose.KeySource
	// Nonces are the broker's, for kinds with challenges.
	Nonces *attest.Nonces
	// MaxTask is the longest life of a task and so of a task token. Default 24 h.
	MaxTask time.Duration
	// Fetched is told of every request to a key server or the like. nil: nobody.
	Fetched func(fetch.Event)
	// Now: nil = time.Now. Logger: nil = discard.
	Now    func() time.Time
	Logger *slog.Logger
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
		{"aws", openAWS},
		{"ec2", openEC2},
		{"enroll", openEnroll},
		{"kubernetes", openKubernetes},
		{"nitro", openNitro},
		{"oidc", openOIDC},
		{"spiffe", openSPIFFE},
		{"tpm", openTPM},
		{"unixpeer", openUnixPeer},
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

func openAWS(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, errors.New("attest: aws needs a config with accounts and regions")
	}
	c, err := aws.Decode(config)
	if err != nil {
		return nil, err
	}
	c.Name, c.Issuer, c.Nonces, c.Fetch.Observe, c.Now = name, env.Issuer, env.Nonces, env.Fetched, env.Now
	return opened(aws.New(c))
}

func openEC2(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, errors.New("attest: ec2 needs a config with accounts and certificates")
	}
	c, err := ec2.Decode(config)
	if err != nil {
		return nil, err
	}
	c.Name, c.Nonces, c.Now, c.Logger = name, env.Nonces, env.Now, env.Logger
	return opened(ec2.New(c))
}

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
	c.Name, c.Fetch.Observe, c.Now, c.Logger = name, env.Fetched, env.Now, env.Logger
	return opened(oidc.New(c))
}

func openKubernetes(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, errors.New("attest: kubernetes needs a config with at least audience")
	}
	c, err := kubernetes.Decode(config)
	if err != nil {
		return nil, err
	}
	c.Name, c.Fetch.Observe, c.Now, c.Logger = name, env.Fetched, env.Now, env.Logger
	return opened(kubernetes.New(c))
}

func openNitro(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, errors.New("attest: nitro needs a config with type and pcrs")
	}
	c, err := nitro.Decode(config)
	if err != nil {
		return nil, err
	}
	c.Name, c.Nonces, c.Now = name, env.Nonces, env.Now
	return opened(nitro.New(c))
}

func openSPIFFE(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, errors.New("attest: spiffe needs a config with trust_domains")
	}
	c, err := spiffe.Decode(config)
	if err != nil {
		return nil, err
	}
	// ebb's clients make client assertions for its issuer, and so JWT-SVIDs.
	c.Audience = cmp.Or(c.Audience, env.Issuer)
	c.Name, c.Fetch.Observe, c.Now, c.Logger = name, env.Fetched, env.Now, env.Logger
	return opened(spiffe.New(c))
}

func openTPM(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, errors.New("attest: tpm needs a config with roots and pcrs")
	}
	c, err := tpm.Decode(config)
	if err != nil {
		return nil, err
	}
	c.Name, c.Nonces, c.Now, c.Logger = name, env.Nonces, env.Now, env.Logger
	return opened(tpm.New(c))
}

func openUnixPeer(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, errors.New("attest: unixpeer needs a config with require")
	}
	c, err := unixpeer.Decode(config)
	if err != nil {
		return nil, err
	}
	c.Name, c.Now = name, env.Now
	return opened(unixpeer.New(c))
}

// opened keeps a nil pointer from becoming an attestor that is not nil.
func opened[A attest.Attestor](a A, err error) (attest.Attestor, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}
