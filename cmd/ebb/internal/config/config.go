package config

import (
	"encoding/json"
	"time"

	"ebb/broker"
	"ebb/broker/provider"
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
	MCPCompat      bool
	Log            Log

	databasePasswordFile string
	databasePassword     provider.Secret
}

// Where policies come from.
const (
	PolicyFiles    = "files"
	PolicyDatabase = "database"
)

// TLS is the server's certificate and its key, both or neither, and the CAs of
// client certificates, or none. ClientCerts is "" or AnyClientCert.
type TLS struct{ Cert, Key, ClientCA, ClientCerts string }

// AnyClientCert asks clients for a certificate and refuses none.
const AnyClientCert = "any"

// Mutual reports whether clients are asked for certificates.
func (t TLS) Mutual() bool { return t.ClientCA != "" || t.ClientCerts != "" }

// Redis is where the ledger lives. No address means: in this process.
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
	password, sentinelPassword         provider.Secret
}

// Attestor is one configured attestor. Config is what its kind says it is; the
// kind decodes it, strictly. The rest is broker.Liveness.
type Attestor struct {
	Name     string
	Kind     string
	OnDeath  string        // complete (default), pause or nothing
	Reattest time.Duration // 0 = never
	OnLapse  string        // nothing (default) or complete
	Header   string        // that evidence comes in; "" = the body
	Config   json.RawMessage
}

// LocalProvider is the one that there is without any in the configuration.
const LocalProvider = "local"

// Provider is one configured provider of credentials.
type Provider struct {
	Name     string
	Kind     string
	Resource string
	MaxTTL   time.Duration
	Parallel int // calls at one time; 0 = the broker's default
	MaxLive  int // 0 = no bound
	Words    provider.Words
	Config   json.RawMessage
}

// Signing says how ebb signs its own tokens.
type Signing struct {
	Alg         string
	RotateEvery time.Duration
	Lead        time.Duration
	Overlap     time.Duration
	KeysDir     string
}

// Sealing says where the key lives that seals revocation handles. Config is what
// its kind says it is; Previous, where the key was before: {kind, config}.
type Sealing struct {
	Kind     string
	Config   json.RawMessage
	Previous json.RawMessage
}

// DPoP is the proof-of-possession mode (RFC 9449): Nonce is "on" or "off".
type DPoP struct{ Nonce string }

// Log says how ebb logs.
type Log struct{ Level, Format string }

// Loopback reports whether only this machine can reach the listener.
func (c Config) Loopback() bool { return loopback(c.Listen) }

// Embedded reports whether the ledger is in this process.
func (c Config) Embedded() bool { return len(c.Redis.Addrs) == 0 }
