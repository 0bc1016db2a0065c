package ec2

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
)

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
