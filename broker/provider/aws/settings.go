package aws

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"time"

	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Flavors: who answers.
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

// settings are a Config's values, checked and with their defaults.
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
	externalIDForm = regexp.MustCompile(`^[\w+=,.@:/-]+$`)
	vpceForm       = regexp.MustCompile(`^vpce-[0-9a-f]{8,32}$`)
	regionForm     = regexp.MustCompile(`^[a-z0-9-]{2,32}$`)
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
	// A write that began before ours was read can land as late as that.
	if least := awsapi.CallTime(s.timeout); s.deny && s.bound < least {
		ps.add("revoke_bound: must be at least %s, which is what one call can take with this timeout", least)
	}
}

// span reads a duration between two bounds; "" is the default.
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
