package kubernetes

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// maxAnswer is the maximum size of a response in bytes, above a page of 500 objects without
// their contents.
const maxAnswer = 4 << 20

// metadataOnly requests names and labels only, so that ebb never receives the contents of Secrets.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// api is a client of one API server.
type api struct {
	base      string
	tokenFile string // "" means that the client certificate is the login
	client    *http.Client
	now       func() time.Time
}

func newAPI(c Config, now func() time.Time) (*api, error) {
	base, err := c.base()
	if err != nil {
		return nil, err
	}
	pool, err := provider.Roots(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	h := provider.HTTP{Roots: pool, Timeout: c.Timeout}
	if c.CertificateFile != "" {
		h.Certificate = c.certificate
	}
	return &api{base: base, tokenFile: c.TokenFile, client: h.Client(), now: now}, nil
}

// meta has the members of an object's metadata that ebb reads.
type meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	DeletionTimestamp string            `json:"deletionTimestamp,omitempty"`
}

// statusError is a response with an error status. A Status with a Reason is a decision of
// the API server; without a Reason the response may come from a proxy.
type statusError struct {
	Code    int
	Reason  string // such as NotFound; "" when the response is not a Status with that code
	Message string // the server's message, without the broker's login
}

// Error implements error.
func (e *statusError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("HTTP %d, not in the API's form", e.Code)
	}
	return fmt.Sprintf("HTTP %d %s: %q", e.Code, e.Reason, e.Message)
}

// reason returns the Reason of the API server in an error, "" for none.
func reason(err error) string {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.Reason
	}
	return ""
}

var reasonForm = lazyregexp.New(`^[A-Za-z]{1,64}$`)

// request is one call.
type request struct {
	method, path string
	query        url.Values
	accept       string // "" means application/json
	body         any    // nil for none
}

// call sends a request and decodes the response into out. After an error that is neither a
// *statusError with a Reason nor a *provider.BusyError, it is unknown whether the server did
// the work.
func (a *api) call(ctx context.Context, q request, out any) error {
	var body []byte
	if q.body != nil {
		var err error
		if body, err = json.Marshal(q.body); err != nil {
			return err
		}
	}
	to := a.base + q.path
	if len(q.query) > 0 {
		to += "?" + q.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, q.method, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "ebb")
	r.Header.Set("Accept", "application/json")
	if q.accept != "" {
		r.Header.Set("Accept", q.accept)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	login := ""
	if a.tokenFile != "" {
		s, err := secret.Read(a.tokenFile)
		if err != nil {
			return fmt.Errorf("token_file: %w", err)
		}
		login = s.Reveal()
		r.Header.Set("Authorization", "Bearer "+login)
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return err
	}
	text, err := provider.ReadBody(answer, maxAnswer)
	if err != nil {
		return err
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return a.judge(answer, text, login)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return errors.New("the response is not JSON of the expected form") // err may contain parts of the response
	}
	return nil
}

// judge converts a response with an error status.
func (a *api) judge(answer *http.Response, text []byte, login string) error {
	e := &statusError{Code: answer.StatusCode}
	var s struct {
		Kind    string `json:"kind"`
		Code    int    `json:"code"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &s) == nil && s.Kind == "Status" && s.Code == e.Code && reasonForm.MatchString(s.Reason) {
		e.Reason, e.Message = s.Reason, s.Message
		if login != "" {
			e.Message = strings.ReplaceAll(e.Message, login, "[redacted]")
		}
		e.Message = e.Message[:min(len(e.Message), 300)]
	}
	if e.Code != http.StatusTooManyRequests {
		return e
	}
	return provider.Busy(answer.Header, a.now(), time.Second, e)
}

// maxToken is the maximum size of a token, far above that of service account tokens, and
// small enough for a header.
const maxToken = 16 << 10

// claims are the claims of a service account token that ebb checks. ebb does not verify the
// signature, because the token comes from the API server over an authenticated connection.
type claims struct {
	Subject    string   `json:"sub"`
	Audience   []string `json:"aud"`
	Expiry     int64    `json:"exp"`
	Kubernetes struct {
		Namespace      string    `json:"namespace"`
		ServiceAccount claimsRef `json:"serviceaccount"`
		Secret         claimsRef `json:"secret"`
	} `json:"kubernetes.io"`
}

type claimsRef struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// readClaims decodes the payload of a compact JWS.
func readClaims(token string) (c claims, err error) {
	bad := errors.New("kubernetes: the token in the response is not a service account token")
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return c, bad
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &c) != nil {
		return c, bad // the errors may contain parts of the token
	}
	return c, nil
}

// maxExpiry keeps time arithmetic within its range: the year 9999.
const maxExpiry = 253402300799

// accept checks that a token belongs to the account, has exactly the audiences, and is bound
// to the Secret; otherwise it could not be revoked. It returns the token's exp, which
// status.expirationTimestamp may precede.
func accept(token string, acc Account, audiences []string, secret, uid string) (time.Time, error) {
	c, err := readClaims(token)
	if err != nil {
		return time.Time{}, err
	}
	k := c.Kubernetes
	switch {
	case c.Subject != "system:serviceaccount:"+acc.Namespace+":"+acc.ServiceAccount || k.Namespace != acc.Namespace || k.ServiceAccount.Name != acc.ServiceAccount:
		return time.Time{}, errors.New("kubernetes: the token belongs to another service account")
	case k.Secret.Name != secret || k.Secret.UID != uid:
		return time.Time{}, errors.New("kubernetes: the token is not bound to the Secret of its lease, so it could not be revoked")
	case len(audiences) == 0 || !slices.Equal(slices.Sorted(slices.Values(c.Audience)), slices.Sorted(slices.Values(audiences))):
		return time.Time{}, errors.New("kubernetes: the token has other audiences than requested")
	case c.Expiry <= 0 || c.Expiry > maxExpiry:
		return time.Time{}, errors.New("kubernetes: the token has no valid exp")
	}
	return time.Unix(c.Expiry, 0), nil
}
