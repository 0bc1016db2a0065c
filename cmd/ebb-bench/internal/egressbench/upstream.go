package egressbench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// smallBody is the size of a small response in bytes.
const smallBody = 1 << 10

// eventEvery is the interval between the events of a stream.
const eventEvery = 100 * time.Millisecond

// Files of the upstream in the directory of a benchmark.
const (
	certFile = "upstream.pem"
	keyFile  = "upstream.key"
)

// NewCertificate writes a self-signed certificate for Host, and its key.
func NewCertificate(dir string) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: Host}, DNSNames: []string{Host}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err1 := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	private, err2 := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	err1 = os.WriteFile(filepath.Join(dir, certFile), cert, 0o600)
	err2 = os.WriteFile(filepath.Join(dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return roots, errors.Join(err1, err2)
}

// Certificate is the path of the certificate in the directory of a benchmark.
func Certificate(dir string) string { return filepath.Join(dir, certFile) }

// Serve is the upstream. It calls ready with its address and serves until ctx
// is done. Requests without the secret are refused.
func Serve(ctx context.Context, dir, secret string, ready func(address string)) error {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	small := make([]byte, smallBody)
	for i := range small {
		small[i] = 'a' + byte(i%26)
	}
	mux.HandleFunc("GET /v1/small", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(small)))
		_, _ = w.Write(small)
	})
	mux.HandleFunc("GET /v1/large/{bytes}", large)
	mux.HandleFunc("GET /v1/events", events)
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+secret {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			mux.ServeHTTP(w, r)
		}),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	ready(l.Addr().String())
	if err := s.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// large sends a body that resembles text, a repeated block of 64 KiB.
func large(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.PathValue("bytes"), 10, 64)
	if err != nil || n < 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	chunk := make([]byte, 64<<10)
	for i := range chunk {
		chunk[i] = "0123456789abcdefghijklmnopqrstuvwxyz ,.{}\"\n"[(i*7+i/64)%43]
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	for n > 0 {
		m, err := w.Write(chunk[:min(n, int64(len(chunk)))])
		if n -= int64(m); err != nil {
			return
		}
	}
}

// events sends a stream that does not end by itself.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	t := time.NewTicker(eventEvery)
	defer t.Stop()
	for n := 0; ; n++ {
		if _, err := fmt.Fprintf(w, "id: %d\ndata: {\"n\": %d}\n\n", n, n); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-t.C:
		case <-r.Context().Done():
			return
		}
	}
}
