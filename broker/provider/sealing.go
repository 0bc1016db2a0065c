package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// AnswerSealer is an Injector for which some responses contain a credential that the sandbox
// goes on to use, such as the token of a token endpoint. The credential stays in ebb, under
// a lease of its own that belongs to the lease of the request, and the sandbox gets a
// placeholder. Inject adds the credential to requests when the Target's Handle is from
// Sealing.Handle. Traits.Seals is set for such drivers.
type AnswerSealer interface {
	// Seals returns the parts of the response to seal, or nil. Inject has accepted the request.
	// Responses to requests with a sealed credential are not sealed.
	Seals(*http.Request, Target) *Sealing
}

// Sealing selects the credentials in one response and describes the leases for them.
type Sealing struct {
	Members  []string      // members of the response's JSON object: strings, each of which may be missing
	Scopes   scopes.Set    // the scopes of the credential, covered by those of the Target; empty means that it may not be made
	Lifetime time.Duration // lifetime without expires_in in the response (RFC 6749 section 5.1)
	Header   string        // the header that the credential is added in
	Prefix   string        // prefix of the header's value, such as "Bearer "
}

// sealed is a credential from a response, and how it is added to requests.
type sealed struct {
	Header, Prefix string
	Value          secret.Secret
}

// sealedForm is the encoding of a sealed in a handle.
type sealedForm struct {
	Header string `json:"header"`
	Prefix string `json:"prefix"`
	Value  string `json:"value"`
}

// Handle returns the handle of a value in the response, for Inject.
func (s Sealing) Handle(value secret.Secret) secret.Secret {
	text, err := json.Marshal(sealedForm{s.Header, s.Prefix, value.Reveal()})
	if err != nil { // strings alone: it cannot be
		return secret.Secret{}
	}
	return secret.New(string(text))
}

// openSealed decodes a handle from Sealing.Handle.
func openSealed(handle secret.Secret) (sealed, error) {
	var f sealedForm
	if json.Unmarshal([]byte(handle.Reveal()), &f) != nil || f.Header == "" || f.Value == "" {
		return sealed{}, errors.New("provider: the handle does not contain a credential from a response") // without the parser's error, which may quote the credential
	}
	return sealed{f.Header, f.Prefix, secret.New(f.Value)}, nil
}

// addTo adds the credential to a request.
func (s sealed) addTo(r *http.Request) { SetHeader(r, s.Header, s.Prefix+s.Value.Reveal()) }

// Discloser is an Injector whose responses may hold credentials that ebb did not add: new tokens,
// and URLs that grant access to their holder. In the sandbox such a credential would outlive its
// task, and the audit log would not name it.
type Discloser interface {
	// Discloses returns the secrets that the response to a request may hold, or nil. Inject has
	// accepted the request. The result must not be changed.
	Discloses(*http.Request, Target) *Disclosed
}

// Disclosed holds the names of secret members in responses. Egress replaces their values.
type Disclosed struct {
	// Members are those of JSON objects at any depth, elements of XML, and parameters.
	Members []string `json:"members,omitempty"`
	// Parameters are those of URLs and forms alone.
	Parameters []string `json:"parameters,omitempty"`
}

const maxDisclosed = 32

// Check calls bad for each problem; at is the key in the configuration.
func (d *Disclosed) Check(at string, bad func(format string, a ...any)) {
	if d == nil {
		return
	}
	if len(d.Members)+len(d.Parameters) > maxDisclosed {
		bad("%s: name at most %d members and parameters", at, maxDisclosed)
	}
	for _, name := range append(d.Members[:len(d.Members):len(d.Members)], d.Parameters...) {
		if name == "" || len(name) > 64 || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
			bad("%s: %q is not the name of a member or parameter: 1 to 64 letters, digits and . _ -", at, name)
		}
	}
}

// Empty reports whether there are no secret members.
func (d *Disclosed) Empty() bool { return d == nil || len(d.Members)+len(d.Parameters) == 0 }

