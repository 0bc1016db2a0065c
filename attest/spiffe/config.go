package spiffe

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
)

// Config configures one attestor.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Audience is the only aud that JWT-SVIDs may have: ebb. Required.
	Audience string `json:"audience"`
	// TrustDomains are the accepted trust domains by name. At least one is required.
	TrustDomains map[string]TrustDomain `json:"trust_domains"`
	// SVIDs are the accepted kinds, "jwt" and "x509". Default both.
	SVIDs []string `json:"svids"`
	// MaxLifetime is the maximum lifetime of a JWT-SVID, default 15 m. MaxX509Lifetime is
	// that of an X.509-SVID, default 24 h.
	MaxLifetime     time.Duration `json:"max_lifetime"`
	MaxX509Lifetime time.Duration `json:"max_x509_lifetime"`
	// Leeway is the accepted difference between clocks, for JWT-SVIDs. Default 0; at most 1
	// m.
	Leeway *time.Duration `json:"leeway"`

	// Fetch configures requests to endpoints: Timeout and Observe. The other settings come
	// from each trust domain.
	Fetch fetch.Config `json:"-"`
	// Now defaults to time.Now. Logger defaults to discarding.
	Now    func() time.Time `json:"-"`
	Logger *slog.Logger     `json:"-"`
}

// TrustDomain has the source of a trust domain's bundle and the accepted IDs. Exactly one of
// BundleFile, HTTPSWeb, HTTPSSPIFFE and WorkloadAPI is required.
type TrustDomain struct {
	// BundleFile is the path of the bundle; it is read again every minute.
	BundleFile string `json:"bundle_file"`
	// HTTPSWeb is the URL of a bundle endpoint that authenticates with a certificate from
	// the system's roots, or from those of CAFile.
	HTTPSWeb string `json:"https_web"`
	CAFile   string `json:"ca_file"`
	// HTTPSSPIFFE is the URL of a bundle endpoint with the SPIFFE ID EndpointID.
	// EndpointBundleFile is the path of the bundle of that ID's trust domain.
	HTTPSSPIFFE        string `json:"https_spiffe"`
	EndpointID         string `json:"endpoint_id"`
	EndpointBundleFile string `json:"endpoint_bundle_file"`
	// WorkloadAPI is the socket of a SPIFFE agent: unix:///run/spire/agent.sock.
	WorkloadAPI string `json:"workload_api"`
	// Private allows endpoints at private addresses.
	Private bool `json:"allow_private_addresses"`
	// Allow lists the accepted paths: exact, or with * for one segment and a final
	// ** for one or more. Required.
	Allow []string `json:"allow"`
}

const maxLeeway = time.Minute

// check fills in the defaults, makes the sources and returns all problems joined.
func (c *Config) check() (map[string]*source, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty")
	}
	if c.Audience == "" {
		bad("audience is empty; set it to the URL of this ebb and have JWT-SVIDs made for it")
	}
	if len(c.SVIDs) == 0 {
		c.SVIDs = []string{svidJWT, svidX509}
	}
	for _, s := range c.SVIDs {
		if s != svidJWT && s != svidX509 {
			bad("svids: %q is neither jwt nor x509", s)
		}
	}
	for _, d := range []struct {
		name string
		at   *time.Duration
		def  time.Duration
	}{{"max_lifetime", &c.MaxLifetime, 15 * time.Minute}, {"max_x509_lifetime", &c.MaxX509Lifetime, 24 * time.Hour}} {
		if *d.at == 0 {
			*d.at = d.def
		}
		if *d.at < 0 {
			bad("%s is negative", d.name)
		}
	}
	if c.Leeway == nil {
		c.Leeway = new(time.Duration)
	}
	if *c.Leeway < 0 || *c.Leeway > maxLeeway {
		bad("leeway is not between 0 and %s; 10s is usual", maxLeeway)
	}
	if len(c.TrustDomains) == 0 {
		bad("trust_domains is empty; name one, with its bundle and the paths to accept")
	}
	sources := map[string]*source{}
	for _, name := range slices.Sorted(maps.Keys(c.TrustDomains)) {
		t := c.TrustDomains[name]
		problems := t.check(name)
		if len(problems) == 0 {
			s, err := newSource(name, t, *c)
			if err != nil {
				problems = append(problems, err)
			}
			sources[name] = s
		}
		for _, err := range problems {
			bad("trust domain %q: %w", name, err)
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("attest/spiffe %q: %w", c.Name, errors.Join(errs...))
	}
	return sources, nil
}

