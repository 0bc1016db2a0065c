package oauth

import (
	"crypto/tls"
	"errors"
	"fmt"

	"ebb/broker/clientcert"
	"ebb/broker/provider"
)

// certificate is what the client is known by (RFC 8705 section 2), nil = by something else. It is
// read for each call, so that a new one counts at once.
func (d *Driver) certificate() (*clientcert.Certificate, error) {
	if d.cfg.Client.CertificateFile == "" {
		return nil, nil //nolint:nilnil // nil stands for none
	}
	s, err := provider.ReadSecret(d.cfg.Client.CertificateFile)
	if err != nil {
		return nil, fmt.Errorf("client.certificate_file: %w", err)
	}
	c, err := clientcert.Parse(s.Reveal(), d.now())
	if err != nil {
		return nil, fmt.Errorf("client.certificate_file: %w", err)
	}
	return c, nil
}

// shown is the certificate as a handshake takes it.
func (d *Driver) shown() (*tls.Certificate, error) {
	c, err := d.certificate()
	if err == nil && c == nil {
		err = errors.New("oauth: there is no client certificate")
	}
	return c.Show(), err
}
