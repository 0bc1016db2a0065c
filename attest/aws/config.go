package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// Config configures one instance.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Issuer is the URL of ebb, which callers sign. Required.
	Issuer string `json:"-"`
	// Nonces issues the nonces of challenges. Required.
	Nonces *attest.Nonces `json:"-"`
	// Accounts are the numbers of the AWS accounts whose callers are accepted.
	// Required.
	Accounts []string `json:"accounts"`
	// Regions are the regions whose STS is used, all of one partition. Required.
	Regions []string `json:"regions"`
	// Endpoint is a VPC endpoint that replaces the regional endpoint: https and a host,
	// or http on loopback. Regions then has exactly one region.
	Endpoint string `json:"endpoint"`
	// Lifetime is how long an identity is valid, from its challenge on: 1 m to 12 h,
	// default 15 m.
	Lifetime time.Duration `json:"lifetime"`
	// AllowUsers accepts users and federated users too, and so long-lived keys.
	AllowUsers bool `json:"allow_users"`
	// EC2Roles are roles that only EC2 instances can assume, as account/role. The
	// session name of such a role is the id of the instance.
	EC2Roles []string `json:"ec2_roles"`

	// Fetch configures requests to STS.
	Fetch fetch.Config `json:",embed"`
	// Now defaults to time.Now.
	Now func() time.Time `json:"-"`
}

const (
	minLifetime     = attest.NonceLife
	maxLifetime     = 12 * time.Hour
	defaultLifetime = 15 * time.Minute
)

var (
	accountForm  = lazyregexp.New(`^[0-9]{12}$`)
	roleForm     = lazyregexp.New(`^[A-Za-z0-9_+=,.@-]{1,64}$`)
	endpointHost = lazyregexp.New(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$|^\[?[0-9a-f:.]+\]?$`)
)

// check fills in the defaults and returns all problems joined.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Lifetime == 0 {
		c.Lifetime = defaultLifetime
	}
	if c.Name == "" {
		bad("name is empty; give the instance a name")
	}
	if c.Nonces == nil {
		bad("there is no source of nonces for challenges; the program that calls New must set Nonces")
	}
	if u, err := url.Parse(c.Issuer); err != nil || u.Scheme == "" || u.Host == "" || !jose.Plain(c.Issuer) {
		bad("issuer is not a URL; set issuer in the configuration to the URL of this ebb")
	}
	if len(c.Accounts) == 0 {
		bad("accounts is empty; list the AWS accounts of the sandboxes, because otherwise every AWS account would be accepted")
	}
	for _, a := range c.Accounts {
		if !accountForm.MatchString(a) {
			bad("accounts: %q is not the 12 digits of an AWS account; write all 12 and quote them in YAML", a)
		}
	}
	if c.Lifetime < minLifetime || c.Lifetime > maxLifetime {
		bad("lifetime is %s, not between %s and %s; the default is 15m", c.Lifetime, minLifetime, maxLifetime)
	}
	for _, r := range c.EC2Roles {
		account, role, _ := strings.Cut(r, "/")
		if !slices.Contains(c.Accounts, account) || !roleForm.MatchString(role) {
			bad("ec2_roles: %q is not of the form account/role; write an account of accounts, a slash and the name of the role without its path", r)
		}
	}
	c.checkRegions(bad)
	if len(errs) > 0 {
		return fmt.Errorf("attest/aws %q: %w", c.Name, errors.Join(errs...))
	}
	return nil
}

func (c *Config) checkRegions(bad func(string, ...any)) {
	if len(c.Regions) == 0 {
		bad("regions is empty; list the regions that sandboxes run in, such as eu-west-1")
	}
	for _, r := range c.Regions {
		if !regionForm.MatchString(r) {
			bad("regions: %q is not a region of the partitions aws, aws-cn and aws-us-gov; write one such as eu-west-1", r)
		} else if partition(r) != partition(c.Regions[0]) {
			bad("regions: %q is in another partition than %q, where the same account number belongs to another customer; configure another attestor for it", r, c.Regions[0])
		}
	}
	if c.Endpoint == "" {
		return
	}
	if len(c.Regions) != 1 {
		bad("endpoint: an endpoint belongs to one region; list only that one in regions")
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.User != nil || !endpointHost.MatchString(u.Hostname()) || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery {
		bad("endpoint: not a host with a scheme; write it like https://vpce-0a1b-2c3d.sts.eu-west-1.vpce.amazonaws.com, without path, query and user information")
	}
}

// Decode decodes the configuration of one instance from the configuration file. The
// caller then sets the members without a JSON name.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("aws", raw) }

// regionForm matches regions. It is strict because the region becomes part of a host
// name. Isolated regions and the European Sovereign Cloud have other domains and do not
// match.
var regionForm = lazyregexp.New(`^(af|ap|ca|cn|eu|il|me|mx|sa|us|us-gov)-(north|south|east|west|central|northeast|northwest|southeast|southwest)-[1-9]$`)

// partition returns the AWS partition of a region. Account numbers are unique within a
// partition.
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// endpoint returns the regional STS endpoint. The global endpoint is not used, because
// it accepts signatures for any region.
func endpoint(region string) string {
	domain := ".amazonaws.com"
	if partition(region) == "aws-cn" {
		domain = ".amazonaws.com.cn"
	}
	return "https://sts." + region + domain
}
