package ec2

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"time"

	"ebb/attest"
)

// Config configures one instance.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Accounts are the numbers of the AWS accounts that launch sandboxes. Required.
	Accounts []string `json:"accounts"`
	// Certificates is, for each region that instances may be in, a PEM file of the
	// certificates of RSA-2048 that AWS publishes for it. All regions are of one
	// partition. At least one is required.
	Certificates map[string]string `json:"certificates"`
	// LaunchWindow is how long after its launch the document of an instance is
	// evidence: 1 m to 30 m, default 5 m.
	LaunchWindow time.Duration `json:"launch_window"`
	// Lifetime is for how long evidence vouches, from the launch on: LaunchWindow to
	// 24 h, default 1 h. It cannot be shown again after LaunchWindow.
	Lifetime time.Duration `json:"lifetime"`

	// Nonces of the challenges. Required.
	Nonces *attest.Nonces `json:"-"`
	// Now is the clock, nil = time.Now. Logger: nil = discard.
	Now    func() time.Time `json:"-"`
	Logger *slog.Logger     `json:"-"`
}

const (
	minWindow       = time.Minute
	maxWindow       = 30 * time.Minute
	defaultWindow   = 5 * time.Minute
	maxLifetime     = 24 * time.Hour
	defaultLifetime = time.Hour
)

// otherPartition begins the regions that are not of the commercial partition.
var otherPartition = regexp.MustCompile(`^(cn|us-gov|us-iso[a-z]?|eu-iso[a-z]?|eusc)-`)

// check reports all problems at once and fills in the defaults.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty")
	}
	if c.Nonces == nil {
		bad("there are no nonces for challenges")
	}
	if len(c.Accounts) == 0 {
		bad("accounts is empty; name the AWS accounts of the sandboxes, or anybody with an AWS account could ask")
	}
	for _, a := range c.Accounts {
		if !accountForm.MatchString(a) {
			bad("accounts: %q is not the 12 digits of an AWS account; quote them in YAML", a)
		}
	}
	c.checkCertificates(bad)
	if c.LaunchWindow = cmp.Or(c.LaunchWindow, defaultWindow); c.LaunchWindow < minWindow || c.LaunchWindow > maxWindow {
		bad("launch_window is not between %s and %s", minWindow, maxWindow)
	}
	if c.Lifetime = cmp.Or(c.Lifetime, defaultLifetime); c.Lifetime < c.LaunchWindow || c.Lifetime > maxLifetime {
		bad("lifetime is not between launch_window and %s; it begins at the launch", maxLifetime)
	}
	if len(errs) > 0 {
		return fmt.Errorf("attest/ec2 %q: %w", c.Name, errors.Join(errs...))
	}
	return nil
}

func (c *Config) checkCertificates(bad func(string, ...any)) {
	if len(c.Certificates) == 0 {
		bad("certificates is empty; name for each region the PEM file with the certificate of RSA-2048 that AWS publishes for it")
	}
	regions := slices.Sorted(maps.Keys(c.Certificates))
	for _, r := range regions {
		switch {
		case !regionForm.MatchString(r):
			bad("certificates: %q is not a region, such as eu-west-1", r)
		case otherPartition.FindString(r) != otherPartition.FindString(regions[0]):
			bad("certificates: %q is in another partition than %q, and the same account number is somebody else's there; make it another attestor", r, regions[0])
		case c.Certificates[r] == "":
			bad("certificates: %q has no file", r)
		}
	}
}

// Decode reads the part of the configuration file that belongs to one instance. The
// caller sets Name, Nonces and what is borrowed.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("ec2", raw) }
