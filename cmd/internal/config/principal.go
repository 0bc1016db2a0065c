package config

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes"
)

// Principal is an operator, runner, approver, auditor or resource server.
type Principal struct {
	ID        string
	Roles     []broker.Role
	Groups    []string
	Scopes    scopes.Set // an approver may decide requests covered by these; empty = no limit
	Audiences []string
	Keys      []jose.Key
	Attestor  string            // attestor of match, whose ID tokens identify this principal
	Selectors map[string]string // selectors of match
}

// roles are the roles that a principal can have.
var roles = []string{string(broker.RoleRunner), string(broker.RoleApprover), string(broker.RoleAuditor), string(broker.RoleOperator), string(broker.RoleResourceServer), string(broker.RoleViewer)}

var (
	nameForm      = lazyregexp.New(`\A[a-z][a-z0-9-]{0,31}\z`)
	principalForm = lazyregexp.New(`\A[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}\z`)
	instanceForm  = lazyregexp.New(`\A[0-9a-f]{8}\z`)
)

func (c *Config) readAttestors(r *reader) listOf {
	return func(path string, n ast.Node) {
		c.Attestors = nil
		r.each(path, n, func(at string, item ast.Node) {
			var a Attestor
			r.mapping(at, item, []field{{"name", &a.Name}, {"kind", &a.Kind}, {"on_sandbox_exit", &a.OnSandboxExit}, {"reattest", &a.Reattest}, {"on_missed_attestation", &a.OnMissedAttestation},
				{"evidence_header", &a.Header}, {"config", &a.Config}})
			c.Attestors = append(c.Attestors, a)
		})
	}
}

func (c *Config) readProviders(r *reader) listOf {
	return func(path string, n ast.Node) {
		c.Providers = nil
		r.each(path, n, func(at string, item ast.Node) {
			var p Provider
			r.mapping(at, item, []field{{"name", &p.Name}, {"kind", &p.Kind}, {"resource", &p.Resource}, {"max_ttl", &p.MaxTTL},
				{"parallel", &p.Parallel}, {"max_live", &p.MaxLive},
				{"reversible", &p.Words.Reversible}, {"irreversible", &p.Words.Irreversible}, {"config", &p.Config}})
			c.Providers = append(c.Providers, p)
		})
	}
}

func (c *Config) readPrincipals(r *reader) listOf {
	return func(path string, n ast.Node) {
		c.Principals = nil
		r.each(path, n, func(at string, item ast.Node) {
			var p Principal
			var named, patterns []string
			r.mapping(at, item, []field{
				{"id", &p.ID}, {"roles", &named}, {"groups", &p.Groups}, {"scopes", &patterns}, {"audiences", &p.Audiences},
				{"keys", func(path string, n ast.Node) {
					r.each(path, n, func(at string, item ast.Node) { p.readKey(r, at, item) })
				}},
				{"match", func(path string, n ast.Node) {
					r.mapping(path, n, []field{{"attestor", &p.Attestor}, {"selectors", &p.Selectors}})
				}},
			})
			for _, role := range named {
				if !slices.Contains(roles, role) {
					r.problems.add(at+".roles", r.where(item), fmt.Sprintf("there is no role %q", role), near(role, roles))
				}
				p.Roles = append(p.Roles, broker.Role(role))
			}
			if r.src[at+".scopes"] != "" {
				p.Scopes = r.patterns(at+".scopes", r.where(item), patterns)
			}
			c.Principals = append(c.Principals, p)
		})
	}
}

// each calls do for every element of a list of mappings.
func (r *reader) each(path string, n ast.Node, do func(at string, item ast.Node)) {
	for i, item := range r.items(path, n) {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.src[at] = r.where(item)
		do(at, item)
	}
}

// readKey reads one public key: a JWK written out, or {key_file: path}.
func (p *Principal) readKey(r *reader, at string, n ast.Node) {
	text, err := subtree(n)
	if err == nil {
		var file struct {
			Path string `json:"key_file"`
		}
		if err = json.Unmarshal(text, &file); err == nil && file.Path != "" {
			text, err = readBounded(file.Path, 64<<10)
		}
	}
	var key jose.Key
	if err == nil {
		key, err = PublicKey(text)
	}
	if err != nil {
		r.problems.add(at, r.where(n), reason(err), "paste the public JWK that `ebb keys new` prints, or name its file with key_file")
		return
	}
	p.Keys = append(p.Keys, key)
}

// PublicKey parses a public key as a JWK or as PEM ("PUBLIC KEY", RFC 7468). A
// key without a kid gets its RFC 7638 thumbprint, which ebb's clients send. A
// private key is refused: the server must not have it.
func PublicKey(text []byte) (jose.Key, error) {
	key, err := readPublic(text)
	if err == nil && key.KID == "" {
		key.KID, err = key.Thumbprint()
	}
	return key, err
}

func readPublic(text []byte) (jose.Key, error) {
	if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		return jose.ParseJWK(text)
	}
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return jose.Key{}, errors.New("it is neither a JWK nor PEM")
	case strings.Contains(block.Type, "PRIVATE"):
		return jose.Key{}, errors.New("it is a private key; the server needs only the public half")
	case block.Type != "PUBLIC KEY":
		return jose.Key{}, errors.New("the PEM block is not a PUBLIC KEY")
	}
	pub, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return jose.Key{}, errors.New("the PEM block does not contain a valid public key")
	}
	return jose.NewKey("", pub)
}