func (t TrustDomain) check(name string) (errs []error) {
	bad := func(text string) { errs = append(errs, errors.New(text)) }
	td, err := spiffeid.TrustDomainFromString(name)
	if err != nil || td.Name() != name || len(name) > maxTrustDomain {
		bad("the name is not that of a trust domain; write it like sandboxes.example, in lower case and without spiffe://")
	}
	places := 0
	for _, place := range []string{t.BundleFile, t.HTTPSWeb, t.HTTPSSPIFFE, t.WorkloadAPI} {
		if place != "" {
			places++
		}
	}
	if places != 1 {
		bad("set exactly one of bundle_file, https_web, https_spiffe and workload_api")
	}
	if (t.HTTPSSPIFFE == "") != (t.EndpointID == "") || (t.HTTPSSPIFFE == "") != (t.EndpointBundleFile == "") {
		bad("https_spiffe, endpoint_id and endpoint_bundle_file (the bundle of that ID's trust domain) must be set together")
	}
	if t.CAFile != "" && t.HTTPSWeb == "" {
		bad("ca_file is only for https_web")
	}
	if t.Private && t.HTTPSWeb == "" && t.HTTPSSPIFFE == "" {
		bad("allow_private_addresses is only for https_web and https_spiffe")
	}
	if len(t.Allow) == 0 {
		bad("allow is empty; name the paths to accept, such as /sandbox/*; /** accepts every workload")
	}
	return errs
}

// Decode decodes the configuration of one instance from the configuration file. The caller
// then sets the members without a JSON name, and Audience when the file has none.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("spiffe", raw) }

// Limits of SPIFFE-ID, sections 2.1 and 2.3, in bytes.
const (
	maxTrustDomain = 255
	maxID          = 2048
)

var errID = errors.New("not the SPIFFE ID of a workload")

// parseID parses the SPIFFE ID of a workload in its only valid form: no upper-case scheme or
// trust domain, no port, user, query, fragment or percent sign, no empty or dot segment. An
// ID without a path identifies a trust domain and not a workload (X509-SVID, section 4.2).
func parseID(s string) (spiffeid.ID, error) {
	if len(s) > maxID {
		return spiffeid.ID{}, errID
	}
	id, err := spiffeid.FromString(s)
	if err != nil {
		return spiffeid.ID{}, fmt.Errorf("%w: %w", errID, err)
	}
	if id.Path() == "" || len(id.TrustDomain().Name()) > maxTrustDomain {
		return spiffeid.ID{}, errID
	}
	return id, nil
}

// pattern matches paths by their segments: "*" matches exactly one segment, a final "**" one
// or more. Any other segment matches only itself.
type pattern []string

const (
	anyOne  = "*"
	anyMore = "**"
)

func parsePattern(s string) (pattern, error) {
	rest, absolute := strings.CutPrefix(s, "/")
	if !absolute || len(s) > maxID {
		return nil, fmt.Errorf("%q is not a path; write it like /ns/agents/sa/* or /sandbox/**", s)
	}
	p := pattern(strings.Split(rest, "/"))
	for i, segment := range p {
		switch {
		case segment == anyOne, segment == anyMore && i == len(p)-1:
		case segment == anyMore:
			return nil, fmt.Errorf("%q: ** is allowed only as the last segment", s)
		default:
			if err := spiffeid.ValidatePathSegment(segment); err != nil {
				return nil, fmt.Errorf("%q: a segment must be *, a final **, or letters, digits and . - _ without a star: %w", s, err)
			}
		}
	}
	return p, nil
}

// matches reports whether p matches the path of a parsed ID, which starts with a slash and
// has no empty segment.
func (p pattern) matches(path string) bool {
	rest := path[1:]
	for i, want := range p {
		if want == anyMore {
			return true
		}
		segment, more, found := strings.Cut(rest, "/")
		if want != anyOne && segment != want {
			return false
		}
		if !found {
			return i == len(p)-1
		}
		rest = more
	}
	return false
}

func allowed(patterns []pattern, id spiffeid.ID) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool { return p.matches(id.Path()) })
}
