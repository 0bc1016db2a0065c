package all

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/aws"
	"github.com/ebb-broker/ebb/attest/ec2"
	"github.com/ebb-broker/ebb/attest/enroll"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/kubernetes"
	"github.com/ebb-broker/ebb/attest/nitro"
	"github.com/ebb-broker/ebb/attest/oidc"
	"github.com/ebb-broker/ebb/attest/spiffe"
	"github.com/ebb-broker/ebb/attest/tpm"
	"github.com/ebb-broker/ebb/attest/unixpeer"
)

// Env is what kinds share with the rest of the process. A kind returns an error when a
// member that it needs is missing.
type Env struct {
	// Issuer is the iss of ebb's own tokens.
	Issuer string
	// Tickets redeems tickets and Keys verifies ebb's own tokens, both for enroll.
	Tickets enroll.Tickets
	Keys    jose.KeySource
	// Nonces issues nonces, for kinds with challenges.
	Nonces *attest.Nonces
	// MaxTask is the maximum lifetime of a task and so of a task token. Default 24 h.
	MaxTask time.Duration
	// Fetched is called for every request to a key server or similar. Optional.
	Fetched func(fetch.Event)
	// Now defaults to time.Now. Logger defaults to discarding.
	Now    func() time.Time
	Logger *slog.Logger
}

// kind is the name of a kind and its constructor. config is the instance's part of the
// configuration file as JSON, which open decodes strictly.
type kind struct {
	name string
	open func(name string, config json.RawMessage, env Env) (attest.Attestor, error)
}

// kinds returns the table, one line per kind.
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

// Kinds returns the names of the kinds, sorted.
func Kinds() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

// Open returns a new instance, called name, of a kind. An unknown kind and an unknown
// member of config are errors. Open makes no connections.
func Open(name, kindName string, config json.RawMessage, env Env) (attest.Attestor, error) {
	for _, k := range kinds() {
		if k.name == kindName {
			return k.open(name, config, env)
		}
	}
	return nil, fmt.Errorf("attest: %q: there is no kind %q; the kinds are %s", name, kindName, strings.Join(Kinds(), ", "))
}

// replicaSkew is how far the clocks of replicas may differ. With it, a replica accepts
// a task token that another replica with a faster clock has just issued. It does not
// extend credentials: those expire no later than the token's own expiry.
const replicaSkew = 10 * time.Second

func openAWS(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, fmt.Errorf("attest: %q: kind aws needs a config section with accounts and regions", name)
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
		return nil, fmt.Errorf("attest: %q: kind ec2 needs a config section with accounts and certificates", name)
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
		return nil, fmt.Errorf("attest: %q: kind oidc needs a config section with issuer, audience and jwks_url", name)
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
		return nil, fmt.Errorf("attest: %q: kind kubernetes needs a config section with at least audience", name)
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
		return nil, fmt.Errorf("attest: %q: kind nitro needs a config section with type and pcrs", name)
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
		return nil, fmt.Errorf("attest: %q: kind spiffe needs a config section with trust_domains", name)
	}
	c, err := spiffe.Decode(config)
	if err != nil {
		return nil, err
	}
	// Clients make client assertions, and so JWT-SVIDs, for the issuer of ebb.
	c.Audience = cmp.Or(c.Audience, env.Issuer)
	c.Name, c.Fetch.Observe, c.Now, c.Logger = name, env.Fetched, env.Now, env.Logger
	return opened(spiffe.New(c))
}

func openTPM(name string, config json.RawMessage, env Env) (attest.Attestor, error) {
	if len(config) == 0 {
		return nil, fmt.Errorf("attest: %q: kind tpm needs a config section with roots and pcrs", name)
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
		return nil, fmt.Errorf("attest: %q: kind unixpeer needs a config section with require", name)
	}
	c, err := unixpeer.Decode(config)
	if err != nil {
		return nil, err
	}
	c.Name, c.Now = name, env.Now
	return opened(unixpeer.New(c))
}

// opened returns a nil interface on an error. Converting a nil *T directly would give
// an Attestor that is not nil.
func opened[A attest.Attestor](a A, err error) (attest.Attestor, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}
