package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"ebb/cmd/ebb/internal/config"
)

// serverTLS is the listener's TLS, nil without a certificate.
func serverTLS(c config.TLS) (*tls.Config, error) {
	if c.Cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, usage("the server certificate cannot be used: "+err.Error(), "check tls.cert and tls.key")
	}
	t := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.ClientCerts == config.AnyClientCert {
		// No pool could know the authorities that attestors fetch. TLS proves the
		// certificate's key as ever; who vouches for it is the attestor's to find out,
		// and what is bound to it (RFC 8705) is bound to the key.
		t.ClientAuth = tls.RequestClientCert
		return t, nil
	}
	if c.ClientCA == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.ClientCA)
	if err != nil {
		return nil, usage("tls.client_ca cannot be read: "+err.Error(), "name a readable PEM file")
	}
	t.ClientCAs = x509.NewCertPool()
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, usage("tls.client_ca holds no certificate", "name a PEM file with CERTIFICATE blocks")
	}
	t.ClientAuth = tls.VerifyClientCertIfGiven
	return t, nil
}
