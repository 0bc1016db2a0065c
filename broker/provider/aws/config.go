package aws

import (
	"crypto/x509"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// Config is the provider's part of the configuration.
type Config struct {
	Name   string           `json:"-"` // name of the provider, which is the first part of its scopes
	Now    func() time.Time `json:"-"` // nil means time.Now
	Logger *slog.Logger     `json:"-"` // nil discards

	// Flavor is the implementation: aws (default), rgw or minio.
	Flavor string `json:"flavor,omitempty"`
	// Region of the STS endpoint; required.
	Region string `json:"region"`
	// Endpoint replaces AWS's own for STS and IAM; https, or http on loopback.
	// Required for rgw and minio.
	Endpoint string `json:"endpoint,omitempty"`
	// CAFile is a PEM file of the trusted authorities for it; "" means the system's.
	CAFile string `json:"ca_file,omitempty"`
	// AccessKeyFile and SecretKeyFile are the files with ebb's own key. When both are "",
	// the sources of AWS's SDKs are used: environment, profile, web identity, container,
	// instance.
	AccessKeyFile string `json:"access_key_file,omitempty"`
	SecretKeyFile string `json:"secret_key_file,omitempty"`
	// Timeout is the timeout of one attempt; a call has up to three. "" means 5s.
	Timeout string `json:"timeout,omitempty"`

	// Roles are the roles for scopes; the first one that covers all scopes of a request is
	// used.
	Roles []Role `json:"roles"`
	// Areas are parts of buckets with rules of their own.
	Areas []Area `json:"areas,omitempty"`
	// Statements are actions of other services.
	Statements []Statement `json:"statements,omitempty"`

	// ExternalID is sent with every AssumeRole (2 to 1,224 characters).
	ExternalID string `json:"external_id,omitempty"`
	// SourceIdentity sets the STS source identity to the session's name and revokes by it, which
	// also denies sessions that were chained from this one. nil means true for aws and false for
	// other flavors, which do not enforce it.
	SourceIdentity *bool `json:"source_identity,omitempty"`
	// SessionTags sends ebb-task, ebb-sandbox and ebb-lease. nil means the same as for
	// SourceIdentity.
	SessionTags *bool `json:"session_tags,omitempty"`
	// SourceIPs (CIDR) or SourceVPCEs (vpce-...) restrict where sessions can be used. Only
	// one of them may be set, because no request has both.
	SourceIPs   []string `json:"source_ips,omitempty"`
	SourceVPCEs []string `json:"source_vpces,omitempty"`

	// Revoke is deny (default), or none when ebb may not write the roles' inline policies.
	// With none, sessions end only by expiry.
	Revoke string `json:"revoke,omitempty"`
	// RevokeBound is the time after which a denial is assumed to hold everywhere; "" means
	// 60s.
	RevokeBound string `json:"revoke_bound,omitempty"`
}

// Role is a pool of roles with the same permissions.
type Role struct {
	Scopes []string `json:"scopes"` // patterns: "s3:data/**:read"
	ARNs   []string `json:"arns"`   // 1 to 16; leases are distributed over them
	// MaxSession is at most the maximum of the role itself; "" means 1h.
	MaxSession string `json:"max_session,omitempty"`
}

// Area is a part of a bucket in which only the listed actions are possible, at any policy:
// read-only inputs, a write-only quarantine, or a final place that objects are only promoted to.
type Area struct {
	Prefix  string   `json:"prefix"`         // "data/quarantine": all objects below it
	Actions []string `json:"actions"`        // of read, write, list, delete, promote
	From    string   `json:"from,omitempty"` // where promote copies from; required with it
}

// Statement is one action of another service. In On and in the values of When, {1} to {16}
// stand for the segments of the scope's resource, and {rest} for the part that ** matched.
// None of them can contain a wildcard or a policy variable.
type Statement struct {
	Action   string                         `json:"action"`         // of the scope: "query"
	Resource string                         `json:"resource"`       // of the scope: "tables/*"
	Allow    []string                       `json:"allow"`          // "dynamodb:Query"
	On       []string                       `json:"on"`             // "arn:aws:dynamodb:eu-central-1:111122223333:table/{2}"
	When     map[string]map[string][]string `json:"when,omitempty"` // operator to key to values, as in IAM
}

// The flavors.
const (
	flavorAWS   = "aws"
	flavorRGW   = "rgw"
	flavorMinIO = "minio"
)

const (
	minSession   = 900 * time.Second // STS: DurationSeconds
	maxSession   = 12 * time.Hour
	maxPool      = 16
	defaultCall  = 5 * time.Second
	defaultBound = 60 * time.Second
	minBound     = 5 * time.Second
)

// settings are the checked values of a Config, with defaults.
type settings struct {
	flavor         string
	roots          *x509.CertPool
	timeout        time.Duration
	rules          []rule
	areas          []area
	statements     []statement
	externalID     *string
	sourceIdentity bool
	sessionTags    bool
	binding        conditions // added to every Allow
	deny           bool
	bound          time.Duration
}

var (
	externalIDForm = lazyregexp.New(`^[\w+=,.@:/-]+$`)
	vpceForm       = lazyregexp.New(`^vpce-[0-9a-f]{8,32}$`)
	regionForm     = lazyregexp.New(`^[a-z0-9-]{2,32}$`)
)

// problems collects the problems of a Config, so that all are reported at once.
type problems []error

func (p *problems) add(format string, a ...any) { *p = append(*p, fmt.Errorf(format, a...)) }

func (c Config) settings() (settings, error) {
	var ps problems
	s := settings{flavor: c.Flavor, deny: true}
	switch c.Flavor {
	case "":
		s.flavor = flavorAWS
	case flavorAWS, flavorRGW, flavorMinIO:
	default:
		ps.add("flavor: %q is none of aws, rgw, minio", c.Flavor)
	}
	c.connection(&s, &ps)
	c.session(&s, &ps)
	c.revocation(&s, &ps)
	s.areas = c.readAreas(&ps)
	s.statements = c.readStatements(&ps)
	s.rules = c.readRoles(&ps)
	return s, errors.Join(ps...)
}

func (c Config) connection(s *settings, ps *problems) {
	if !regionForm.MatchString(c.Region) {
		ps.add("region: %q is not a region: name one, like eu-central-1", c.Region)
	}
	if c.Endpoint == "" && s.flavor != flavorAWS {
		ps.add("endpoint: is required for flavor %s", s.flavor)
	}
	if c.Endpoint != "" && !awsapi.SafeEndpoint(c.Endpoint) {
		ps.add("endpoint: must be an https URL without a path, or http on loopback: answers hold credentials")
	}
	if (c.AccessKeyFile == "") != (c.SecretKeyFile == "") {
		ps.add("access_key_file and secret_key_file: set both or neither")
	}
	var err error
	if s.roots, err = provider.Roots(c.CAFile); err != nil {
		ps.add("ca_file: %w", err)
	}
	s.timeout = span(ps, "timeout", c.Timeout, defaultCall, 100*time.Millisecond, time.Minute)
}

func (c Config) session(s *settings, ps *problems) {
	if c.ExternalID != "" {
		if n := len(c.ExternalID); n < 2 || n > 1224 || !externalIDForm.MatchString(c.ExternalID) {
			ps.add(`external_id: must be 2 to 1224 of [\w+=,.@:/-]`)
		}
		s.externalID = &c.ExternalID
	}
	s.sourceIdentity, s.sessionTags = s.flavor == flavorAWS, s.flavor == flavorAWS
	if c.SourceIdentity != nil {
		s.sourceIdentity = *c.SourceIdentity
	}
	if c.SessionTags != nil {
		s.sessionTags = *c.SessionTags
	}
	if s.flavor != flavorAWS && (s.sourceIdentity || s.sessionTags) {
		ps.add("source_identity and session_tags: %s takes them and enforces neither, so that a revocation would not hold: leave them out", s.flavor)
	}
	if len(c.SourceIPs) > 0 && len(c.SourceVPCEs) > 0 {
		ps.add("source_ips and source_vpces: set one: a request through an endpoint has no public address")
	}
	for _, ip := range c.SourceIPs {
		if p, err := netip.ParsePrefix(ip); err != nil || p != p.Masked() {
			ps.add("source_ips: %q is not a network like 203.0.113.0/24", ip)
		}
	}
	for _, id := range c.SourceVPCEs {
		if !vpceForm.MatchString(id) {
			ps.add("source_vpces: %q is not the id of an endpoint", id)
		}
	}
	switch {
	case len(c.SourceIPs) > 0:
		s.binding = conditions{"IpAddress": {"aws:SourceIp": c.SourceIPs}}
	case len(c.SourceVPCEs) > 0:
		s.binding = conditions{"StringEquals": {"aws:SourceVpce": c.SourceVPCEs}}
	}
}

func (c Config) revocation(s *settings, ps *problems) {
	switch c.Revoke {
	case "":
		s.deny = s.flavor != flavorMinIO
	case "deny":
		if s.flavor == flavorMinIO {
			ps.add("revoke: minio has no roles to deny to: leave it out, sessions end by time alone")
		}
	case "none":
		s.deny = false
	default:
		ps.add("revoke: %q is neither deny nor none", c.Revoke)
	}
	s.bound = span(ps, "revoke_bound", c.RevokeBound, defaultBound, minBound, time.Hour)
	if s.bound%time.Second != 0 {
		ps.add("revoke_bound: must be whole seconds")
	}
	// A write that began before the read can take effect as late as that.
	if least := awsapi.CallTime(s.timeout); s.deny && s.bound < least {
		ps.add("revoke_bound: must be at least %s, which is what one call can take with this timeout", least)
	}
}

// span parses a duration between two limits; "" is the default.
func span(ps *problems, key, text string, otherwise, least, most time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		ps.add("%s: %q is not a duration from %s to %s, like 30s or 1h", key, text, least, most)
		return otherwise
	}
	return d
}

