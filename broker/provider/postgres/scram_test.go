package postgres

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/storetest"
)

// TestVerifierIsPostgreSQLs: with the same salt, verifier returns the text that PostgreSQL
// computes for a password.
func TestVerifierIsPostgreSQLs(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	role, password := "scram_"+strings.ToLower(rand.Text()), newPassword()
	storetest.PostgresExec(t, url, "CREATE ROLE "+role+" PASSWORD '"+password+"'")
	t.Cleanup(func() { storetest.PostgresExec(t, url, "DROP ROLE "+role) })
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // only read
	var want string
	if err := conn.QueryRow(t.Context(), "SELECT rolpassword FROM pg_authid WHERE rolname = $1", role).Scan(&want); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(want, "$4096:")
	salt64, _, _ := strings.Cut(rest, "$")
	salt, err := base64.StdEncoding.DecodeString(salt64)
	if err != nil {
		t.Fatalf("the server stores %q", want)
	}
	got, err := verifierWith(password, salt, scramRounds)
	if err != nil || got != want {
		t.Errorf("verifier = %s, %v; the server stores %s", got, err, want)
	}
}

func TestSecretsAreNew(t *testing.T) {
	a, err := verifier("pencil")
	b, err2 := verifier("pencil")
	if err != nil || err2 != nil || a == b || strings.Contains(a, "pencil") {
		t.Errorf("two verifiers of one password: %v %v", err, err2)
	}
	if p := newPassword(); len(p) != 43 || p == newPassword() {
		t.Errorf("a password is %d long", len(p))
	}
}
