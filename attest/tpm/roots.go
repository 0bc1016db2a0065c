package tpm

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"ebb/attest/fetch"
)

// maxPEM is the most that one file of certificates holds.
const maxPEM = 1 << 20

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
		b, err := fetch.ReadFile(name, maxPEM)
		if err != nil {
			return nil, err
		}
		certs, err := parsePEM(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, c := range certs {
			out.AddCert(c)
		}
	}
	return out, nil
}

// parsePEM takes CA certificates alone: a private key or a leaf among the roots is
// a mistake that must not pass for trust.
func parsePEM(b []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			break
		}
		b = rest
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("holds a %q; only certificates belong here", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if !c.BasicConstraintsValid || !c.IsCA {
			return nil, errors.New("holds a certificate that is no CA")
		}
		out = append(out, c)
	}
	if len(out) == 0 || bytes.Contains(b, []byte("-----BEGIN")) {
		return nil, errors.New("holds no PEM certificate, or a broken one")
	}
	return out, nil
}
