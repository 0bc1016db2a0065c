package all

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/options"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/aws"
	"github.com/ebb-broker/ebb/broker/provider/gcp"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/http"
	"github.com/ebb-broker/ebb/broker/provider/jwt"
	"github.com/ebb-broker/ebb/broker/provider/kubernetes"
	"github.com/ebb-broker/ebb/broker/provider/oauth"
	"github.com/ebb-broker/ebb/broker/provider/postgres"
	"github.com/ebb-broker/ebb/broker/provider/ssh"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/provider/vault"
)

// Env has what ebb provides to every kind. Now and Logger may be nil.
type Env struct {
	Name    string // name of the provider, which is the first part of its scopes
	Issuer  string
	Keys    jwt.Keys
	Secrets provider.SecretStore // the operator's secrets; nil for none
	Now     func() time.Time
	Logger  *slog.Logger
	// Dir is the directory for keys that this provider makes and that replicas share. It
	// need not exist. With "" no keys are made, because the configuration is only being
	// checked.
	Dir string
	// Ended lists the ended credentials of this provider; nil when Dir is "".
	Ended ssh.Ended
}

// kinds maps the name of each kind to its constructor.
var kinds = map[string]func(Env, json.RawMessage) (provider.Driver, error){
	"aws": kind(func(e Env, c aws.Config) (provider.Driver, error) {
		c.Name, c.Now, c.Logger = e.Name, e.Now, e.Logger
		return aws.New(c)
	}),
	"github": kind(func(e Env, c github.Config) (provider.Driver, error) {
		c.Now, c.Logger = e.Now, e.Logger
		return github.New(c)
	}),
	"http": kind(func(e Env, c http.Config) (provider.Driver, error) { return http.New(e.Name, c) }),
	"jwt": kind(func(e Env, _ struct{}) (provider.Driver, error) {
		return jwt.New(jwt.Config{Issuer: e.Issuer, Keys: e.Keys})
	}),
	"gcp":        kind(func(e Env, c gcp.Config) (provider.Driver, error) { return gcp.New(e.Name, c, e.Now) }),
	"kubernetes": kind(func(e Env, c kubernetes.Config) (provider.Driver, error) { return kubernetes.New(e.Name, c, e.Now) }),
	"oauth":      kind(func(e Env, c oauth.Config) (provider.Driver, error) { return oauth.New(e.Name, c, e.Secrets, e.Now) }),
	"vault":      kind(func(e Env, c vault.Config) (provider.Driver, error) { return vault.New(e.Name, c, e.Now) }),
	"postgres":   kind(func(e Env, c postgres.Config) (provider.Driver, error) { return postgres.New(c, e.Logger) }),
	"static":     kind(func(e Env, c static.Config) (provider.Driver, error) { return static.Open(e.Name, c, e.Secrets, e.Now) }),
	"ssh": kind(func(e Env, o ssh.Options) (provider.Driver, error) {
		return ssh.New(ssh.Config{Name: e.Name, Options: o, Dir: e.Dir, Ended: e.Ended, Now: e.Now, Logger: e.Logger})
	}),
}

// kind decodes the options of a kind strictly and makes its driver.
func kind[C any](make func(Env, C) (provider.Driver, error)) func(Env, json.RawMessage) (provider.Driver, error) {
	return func(e Env, config json.RawMessage) (provider.Driver, error) {
		var c C
		if len(config) > 0 {
			if err := options.Decode(config, &c); err != nil {
				return nil, err
			}
		}
		return make(e, c)
	}
}

// Kinds returns the names of the kinds, sorted.
func Kinds() []string {
	var out []string
	for k := range kinds {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// New returns a driver of a kind. config is the kind's part of the configuration.
func New(kind string, e Env, config json.RawMessage) (provider.Driver, error) {
	make, known := kinds[kind]
	if !known {
		return nil, fmt.Errorf("unknown provider kind %q: known are %s", kind, strings.Join(Kinds(), ", "))
	}
	if e.Now == nil {
		e.Now = time.Now
	}
	if e.Logger == nil {
		e.Logger = slog.New(slog.DiscardHandler)
	}
	return make(e, config)
}
