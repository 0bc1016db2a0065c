package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

const (
	// scramRounds is PostgreSQL's default. A higher number would add no security, because the
	// password has 256 random bits.
	scramRounds = 4096
	scramSalt   = 16
)

// newPassword returns 43 characters of base64url. They need no escape in a URL, a shell or a
// connection string.
func newPassword() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b)
}

// verifier returns the verifier that PostgreSQL stores for a password (RFC 5802 section 3, RFC
// 7677, in the form of pg_authid.rolpassword). Passwords of newPassword are ASCII, so SASLprep
// (RFC 4013) changes nothing.
func verifier(password string) (string, error) {
	salt := make([]byte, scramSalt)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	return verifierWith(password, salt, scramRounds)
}

func verifierWith(password string, salt []byte, rounds int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("deriving a verifier: %w", err)
	}
	mac := func(text string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", rounds, b64(salt), b64(stored[:]), b64(mac("Server Key"))), nil
}
