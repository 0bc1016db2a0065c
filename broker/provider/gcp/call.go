package gcp

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// maxAnswer is the maximum size of a response in bytes: a token from the exchange has up to
// 12 KiB.
const maxAnswer = 256 << 10

// apiError is a response with an error status.
type apiError struct {
	Code   int
	Status string // google.rpc.Code or an OAuth error; "" when the response has neither
}

// Error implements error. It leaves out the service's messages, because they repeat parts of
// the request.
func (e *apiError) Error() string {
	if e.Status == "" {
		return fmt.Sprintf("HTTP %d", e.Code)
	}
	return fmt.Sprintf("HTTP %d %s", e.Code, e.Status)
}

// status returns the Status of an apiError, "" for other errors.
func status(err error) string {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.Status
	}
	return ""
}

// postJSON calls a method of a Google API.
func (d *Driver) postJSON(ctx context.Context, to string, login secret.Secret, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+login.Reveal())
	return d.send(d.client, r, out)
}

// postForm calls a token endpoint (RFC 6749 section 4.5, RFC 8693 section 2.1). It sends no
// Authorization header, because sts.googleapis.com refuses one.
func (d *Driver) postForm(ctx context.Context, to string, form url.Values, out any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return d.send(d.client, r, out)
}

func (d *Driver) send(client *http.Client, r *http.Request, out any) error {
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "ebb")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	if r.Header.Get("Metadata-Flavor") != "" && answer.Header.Get("Metadata-Flavor") != "Google" {
		_ = answer.Body.Close()
		return errors.New("the response is not from a metadata server (Metadata-Flavor is missing); check that ebb runs on Google Cloud")
	}
	text, err := provider.ReadBody(answer, maxAnswer)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return judge(answer, text, d.now())
	}
	if err := json.Unmarshal(text, out); err != nil {
		return errors.New("the response is not JSON of the expected form") // err may contain parts of the response
	}
	return nil
}

// statusForm matches a google.rpc.Code or an error code of OAuth.
var statusForm = lazyregexp.New(`^([A-Z_]{1,40}|[a-z_]{1,40})$`)

// judge converts an error response: {"error": {"status": ...}} of Google's APIs or {"error":
// "..."} of RFC 6749 section 5.2.
func judge(answer *http.Response, text []byte, now time.Time) error {
	e := &apiError{Code: answer.StatusCode}
	var doc struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &doc) == nil {
		var api struct {
			Status string `json:"status"`
		}
		var code string
		if json.Unmarshal(doc.Error, &code) != nil && json.Unmarshal(doc.Error, &api) == nil {
			code = api.Status
		}
		if statusForm.MatchString(code) {
			e.Status = code
		}
	}
	if e.Code != http.StatusTooManyRequests {
		return e
	}
	return provider.Busy(answer.Header, now, time.Second, e)
}

const minBits = 2048

// key is the JSON key of a service account.
type key struct {
	email, id string
	private   *rsa.PrivateKey
}

// readKey reads the key of a service account. It refuses other kinds of credential files,
// because some of them name servers to request tokens from and programs to run. Errors
// contain nothing from the file.
func readKey(path string) (key, error) {
	text, err := secret.Read(path)
	if err != nil {
		return key{}, err
	}
	var doc struct {
		Type       string `json:"type"`
		Email      string `json:"client_email"`
		ID         string `json:"private_key_id"`
		PrivateKey string `json:"private_key"`
	}
	if json.Unmarshal([]byte(text.Reveal()), &doc) != nil || doc.Type != "service_account" || !accountForm.MatchString(doc.Email) || doc.ID == "" {
		return key{}, fmt.Errorf("%s is not the JSON key of a service account", path)
	}
	block, _ := pem.Decode([]byte(doc.PrivateKey))
	if block == nil {
		return key{}, fmt.Errorf("%s contains no private key in PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, isRSA := parsed.(*rsa.PrivateKey)
	if err != nil || !isRSA || private.N.BitLen() < minBits {
		return key{}, fmt.Errorf("%s contains no RSA key of at least %d bits", path, minBits)
	}
	return key{email: doc.Email, id: doc.ID, private: private}, nil
}

// login is the broker's own token. One caller at a time renews it. Each waiting caller waits
// only until its ctx ends.
type login struct {
	turn  chan struct{} // a semaphore of one
	token secret.Secret
	until time.Time // the token is renewed from then on
}

func newLogin() *login { return &login{turn: make(chan struct{}, 1)} }

// assertionLife is Google's maximum; the token has the same lifetime.
const assertionLife = time.Hour

// me returns the broker's own token; dead is one that was refused.
func (d *Driver) me(ctx context.Context, dead secret.Secret) (secret.Secret, error) {
	l := d.login
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return secret.Secret{}, ctx.Err()
	}
	now := d.now()
	if !l.token.Empty() && now.Before(l.until) && (dead.Empty() || !l.token.Equal(dead)) {
		return l.token, nil
	}
	var answer struct {
		Token   string `json:"access_token"`
		Expires int64  `json:"expires_in"`
		Type    string `json:"token_type"`
	}
	var err error
	if d.cfg.Metadata {
		err = d.askMachine(ctx, &answer)
	} else {
		err = d.askByKey(ctx, now, &answer)
	}
	if err != nil {
		return secret.Secret{}, fmt.Errorf("gcp: the broker's own login: %w", err)
	}
	if answer.Token == "" || answer.Type != "Bearer" || answer.Expires < 0 {
		return secret.Secret{}, errors.New("gcp: the response to the broker's own login has no token")
	}
	// A metadata server returns the same token until shortly before its expiry, so renewing
	// it after two thirds of its lifetime would have no effect.
	life := min(time.Duration(answer.Expires)*time.Second, assertionLife)
	l.token, l.until = secret.New(answer.Token), now.Add(life-min(life/3, 5*time.Minute))
	return l.token, nil
}

// askByKey logs in with the JWT bearer grant (RFC 7523 section 2.1).
func (d *Driver) askByKey(ctx context.Context, now time.Time, out any) error {
	k, err := readKey(d.cfg.KeyFile) // read each time, so that the file can be replaced
	if err != nil {
		return err
	}
	to := d.cfg.Endpoints.OAuth + "/token"
	assertion, err := jose.Sign(k.private, jose.SignHeader{Type: "JWT", KID: k.id}, struct {
		Issuer   string `json:"iss"`
		Scope    string `json:"scope"`
		Audience string `json:"aud"`
		IssuedAt int64  `json:"iat"`
		Expiry   int64  `json:"exp"`
	}{k.email, cloudPlatform, to, now.Unix(), now.Add(assertionLife).Unix()})
	if err != nil {
		return err
	}
	return d.postForm(ctx, to, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}}, out)
}

// askMachine requests a token from the metadata server. It is on the machine's own link, so
// no proxy is used, and the response must identify it as a metadata server.
func (d *Driver) askMachine(ctx context.Context, out any) error {
	to := d.cfg.Endpoints.Metadata + "/computeMetadata/v1/instance/service-accounts/default/token?scopes=" + url.QueryEscape(cloudPlatform)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Metadata-Flavor", "Google")
	return d.send(d.direct, r, out)
}
