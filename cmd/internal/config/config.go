package config

import (
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Config is the whole configuration after Load: defaults applied, every value
// checked, paths made absolute.
type Config struct {
	PublicURL      string
	Listen         string
	ListenUnix     string
	ListenUnixMode string // octal
	TLS            TLS
	DataDir        string
	Database       string
	Redis          Redis
	PolicyDir      string
	PolicySource   string // PolicyFiles or PolicyDatabase
	Attestors      []Attestor
	Providers      []Provider
	Principals     []Principal
	Signing        Signing
	Sealing        Sealing
	Instance       string
	Limits         broker.Limits
	DPoP           DPoP
	Console        Console
	Notify         Notify
	Egress         Egress
	TrustedProxies []string
	Log            Log
	ServiceLinks   []string // variables that Kubernetes set for Services, which ebb ignored

	databasePasswordFile string
	databasePassword     secret.Secret
}

// Sources of policies.
const (
	PolicyFiles    = "files"
	PolicyDatabase = "database"
)

// TLS is the server's certificate and key, both or neither, and optionally the
// CAs of client certificates. ClientCerts is "" or AnyClientCert.
type TLS struct{ Cert, Key, ClientCA, ClientCerts string }

// AnyClientCert requests client certificates and accepts every one.
const AnyClientCert = "any"

// Mutual reports whether client certificates are requested.
func (t TLS) Mutual() bool { return t.ClientCA != "" || t.ClientCerts != "" }

// Redis is the Redis that keeps live state. Without an address live state is
// kept in this process.
type Redis struct {
	Addrs            []string
	MasterName       string
	Cluster          bool
	Username         string
	SentinelUsername string
	Prefix           string
	TLS              bool
	CAFile           string
	WaitReplicas     int

	passwordFile, sentinelPasswordFile string
	password, sentinelPassword         secret.Secret
}

// Attestor is one configured attestor. Config is in the format of its kind,
// which decodes it strictly. The other fields are broker.Liveness.
type Attestor struct {
	Name                string
	Kind                string
	OnSandboxExit       string        // complete (default), pause or nothing
	Reattest            time.Duration // 0 = never
	OnMissedAttestation string        // nothing (default) or complete
	Header              string        // header with the evidence; "" = evidence is in the body
	Config              json.RawMessage
}

// LocalProvider is the name of the default provider if none is configured.
const LocalProvider = "local"

// Provider is one configured provider of credentials.
type Provider struct {
	Name     string
	Kind     string
	Resource string
	MaxTTL   time.Duration
	Parallel int // maximum number of calls at one time; 0 = the broker's default
	MaxLive  int // 0 = no bound
	Words    provider.Words
	Config   json.RawMessage
}

// Signing configures the signing of ebb's own tokens.
type Signing struct {
	Alg         string
	RotateEvery time.Duration
	Lead        time.Duration
	Overlap     time.Duration
	KeysDir     string
}

// Sealing configures the key that seals revocation handles. Config is in the
// format of its kind. Previous is the configuration of an earlier key: {kind,
// config}.
type Sealing struct {
	Kind     string
	Config   json.RawMessage
	Previous json.RawMessage
}

// DPoP is the proof-of-possession mode (RFC 9449): Nonce is "on" or "off".
type DPoP struct{ Nonce string }

// Log configures logging.
type Log struct{ Level, Format string }

// Loopback reports whether the listener accepts connections from this machine
// only.
func (c Config) Loopback() bool { return loopback(c.Listen) }

// Embedded reports whether live state is kept in this process.
func (c Config) Embedded() bool { return len(c.Redis.Addrs) == 0 }

// Places returns the paths that only ebb may read or write: its data, keys and
// passwords, and the files that decide its behavior. All are absolute.
func (c Config) Places() []string {
	var all []string
	for _, path := range []string{
		c.DataDir, c.Signing.KeysDir, c.PolicyDir, c.ListenUnix, c.TLS.Cert, c.TLS.Key, c.TLS.ClientCA, c.Egress.Dir, c.Egress.CAFile,
		c.databasePasswordFile, c.Redis.passwordFile, c.Redis.sentinelPasswordFile, c.Redis.CAFile, c.Console.OIDC.clientSecretFile,
	} {
		if path == "" {
			continue
		}
		if whole, err := filepath.Abs(path); err == nil { // Abs fails only without a working directory
			all = append(all, whole)
		}
	}
	return all
}
