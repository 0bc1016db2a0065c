package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider/postgres"
)

// TestConnectionsThatOthersCouldRead: the broker sends its password only to the configured
// server. Defaults of the URL, a second host in it, and environment variables cannot redirect it.
func TestConnectionsThatOthersCouldRead(t *testing.T) {
	ca := authority(t)
	made := func(url string) error {
		_, err := postgres.New(postgres.Config{URL: url, Databases: map[string]map[string]string{"orders": {"read": "orders_ro"}}}, nil)
		return err
	}
	for _, env := range []string{"", "disable", "prefer", "verify-full"} {
		t.Setenv("PGSSLMODE", env)
		for _, url := range []string{
			"postgres://ebb@db.test/x?sslmode=disable", "postgres://ebb@db.test/x?sslmode=allow", "postgres://ebb@db.test/x?sslmode=prefer",
			"postgres://ebb@db.test/x?sslmode=require", "postgres://ebb@db.test/x?sslmode=verify-ca", "postgres://ebb@10.0.0.1/x?sslmode=disable",
			"postgres://ebb@127.0.0.1,db.test/x?sslmode=disable", "postgres://ebb@localhost/x?sslmode=disable&host=db.test",
			"postgres://ebb@localhost.db.test/x?sslmode=prefer", "postgres://ebb@127.0.0.1.db.test/x?sslmode=disable", "postgres://ebb@[::ffff:10.0.0.1]/x?sslmode=disable",
			"postgres://ebb@db.test/x?sslmode=require&sslnegotiation=direct",
		} {
			if err := made(url); err == nil || !strings.Contains(err.Error(), "sslmode=verify-full") {
				t.Errorf("PGSSLMODE=%s, %s: New = %v", env, url, err)
			}
		}
		for _, url := range []string{
			"postgres://ebb@db.test/x?sslmode=verify-full", "postgres://ebb@db.test/x?sslmode=verify-full&sslrootcert=" + ca, "postgres://ebb@db.test/x?sslmode=verify-ca&sslrootcert=" + ca,
			"postgres://ebb@127.0.0.1/x?sslmode=disable", "postgres://ebb@[::1]/x?sslmode=prefer", "postgres://ebb@localhost/x?sslmode=disable",
			"postgres://ebb@x/x?sslmode=disable&host=/run/postgresql", "postgres://ebb@db.test,db2.test/x?sslmode=verify-full",
		} {
			if err := made(url); err != nil {
				t.Errorf("PGSSLMODE=%s, %s: New = %v", env, url, err)
			}
		}
		if err := made("postgres://ebb@db.test/x"); (err == nil) != (env == "verify-full") {
			t.Errorf("PGSSLMODE=%s, a URL that leaves it out: New = %v", env, err)
		}
	}
}

// authority is the file of a CA's certificate.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
