package aws_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/aws"
)

const requestBody = "Action=GetCallerIdentity&Version=2011-06-15"

// bed is an attestor, a fake STS, and a sandbox with a key.
type bed struct {
	*sts
	aws   *aws.Attestor
	key   attest.Key
	nonce *attest.Nonces
}

func nonces(t testing.TB, fill byte) *attest.Nonces {
	t.Helper()
	n, err := attest.NewNonces(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newBed(t testing.TB, change func(*aws.Config)) *bed {
	t.Helper()
	clock := attesttest.NewClock()
	b := &bed{sts: newSTS(t, clock), key: attesttest.NewKey(t), nonce: nonces(t, 1)}
	c := aws.Config{Name: "cloud", Issuer: issuer, Nonces: b.nonce, Accounts: []string{account}, Regions: []string{region}, Endpoint: b.URL, Now: clock.Now}
	if change != nil {
		change(&c)
	}
	var err error
	if b.aws, err = aws.New(c); err != nil {
		t.Fatal(err)
	}
	return b
}

// ask has the values that a caller signs.
type ask struct {
	login      login
	method     string
	url, body  string
	region     string
	service    string
	at         time.Time
	header     http.Header
	nonce, iss string
}

// document signs a request with AWS's own signer, as the page describes, and returns
// the evidence. change modifies the request before it is signed.
func (b *bed) document(t testing.TB, change func(*ask)) map[string]string {
	t.Helper()
	c, err := b.aws.Challenge(t.Context(), attest.Evidence{Key: b.key})
	if err != nil {
		t.Fatal(err)
	}
	a := ask{login: roleLogin, method: "POST", url: b.URL + "/", body: requestBody, region: region, service: "sts", at: b.clock.Now(),
		header: http.Header{}, nonce: c.Nonce, iss: issuer}
	if change != nil {
		change(&a)
	}
	return a.document(t, c.Nonce)
}

// document signs the request and returns the evidence for a nonce.
func (a *ask) document(t testing.TB, nonce string) map[string]string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), a.method, a.url, strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = a.header
	if a.nonce != "" {
		r.Header.Set("x-ebb-nonce", a.nonce)
	}
	if a.iss != "" {
		r.Header.Set("x-ebb-issuer", a.iss)
	}
	sum := sha256.Sum256([]byte(a.body))
	who := sdk.Credentials{AccessKeyID: a.login.id, SecretAccessKey: a.login.secret, SessionToken: a.login.token}
	if err := v4.NewSigner().SignHTTP(t.Context(), who, r, hex.EncodeToString(sum[:]), a.service, a.region, a.at); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"nonce": nonce, "region": region, "authorization": r.Header.Get("Authorization"), "x_amz_date": r.Header.Get("X-Amz-Date")}
	if a.login.token != "" {
		out["x_amz_security_token"] = a.login.token
	}
	return out
}

func (b *bed) shown(t testing.TB, doc map[string]string) attest.Evidence {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return attest.Evidence{Attestor: "cloud", Document: text, Key: b.key}
}

func (b *bed) evidence(t testing.TB, change func(*ask)) attest.Evidence {
	t.Helper()
	return b.shown(t, b.document(t, change))
}

func as(l login) func(*ask) { return func(a *ask) { a.login = l } }
