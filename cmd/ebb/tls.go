package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// serverTLS returns the TLS configuration of the listener, nil without a
// certificate.
func serverTLS(c config.TLS) (*tls.Config, error) {
	if c.Cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, usage("load the server certificate: "+err.Error(), "check tls.cert and tls.key")
	}
	t := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.ClientCerts == config.AnyClientCert {
		// The CAs that attestors fetch are not known here. TLS proves possession of
		// the certificate's key, and the attestor verifies the certificate. Tokens
		// bound to the certificate (RFC 8705) are bound to the key.
		t.ClientAuth = tls.RequestClientCert
		return t, nil
	}
	if c.ClientCA == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.ClientCA)
	if err != nil {
		return nil, usage("read tls.client_ca: "+err.Error(), "name a readable PEM file")
	}
	t.ClientCAs = x509.NewCertPool()
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, usage("tls.client_ca contains no certificate", "name a PEM file with CERTIFICATE blocks")
	}
	t.ClientAuth = tls.VerifyClientCertIfGiven
	return t, nil
}