// rule is a checked Role.
type rule struct {
	serves     scopes.Set
	arns       []string
	partition  string // "aws", "aws-cn", "aws-us-gov"
	maxSession time.Duration
}

// roleForm matches the ARN of a role (IAM identifiers): partition, account (empty in RGW),
// path and name.
var roleForm = lazyregexp.New(`^arn:(aws[a-z-]{0,16}):iam::([0-9]{12})?:role/([\x21-\x7e]+/)?([\w+=,.@-]{1,64})$`)

// roleName returns the last part of an ARN, which is the argument of IAM's calls.
func roleName(arn string) string {
	if m := roleForm.FindStringSubmatch(arn); m != nil {
		return m[4]
	}
	return ""
}

func (c Config) readRoles(ps *problems) []rule {
	var out []rule
	if len(c.Roles) == 0 {
		ps.add("roles: name at least one, with the scopes that it serves")
	}
	for i, r := range c.Roles {
		one := rule{maxSession: span(ps, fmt.Sprintf("roles[%d].max_session", i), r.MaxSession, time.Hour, minSession, maxSession)}
		var serves []scopes.Scope
		for _, text := range r.Scopes {
			s, err := scopes.Parse(text)
			if err != nil {
				ps.add("roles[%d].scopes: %w", i, err)
			} else if s.Provider() != c.Name {
				ps.add("roles[%d].scopes: %s is not a scope of this provider: begin it with %s:", i, text, c.Name)
			}
			serves = append(serves, s)
		}
		var err error
		if one.serves, err = scopes.NewSet(serves...); err != nil || len(serves) == 0 {
			ps.add("roles[%d].scopes: name 1 to %d scopes", i, scopes.MaxScopes)
		}
		if len(r.ARNs) == 0 || len(r.ARNs) > maxPool {
			ps.add("roles[%d].arns: name 1 to %d roles", i, maxPool)
		}
		for _, arn := range r.ARNs {
			m := roleForm.FindStringSubmatch(arn)
			if m == nil {
				ps.add("roles[%d].arns: %q is not the ARN of a role", i, arn)
				continue
			}
			if one.partition != "" && one.partition != m[1] {
				ps.add("roles[%d].arns: the roles are of two partitions", i)
			}
			one.partition = m[1]
			one.arns = append(one.arns, arn)
		}
		out = append(out, one)
	}
	return out
}

// rule returns the role for all scopes of a set, because a credential is one session.
func (d *Driver) rule(set scopes.Set) (rule, error) {
	for _, r := range d.rules {
		if r.serves.Covers(set) {
			return r, nil
		}
	}
	return rule{}, fmt.Errorf("%w: no configured role covers all of %s: request fewer scopes at once, or only scopes of one role", provider.ErrUnsupported, set)
}

// pick distributes leases over a pool and skips roles that must not mint at present. When
// none may mint, the error is a refusal and not a BusyError. A BusyError would keep the
// broker from calling AWS at all, also for the revocations that make room.
func (d *Driver) pick(r rule, leaseID, taskID string, now time.Time) (arn string, err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(leaseID))
	first := int(h.Sum32() % uint32(len(r.arns)))
	for i := range r.arns {
		if arn := r.arns[(first+i)%len(r.arns)]; d.writer(arn).shutFor(taskID, now) <= 0 {
			return arn, nil
		}
	}
	return "", provider.Refused("The roles of this scope have as many revoked sessions as AWS lets ebb deny: retry in some minutes, and ask the operator to add roles to the pool.", nil)
}
