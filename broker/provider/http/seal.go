package http

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/scopes"
)

// Seal is one route whose answers make a credential that tools go on to use: a token endpoint. The
// credential stays in ebb, and the tool gets a placeholder.
type Seal struct {
	Method string `json:"method"` // GET, POST or PUT
	Host   string `json:"host"`   // as in Allow
	Path   string `json:"path"`   // exactly: "/oauth/token"
	// Members of the JSON object that the answer is hold such credentials: "access_token".
	Members []string `json:"members"`
	// Use is what they may be used for, as in Allow: "api.example.com/v1/**:read". Of a lease, the part that it is for.
	Use []string `json:"use"`
	// Header is where they are added, behind Prefix; "" = Authorization, and "Bearer " there.
	Header string `json:"header,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// Lifetime, in seconds, of one whose answer has no expires_in; 0 = 3600.
	Lifetime int64 `json:"lifetime,omitempty"`
}

const (
	maxSeals    = 8
	maxMembers  = 4
	maxLifetime = 366 * 24 * 3600
)

var (
	sealMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut}
	headerForm  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)
	prefixForm  = regexp.MustCompile(`^([A-Za-z0-9._-]{1,32} ?)?$`)
)

// route is a Seal as it is compared with requests.
type route struct {
	method, host string
	path         []string
	sealing      provider.Sealing // for all that Use names
}

// routes reads SealResponse for the provider of that name; allow is what it allows at all.
func (c Config) routes(name string, allow scopes.Set, bad func(format string, a ...any)) (all []route) {
	if len(c.SealResponse) > maxSeals {
		bad("seal_response: name at most %d routes", maxSeals)
	}
	for i, s := range c.SealResponse {
		at := fmt.Sprintf("seal_response[%d]", i)
		r := s.route(at, name, bad)
		twice := slices.ContainsFunc(all, func(o route) bool { return r.of(o.method, o.host, o.path) })
		switch {
		case twice:
			bad("%s: the route is named twice", at)
		case !slices.ContainsFunc(allow.Scopes(), func(a scopes.Scope) bool { return covers(a, r.host, r.method, r.path) }):
			bad("%s: allow does not let its requests out", at)
		case !allow.Covers(r.sealing.Scopes):
			bad("%s.use: allow does not let all of these requests out", at)
		}
		all = append(all, r)
	}
	return all
}

func (s Seal) route(at, name string, bad func(format string, a ...any)) route {
	if !slices.Contains(sealMethods, s.Method) {
		bad("%s.method: it must be GET, POST or PUT", at)
	}
	if exact.CheckName(s.Host) != nil {
		bad("%s.host: it must be the full name of one host in lower case", at)
	}
	exact.Rule{Methods: []string{http.MethodPost}, Paths: []string{s.Path}}.Check(at, bad)
	if strings.Contains(s.Path, "*") || strings.HasSuffix(s.Path, "/") {
		bad("%s.path: it must be one path, like /oauth/token", at)
	}
	if len(s.Members) == 0 || len(s.Members) > maxMembers || len(slices.Compact(slices.Sorted(slices.Values(s.Members)))) < len(s.Members) {
		bad("%s.members: name 1 to %d, none twice", at, maxMembers)
	}
	(&provider.Disclosed{Members: s.Members}).Check(at+".members", bad)
	if slices.Contains(s.Members, "expires_in") {
		bad("%s.members: expires_in is no credential", at)
	}
	header, prefix := s.Header, s.Prefix
	if header == "" && prefix == "" {
		header, prefix = "Authorization", "Bearer "
	}
	probe := http.Header{header: {"x"}}
	if !headerForm.MatchString(header) || !prefixForm.MatchString(prefix) || exact.Header(probe) != nil || slices.Contains(framing, exact.Fold(header)) {
		bad("%s: header must be one that holds a credential, and prefix a word and a space, like Authorization and \"Bearer \"", at)
	}
	if s.Lifetime < 0 || s.Lifetime > maxLifetime {
		bad("%s.lifetime: it must be 1 to %d seconds", at, maxLifetime)
	}
	use, err := Config{Allow: s.Use}.set(name)
	if err != nil {
		bad("%s.use: %w", at, err)
	}
	return route{method: s.Method, host: s.Host, path: strings.Split(strings.TrimPrefix(s.Path, "/"), "/"), sealing: provider.Sealing{
		Members: s.Members, Scopes: use, Lifetime: time.Duration(cmp.Or(s.Lifetime, 3600)) * time.Second, Header: http.CanonicalHeaderKey(header), Prefix: prefix,
	}}
}

// framing are headers that say where a request goes, and where it ends.
var framing = []string{"host", "content-length", "content-type", "transfer-encoding", "connection", "trailer", "te", "upgrade", "expect"}

// of reports whether a request is one of the route's.
func (r route) of(method, host string, path []string) bool {
	return r.method == method && r.host == host && slices.Equal(r.path, path)
}

// Seals implements provider.AnswerSealer.
func (d *Driver) Seals(r *http.Request, t provider.Target) *provider.Sealing {
	if len(d.routes) == 0 || !t.Handle.Empty() {
		return nil
	}
	host, path, err := place(r)
	if err != nil {
		return nil
	}
	for _, o := range d.routes {
		if host.Port == d.port && o.of(r.Method, host.Name, path) {
			s := o.sealing
			s.Scopes = s.Scopes.Narrow(t.Scopes)
			return &s
		}
	}
	return nil
}

// Discloses implements provider.Discloser: where a provider seals, nothing that is called so
// leaves in the clear by another spelling of the route, another method or another status.
func (d *Driver) Discloses(*http.Request, provider.Target) *provider.Disclosed { return d.disclosed }

func disclosed(all []route) *provider.Disclosed {
	if len(all) == 0 {
		return nil
	}
	out := provider.CommonlyDisclosed()
	for _, r := range all {
		out.Members = append(out.Members, r.sealing.Members...)
	}
	slices.Sort(out.Members)
	out.Members = slices.Compact(out.Members)
	return out
}

// added is the credential of a lease that an answer has made. What the configuration does not
// make so any more is added to nothing.
func (d *Driver) added(t provider.Target) (provider.Sealed, error) {
	s, err := provider.OpenSealed(t.Handle)
	if err != nil {
		return s, err
	}
	for _, r := range d.routes {
		if r.sealing.Header == s.Header && r.sealing.Prefix == s.Prefix && r.sealing.Scopes.Covers(t.Scopes) {
			return s, nil
		}
	}
	return s, provider.Elsewhere("the configuration seals no such credential any more")
}