// CommonlyDisclosed returns the secret members for APIs without a configuration of their own:
// OAuth tokens (RFC 6749 section 5.1, OpenID Connect), AWS sessions, and signed URLs of S3, Google
// Cloud Storage and Azure.
func CommonlyDisclosed() *Disclosed {
	return &Disclosed{
		Members: []string{
			"access_token", "refresh_token", "id_token", "client_secret", "accessToken", "refreshToken", "idToken", "clientSecret",
			"SecretAccessKey", "SessionToken", "secretAccessKey", "sessionToken",
		},
		Parameters: []string{"X-Amz-Signature", "X-Amz-Security-Token", "X-Goog-Signature", "sig"},
	}
}

// SealRoute is one configured route whose responses make a credential that tools go on to
// use, such as a token endpoint. The credential stays in ebb, and the tool gets a
// placeholder.
type SealRoute struct {
	Method string `json:"method"` // GET, POST or PUT
	Host   string `json:"host"`   // "login.example.com", or with a port
	Path   string `json:"path"`   // exactly: "/oauth/token"
	// Members are the members of the response's JSON object that contain such credentials:
	// "access_token".
	Members []string `json:"members"`
	// Use lists the scopes that the credentials may be used for, without the name of the provider.
	// Of these, a credential has those that its lease has.
	Use []string `json:"use"`
	// Header is the header for the credentials, with Prefix before the value; "" means
	// Authorization with "Bearer ".
	Header string `json:"header,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// Lifetime is the lifetime in seconds without expires_in in the response; 0 means 3600.
	Lifetime int64 `json:"lifetime,omitempty"`
}

const (
	maxSealRoutes  = 8
	maxSealMembers = 4
	maxSealUse     = 64
	maxLifetime    = 366 * 24 * 3600
)

var sealMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut}

// SealKind has the facts about a provider that ReadSealRoutes needs.
type SealKind struct {
	Name  string                 // name of the provider
	Port  uint16                 // port of hosts without one
	Check func(scopes.Set) error // see Driver
	// Sends returns an error when the configuration allows no request of a route. uses
	// reports whether a route makes credentials for a scope.
	Sends func(host stricturl.Host, method string, path []string, uses func(scopes.Scope) bool) error
}

// SealRoutes are the routes of a provider in the form in which they are compared with
// requests. The zero value has none.
type SealRoutes struct{ all []sealRoute }

type sealRoute struct {
	host    stricturl.Host
	method  string
	path    []string
	sealing Sealing // for all scopes of Use
}

// ReadSealRoutes compiles the routes and calls bad for each problem; at is their key in the
// configuration.
func ReadSealRoutes(at string, named []SealRoute, k SealKind, bad func(format string, a ...any)) (r SealRoutes) {
	if len(named) > maxSealRoutes {
		bad("%s: name at most %d routes", at, maxSealRoutes)
	}
	for i, s := range named {
		one := s.read(fmt.Sprintf("%s[%d]", at, i), k, bad)
		if r.of(one.host, one.method, one.path) != nil {
			bad("%s[%d]: the route is named twice", at, i)
		}
		r.all = append(r.all, one)
	}
	for i, one := range r.all {
		if err := k.Sends(one.host, one.method, one.path, r.Uses); err != nil {
			bad("%s[%d]: %w", at, i, err)
		}
	}
	return r
}

// read compiles one configured route.
func (s SealRoute) read(at string, k SealKind, bad func(format string, a ...any)) sealRoute {
	if !slices.Contains(sealMethods, s.Method) {
		bad("%s.method: it must be GET, POST or PUT", at)
	}
	host, err := stricturl.ParseHost(s.Host, k.Port)
	if err != nil || !stricturl.CheckHost(s.Host) {
		bad("%s.host: %q is not the full name of one host in lower case", at, s.Host)
	}
	stricturl.Rule{Methods: []string{http.MethodPost}, Paths: []string{s.Path}}.Check(at, bad)
	if strings.Contains(s.Path, "*") || strings.HasSuffix(s.Path, "/") {
		bad("%s.path: it must be one path, like /oauth/token", at)
	}
	if len(s.Members) == 0 || len(s.Members) > maxSealMembers || len(slices.Compact(slices.Sorted(slices.Values(s.Members)))) < len(s.Members) {
		bad("%s.members: name 1 to %d, none twice", at, maxSealMembers)
	}
	(&Disclosed{Members: s.Members}).Check(at+".members", bad)
	if slices.Contains(s.Members, "expires_in") {
		bad("%s.members: expires_in is no credential", at)
	}
	header, prefix := s.Header, s.Prefix
	if header == "" && prefix == "" {
		header, prefix = "Authorization", "Bearer "
	}
	if err := CheckHeader(header, prefix); err != nil {
		bad("%s: %w", at, err)
	}
	if s.Lifetime < 0 || s.Lifetime > maxLifetime {
		bad("%s.lifetime: it must be 1 to %d seconds", at, maxLifetime)
	}
	use, err := s.scopes(k)
	if err != nil {
		bad("%s.use: %w", at, err)
	}
	return sealRoute{host: host, method: s.Method, path: strings.Split(strings.TrimPrefix(s.Path, "/"), "/"), sealing: Sealing{
		Members: s.Members, Scopes: use, Lifetime: time.Duration(cmp.Or(s.Lifetime, 3600)) * time.Second, Header: http.CanonicalHeaderKey(header), Prefix: prefix,
	}}
}

// scopes returns the scopes of Use, all of which the provider accepts.
func (s SealRoute) scopes(k SealKind) (scopes.Set, error) {
	if len(s.Use) == 0 || len(s.Use) > maxSealUse {
		return scopes.Set{}, fmt.Errorf("name 1 to %d scopes, without the provider's name", maxSealUse)
	}
	var all []scopes.Scope
	for _, text := range s.Use {
		one, err := scopes.Parse(k.Name + ":" + text)
		if err != nil {
			return scopes.Set{}, fmt.Errorf("%q is not a scope without the provider's name: %w", text, err)
		}
		all = append(all, one)
	}
	set, err := scopes.NewSet(all...)
	if err == nil {
		err = k.Check(set)
	}
	return set, err
}

// of returns the route of a request, nil for none.
func (r SealRoutes) of(host stricturl.Host, method string, path []string) *sealRoute {
	i := slices.IndexFunc(r.all, func(o sealRoute) bool { return o.host == host && o.method == method && slices.Equal(o.path, path) })
	if i < 0 {
		return nil
	}
	return &r.all[i]
}

// Empty reports whether there are no routes.
func (r SealRoutes) Empty() bool { return len(r.all) == 0 }

// Uses reports whether a route makes credentials for a scope.
func (r SealRoutes) Uses(s scopes.Scope) bool {
	return slices.ContainsFunc(r.all, func(o sealRoute) bool { return o.sealing.Scopes.CoversScope(s) })
}

// Promise returns t for a provider with these routes: credentials from responses end at the
// upstream by expiry only.
func (r SealRoutes) Promise(t Traits) Traits {
	if !r.Empty() {
		t.Seals, t.Revocability = true, Revocability{Class: ClassTTLOnly}
	}
	return t
}

// Seals implements AnswerSealer for a request with this host, method and path.
func (r SealRoutes) Seals(host stricturl.Host, method string, path []string, t Target) *Sealing {
	o := r.of(host, method, path)
	if o == nil || !t.Handle.Empty() {
		return nil
	}
	s := o.sealing
	s.Scopes = s.Scopes.Narrow(t.Scopes)
	return &s
}

// Disclosed returns d with the members of all routes. So no response of a provider with
// routes shows such a member, also when it comes from another spelling of the route, another
// method or another status.
func (r SealRoutes) Disclosed(d *Disclosed) *Disclosed {
	if r.Empty() {
		return d
	}
	out := &Disclosed{}
	if d != nil {
		out.Members, out.Parameters = slices.Clone(d.Members), d.Parameters
	}
	for _, o := range r.all {
		out.Members = append(out.Members, o.sealing.Members...)
	}
	slices.Sort(out.Members)
	out.Members = slices.Compact(out.Members)
	return out
}

// Add adds a sealed credential to a request; t is its lease. The error wraps ErrElsewhere if the
// configuration no longer has a route for it.
func (r SealRoutes) Add(to *http.Request, t Target) error {
	s, err := openSealed(t.Handle)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(r.all, func(o sealRoute) bool {
		return o.sealing.Header == s.Header && o.sealing.Prefix == s.Prefix && o.sealing.Scopes.Covers(t.Scopes)
	}) {
		return Elsewhere("the configuration seals no such credential any more")
	}
	s.addTo(to)
	return nil
}
