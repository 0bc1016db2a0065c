package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"ebb/attest"
	"ebb/attest/fetch"
	"ebb/attest/jose"
)

// Config configures one instance.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Issuer is ebb's own URL, which callers sign. Required.
	Issuer string `json:"-"`
	// Nonces of the challenges. Required.
	Nonces *attest.Nonces `json:"-"`
	// Accounts are the numbers of the AWS accounts that callers may be of. Required.
	Accounts []string `json:"accounts"`
	// Regions whose STS may be asked, all of one partition. Required.
	Regions []string `json:"regions"`
	// Endpoint replaces the regional endpoint, for a VPC endpoint: https, or http on
	// a loopback address, host alone. There is one region then.
	Endpoint string `json:"endpoint"`
	// Lifetime is for how long evidence vouches, from its challenge on: 1 m to 12 h,
	// default 15 m.
	Lifetime time.Duration `json:"lifetime"`
	// AllowUsers takes also users, federated users and their long-lived keys.
	AllowUsers bool `json:"allow_users"`
	// EC2Roles are roles that EC2 instances alone can assume, as account/role: their
	// session name is an instance's id.
	EC2Roles []string `json:"ec2_roles"`

	// Fetch says how STS may be asked.
	Fetch fetch.Config `json:",embed"`
	// Now is the clock, nil = time.Now.
	Now func() time.Time `json:"-"`
}

const (
	minLifetime     = attest.NonceLife
	maxLifetime     = 12 * time.Hour
	defaultLifetime = 15 * time.Minute
)

var (
	accountForm  = regexp.MustCompile(`^[0-9]{12}$`)
	roleForm     = regexp.MustCompile(`^[A-Za-z0-9_+=,.@-]{1,64}$`)
	endpointHost = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$|^\[?[0-9a-f:.]+\]?$`)
)

// check reports all problems at once and fills in the defaults.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Lifetime == 0 {
		c.Lifetime = defaultLifetime
	}
	if c.Name == "" {
		bad("name is empty")
	}
	if c.Nonces == nil {
		bad("there are no nonces for challenges")
	}
	if u, err := url.Parse(c.Issuer); err != nil || u.Scheme == "" || u.Host == "" || !jose.Plain(c.Issuer) {
		bad("the issuer is not the URL of this ebb")
	}
	if len(c.Accounts) == 0 {
		bad("accounts is empty; name the AWS accounts of the sandboxes, or anybody with an AWS account could ask")
	}
	for _, a := range c.Accounts {
		if !accountForm.MatchString(a) {
			bad("accounts: %q is not the 12 digits of an AWS account; quote them in YAML", a)
		}
	}
	if c.Lifetime < minLifetime || c.Lifetime > maxLifetime {
		bad("lifetime is not between %s and %s", minLifetime, maxLifetime)
	}
	for _, r := range c.EC2Roles {
		account, role, _ := strings.Cut(r, "/")
		if !slices.Contains(c.Accounts, account) || !roleForm.MatchString(role) {
			bad("ec2_roles: %q is not account/role with one of accounts and the role's name without its path", r)
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
		bad("regions is empty; name the regions that sandboxes run in, like eu-west-1")
	}
	for _, r := range c.Regions {
		if !regionForm.MatchString(r) {
			bad("regions: %q is not a region of aws, aws-cn or aws-us-gov", r)
		} else if partition(r) != partition(c.Regions[0]) {
			bad("regions: %q is in another partition than %q, and the same account number is somebody else's there; make it another attestor", r, c.Regions[0])
		}
	}
	if c.Endpoint == "" {
		return
	}
	if len(c.Regions) != 1 {
		bad("endpoint: an endpoint is of one region; name that alone in regions")
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || !endpointHost.MatchString(u.Hostname()) || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery {
		bad("endpoint: write it like https://vpce-0a1b-2c3d.sts.eu-west-1.vpce.amazonaws.com, without path and query")
	}
}

// Decode reads the part of the configuration file that belongs to one instance. The
// caller sets Name and what is borrowed.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("aws", raw) }
