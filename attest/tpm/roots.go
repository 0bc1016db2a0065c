package tpm

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
)

// authorities are whom configuration trusts to certify EKs, and what leads to them.
type authorities struct {
	roots, intermediates *x509.CertPool
}

// newAuthorities reads when first asked, and again every minute.
func newAuthorities(c Config) (*fetch.Cache[authorities], error) {
	read := func(context.Context) (authorities, time.Duration, error) {
		roots, err := pool(c.Roots)
		if err != nil {
			return authorities{}, 0, err
		}
		intermediates, err := pool(c.Intermediates)
		return authorities{roots, intermediates}, time.Minute, err
	}
	return fetch.NewCache(fetch.CacheConfig[authorities]{Read: read, Name: "the EK roots of " + c.Name, Now: c.Now, Logger: c.Logger})
}

func pool(files []string) (*x509.CertPool, error) {
	out := x509.NewCertPool()
	for _, name := range files {
		certs, err := fetch.ReadCertificates(name, authority)
		if err != nil {
			return nil, err
		}
		for _, c := range certs {
			out.AddCert(c)
		}
	}
	return out, nil
}

// authority keeps a leaf out from among the roots.
func authority(c *x509.Certificate) error {
	if !c.BasicConstraintsValid || !c.IsCA {
		return errors.New("holds a certificate that is no CA")
	}
	return nil
}
