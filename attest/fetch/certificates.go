package fetch

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// maxCertificates is the most bytes that one file of certificates holds.
const maxCertificates = 1 << 20

// ReadCertificates reads a PEM file of certificates, at least one, and nothing else:
// a private key among them is a mistake that must not pass for trust. usable says
// what is wrong with one; errors name the file.
func ReadCertificates(name string, usable func(*x509.Certificate) error) ([]*x509.Certificate, error) {
	b, err := ReadFile(name, maxCertificates)
	if err != nil {
		return nil, err
	}
	out, err := parseCertificates(b, usable)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

func parseCertificates(b []byte, usable func(*x509.Certificate) error) ([]*x509.Certificate, error) {
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
		if err := usable(c); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 || bytes.Contains(b, []byte("-----BEGIN")) {
		return nil, errors.New("holds no PEM certificate, or a broken one")
	}
	return out, nil
}
