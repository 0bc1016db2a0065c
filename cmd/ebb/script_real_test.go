package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/web/client"
)

// idToken signs the token of a CI job, and publishes the key unless JWKS is
// "-": idtoken FILE JWKS NAME=VALUE...
func idToken(ts *testscript.TestScript, neg bool, args []string) {
	file := ts.MkAbs("issuer.key")
	key, err := client.LoadKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = client.NewKey(jose.ES256)
		ts.Check(err)
		ts.Check(client.SaveKey(file, key))
	}
	ts.Check(err)
	public, err := keyfile.Public(key)
	ts.Check(err)
	now := time.Now()
	claims := map[string]any{"iss": "https://ci.example.com", "aud": "https://ebb.example.com", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": rand.Text()}
	for _, arg := range args[2:] {
		name, value, _ := strings.Cut(arg, "=")
		claims[name] = value
	}
	token, err := jose.Sign(key, jose.SignHeader{Type: "JWT", KID: public.KID}, claims)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(token), 0o600))
	if args[1] == "-" {
		return
	}
	set, err := jose.MarshalJWKS(public)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), set, 0o600))
}

// newDB creates an empty database and names it: newdb URL PASSWORD.
func newDB(ts *testscript.TestScript, neg bool, args []string) {
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, os.Getenv("EBB_TEST_POSTGRES"))
	ts.Check(err)
	defer admin.Close(ctx)
	name := "ebb_script_" + strings.ToLower(rand.Text())
	_, err = admin.Exec(ctx, "CREATE DATABASE "+name)
	ts.Check(err)
	ts.Defer(func() {
		admin, err := pgx.Connect(ctx, os.Getenv("EBB_TEST_POSTGRES"))
		if err != nil {
			return
		}
		defer admin.Close(ctx)
		_, _ = admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	})
	u, err := url.Parse(os.Getenv("EBB_TEST_POSTGRES"))
	ts.Check(err)
	password, _ := u.User.Password()
	u.User, u.Path = url.User(u.User.Username()), "/"+name
	ts.Setenv(args[0], u.String())
	ts.Setenv(args[1], password)
}

// forget removes the data of an ebb in Redis, like a restart without
// persistence: forget PREFIX.
func forget(ts *testscript.TestScript, neg bool, args []string) {
	n, err := redistest.Forget(context.Background(), redis.UniversalOptions{Addrs: []string{os.Getenv("EBB_TEST_REDIS")}}, args[0])
	ts.Check(err)
	if n == 0 {
		ts.Fatalf("there is nothing to forget")
	}
}

// certificate creates a self-signed certificate for 127.0.0.1: certificate CERT
// KEY.
func certificate(ts *testscript.TestScript, neg bool, args []string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ebb test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// collector starts an OTLP/HTTP collector that records in a file that it
// received traces: collector URL FILE.
func collector(ts *testscript.TestScript, neg bool, args []string) {
	file := ts.MkAbs(args[1])
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			_ = os.WriteFile(file, []byte("traces"), 0o600)
		}
	}))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}
