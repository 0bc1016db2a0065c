package command

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
)

// HTTPClient returns a client with the TLS configuration of TLSConfig.
func HTTPClient(caFile string) (*http.Client, error) {
	tc, err := TLSConfig(caFile)
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = tc
	return &http.Client{Transport: t}, nil
}

// TLSConfig trusts the system's roots, or only the certificates of caFile, the
// value of --ca-file, if it is not "".
func TLSConfig(caFile string) (*tls.Config, error) {
	tc := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return tc, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, Usage("--ca-file: "+err.Error(), "name a readable PEM file")
	}
	tc.RootCAs = x509.NewCertPool()
	if !tc.RootCAs.AppendCertsFromPEM(pem) {
		return nil, Usage("--ca-file "+caFile+" contains no certificate", "name a PEM file with CERTIFICATE blocks")
	}
	return tc, nil
}
