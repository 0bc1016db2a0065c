package client

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
)

// NewKey generates a client key: jose.ES256 or jose.EdDSA.
func NewKey(alg jose.Alg) (jose.Signer, error) {
	switch alg {
	case jose.ES256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA, jose.Ed25519:
		_, k, err := ed25519.GenerateKey(rand.Reader)
		return k, err
	}
	return nil, fmt.Errorf("client: cannot generate a key for %q; choose ES256 or EdDSA", alg)
}

// SaveKey writes a key as PKCS#8 PEM to a new file of mode 0600. It does not
// change an existing file: the error then wraps fs.ErrExist.
func SaveKey(path string, key jose.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return errors.New("client: cannot encode the key; only P-256 and Ed25519 keys in memory can be saved")
	}
	if _, err := clientKey(key); err != nil {
		return err
	}
	return secret.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// LoadKey reads a private key: PKCS#8 PEM or a private JWK (RFC 7517), P-256 or
// Ed25519. It refuses a file that others can access.
func LoadKey(path string) (jose.Signer, error) {
	text, err := secret.ReadFile(path)
	if err != nil {
		return nil, err
	}
	k, err := ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%w (file %s)", err, path)
	}
	return k, nil
}

// ParseKey parses a key as LoadKey does, from memory. Errors never quote the
// key.
func ParseKey(text []byte) (jose.Signer, error) {
	if trimmed := bytes.TrimSpace(text); bytes.HasPrefix(trimmed, []byte("{")) {
		return parseJWK(trimmed)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("client: the key is neither PKCS#8 PEM nor a JWK; convert it with: openssl pkcs8 -topk8 -nocrypt")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("client: the key file contains more than one PEM block")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("client: the private key cannot be parsed")
	}
	return clientKey(k)
}

func clientKey(k any) (jose.Signer, error) {
	switch k := k.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			return k, nil
		}
	case ed25519.PrivateKey:
		if len(k) == ed25519.PrivateKeySize {
			return k, nil
		}
	}
	return nil, errors.New("client: the key is neither P-256 nor Ed25519")
}

// parseJWK parses a private JWK. It refuses one whose public key does not
// belong to the private key, because no signature by it could be verified.
func parseJWK(text []byte) (jose.Signer, error) {
	bad := errors.New("client: the JWK is not a private P-256 or Ed25519 key")
	var j struct {
		Kty string `json:"kty"`
		Crv string `json:"crv"`
		D   string `json:"d"`
		X   string `json:"x"`
		Y   string `json:"y"`
	}
	if json.Unmarshal(text, &j) != nil {
		return nil, bad
	}
	raw := func(s string) []byte {
		b, err := base64.RawURLEncoding.Strict().DecodeString(s)
		if err != nil || len(b) != 32 {
			return nil
		}
		return b
	}
	d, x, y := raw(j.D), raw(j.X), raw(j.Y)
	if d == nil || x == nil {
		return nil, bad
	}
	switch {
	case j.Kty == "OKP" && j.Crv == "Ed25519":
		k := ed25519.NewKeyFromSeed(d)
		if !bytes.Equal(k[32:], x) {
			return nil, errors.New("client: the public key of the JWK does not belong to its private key")
		}
		return k, nil
	case j.Kty == "EC" && j.Crv == "P-256" && y != nil:
		k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d)
		if err != nil {
			return nil, bad
		}
		point, err := k.PublicKey.Bytes()
		if err != nil || !bytes.Equal(point[1:], append(x, y...)) {
			return nil, errors.New("client: the public key of the JWK does not belong to its private key")
		}
		return k, nil
	}
	return nil, bad
}
