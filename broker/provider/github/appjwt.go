package github

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
)

// GitHub refuses a JWT that is issued in its future or that lives more than ten
// minutes from its own clock on. Starting a minute early and ending a minute
// early leaves a minute of difference between the clocks in both directions.
const (
	jwtBefore = time.Minute
	jwtAfter  = 9 * time.Minute
	jwtReuse  = 4 * time.Minute // signing costs a millisecond; reuse it while most of its life is left
	minBits   = 2048
)

// app says who the App is. It is safe for concurrent use.
type app struct {
	issuer string
	file   string
	now    func() time.Time

	mu    sync.Mutex
	token secret.Secret
	made  time.Time
}

// jwt returns the JWT of the App, a new one when the last is getting old. fresh
// reports that its key was read just now.
func (a *app) jwt() (token secret.Secret, fresh bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if age := now.Sub(a.made); !a.token.Empty() && age >= 0 && age < jwtReuse {
		return a.token, false, nil
	}
	key, err := readKey(a.file)
	if err != nil {
		return secret.Secret{}, false, err
	}
	signed, err := jose.Sign(key, jose.SignHeader{Type: "JWT"}, struct {
		IssuedAt int64  `json:"iat"`
		Expiry   int64  `json:"exp"`
		Issuer   string `json:"iss"`
	}{now.Add(-jwtBefore).Unix(), now.Add(jwtAfter).Unix(), a.issuer})
	if err != nil {
		return secret.Secret{}, false, fmt.Errorf("signing the App's JWT: %w", err)
	}
	a.token, a.made = secret.New(signed), now
	return a.token, true, nil
}

// forget makes the next jwt read the key again: GitHub did not like this one.
func (a *app) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = secret.Secret{}
}

// readKey reads an RSA key in PEM, in the form that GitHub hands out (PKCS #1) or
// in PKCS #8. Errors hold nothing of the file.
func readKey(file string) (*rsa.PrivateKey, error) {
	text, err := secret.Read(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(text.Reveal()))
	if block == nil {
		return nil, fmt.Errorf("%s is no PEM file: download the key again from the App's settings", file)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s holds no private key of a kind that is understood: GitHub's are RSA", file)
		}
		is := false
		if key, is = parsed.(*rsa.PrivateKey); !is {
			return nil, fmt.Errorf("%s holds no RSA key: GitHub Apps have no other", file)
		}
	}
	if key.N.BitLen() < minBits {
		return nil, errors.New("the key of the App is shorter than 2048 bits")
	}
	return key, nil
}
