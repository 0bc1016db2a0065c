package ec2

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// Config configures one instance.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Accounts are the numbers of the AWS accounts that launch sandboxes. Required.
	Accounts []string `json:"accounts"`
	// Certificates maps each region of the sandboxes to a PEM file with the RSA-2048
	// certificates that AWS publishes for it. All regions are of one partition. At
	// least one is required.
	Certificates map[string]string `json:"certificates"`
	// LaunchWindow is how long after its launch an instance can attest: 1 m to 30 m,
	// default 5 m.
	LaunchWindow time.Duration `json:"launch_window"`
	// Lifetime is how long an identity is valid, from the launch on: LaunchWindow to 24
	// h, default 1 h. The instance cannot attest again after LaunchWindow.
	Lifetime time.Duration `json:"lifetime"`

	// Nonces issues the nonces of challenges. Required.
	Nonces *attest.Nonces `json:"-"`
	// Now defaults to time.Now. Logger defaults to discarding.
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

// otherPartition matches the regions outside the commercial partition.
var otherPartition = lazyregexp.New(`^(cn|us-gov|us-iso[a-z]?|eu-iso[a-z]?|eusc)-`)

// check fills in the defaults and returns all problems joined.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty; give the instance a name")
	}
	if c.Nonces == nil {
		bad("there is no source of nonces for challenges; the program that calls New must set Nonces")
	}
	if len(c.Accounts) == 0 {
		bad("accounts is empty; list the AWS accounts of the sandboxes, because otherwise every AWS account would be accepted")
	}
	for _, a := range c.Accounts {
		if !accountForm.MatchString(a) {
			bad("accounts: %q is not the 12 digits of an AWS account; write all 12 and quote them in YAML", a)
		}
	}
	c.checkCertificates(bad)
	if c.LaunchWindow = cmp.Or(c.LaunchWindow, defaultWindow); c.LaunchWindow < minWindow || c.LaunchWindow > maxWindow {
		bad("launch_window is %s, not between %s and %s; the default is 5m", c.LaunchWindow, minWindow, maxWindow)
	}
	if c.Lifetime = cmp.Or(c.Lifetime, defaultLifetime); c.Lifetime < c.LaunchWindow || c.Lifetime > maxLifetime {
		bad("lifetime is %s, not between launch_window and %s; it counts from the launch", c.Lifetime, maxLifetime)
	}
	if len(errs) > 0 {
		return fmt.Errorf("attest/ec2 %q: %w", c.Name, errors.Join(errs...))
	}
	return nil
}

func (c *Config) checkCertificates(bad func(string, ...any)) {
	if len(c.Certificates) == 0 {
		bad("certificates is empty; name for each region a PEM file with the RSA-2048 certificate that AWS publishes for it")
	}
	regions := slices.Sorted(maps.Keys(c.Certificates))
	for _, r := range regions {
		switch {
		case !regionForm.MatchString(r):
			bad("certificates: %q is not a region; write one such as eu-west-1", r)
		case otherPartition.FindString(r) != otherPartition.FindString(regions[0]):
			bad("certificates: %q is in another partition than %q, where the same account number belongs to another customer; configure another attestor for it", r, regions[0])
		case c.Certificates[r] == "":
			bad("certificates: %q has no file; name the PEM file of the region", r)
		}
	}
}

// Decode decodes the configuration of one instance from the configuration file. The
// caller then sets the members without a JSON name.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("ec2", raw) }

// trust has the certificates of AWS, each with its region.
type trust []regional

type regional struct {
	region string
	cert   *x509.Certificate
}

// newTrust returns a cache that reads the files at the first use and again every
// minute.
func newTrust(c Config) (*fetch.Cache[trust], error) {
	read := func(context.Context) (trust, time.Duration, error) {
		var out trust
		for _, region := range slices.Sorted(maps.Keys(c.Certificates)) {
			certs, err := fetch.ReadCertificates(c.Certificates[region], published)
			if err != nil {
				return nil, 0, err
			}
			for _, cert := range certs {
				out = append(out, regional{region, cert})
			}
		}
		return out, time.Minute, nil
	}
	return fetch.NewCache(fetch.CacheConfig[trust]{Read: read, Name: "the EC2 certificates of " + c.Name, Now: c.Now, Logger: c.Logger})
}

// published refuses the weaker DSA and RSA certificates that AWS's page also lists for
// every region.
func published(c *x509.Certificate) error {
	if key, is := c.PublicKey.(*rsa.PublicKey); !is || key.N.BitLen() < 2048 {
		return errors.New("contains a certificate that is not RSA-2048; copy the RSA-2048 certificate from AWS's page, not that of DSA or RSA")
	}
	return nil
}

// verify checks the signature and returns the regions of the signer's certificate.
func (t trust) verify(d signedData, now time.Time) (regions []string, err error) {
	err = attest.Reject(attest.ReasonIssuer, "the document is not signed with a certificate that is configured for this attestor", nil)
	for _, r := range t {
		if !bytes.Equal(r.cert.RawIssuer, d.issuer) || r.cert.SerialNumber.Cmp(d.serial) != 0 {
			continue
		}
		if err = d.verify(r.cert, now); err == nil {
			regions = append(regions, r.region)
		}
	}
	if len(regions) > 0 {
		return regions, nil
	}
	return nil, err
}

func (d signedData) verify(cert *x509.Certificate, now time.Time) error {
	if now.Before(cert.NotBefore) {
		return attest.Reject(attest.ReasonNotYetValid, "the certificate of the signature is not valid yet", nil)
	}
	if now.After(cert.NotAfter) {
		return attest.Reject(attest.ReasonExpired, "the certificate of the signature has expired", nil)
	}
	const public = "the signature of the document does not verify"
	if err := cert.CheckSignature(x509.SHA256WithRSA, d.attributes, d.signature); err != nil {
		return attest.Reject(attest.ReasonSignature, public, err)
	}
	if sum := sha256.Sum256(d.content); !bytes.Equal(sum[:], d.digest) {
		return attest.Reject(attest.ReasonSignature, public, errors.New("the digest of the content differs from the signed digest"))
	}
	return nil
}
