package fetch_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ebb-broker/ebb/attest/fetch"
)

// FuzzCertificates: the parser returns either checked certificates or an error.
func FuzzCertificates(f *testing.F) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	good := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	f.Add(good)
	f.Add(append(good, good...))
	f.Add(good[:len(good)-20])
	f.Fuzz(func(t *testing.T, b []byte) {
		looked := 0
		certs, err := fetch.ParseCertificates(b, func(*x509.Certificate) error { looked++; return nil })
		if (err == nil) != (len(certs) > 0) || err == nil && looked != len(certs) {
			t.Errorf("%d certificates of %d, %v", len(certs), looked, err)
		}
	})
}
