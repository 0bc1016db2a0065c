package verify

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/web/wire"
)

// ErrCursor is returned by a Feed for an unknown cursor.
var ErrCursor = errors.New("verify: the issuer does not know the cursor of the revocation feed any more")

func isCursor(err error) bool { return errors.Is(err, ErrCursor) }

const (
	feedEvents = 1000     // limit of one response
	maxBody    = 1 << 20  // bytes of one response; 1000 events are about 200 kB
	maxRefusal = 64 << 10 // bytes of an error response
)

// httpFeed reads ebb's feed as a principal with a private key. Only the loop in
// follow uses it, so it needs no lock.
type httpFeed struct {
	issuer, base string
	resource     string
	id, kid      string
	key          jose.Signer
	http         *http.Client
	now          func() time.Time

	nonces  [2]string // of the token endpoint and of the feed
	token   string
	expires time.Time
}

// refusal is a response that is not a success.
type refusal struct {
	status int
	code   string // OAuth error code or problem kind, "" for neither
}

func (r *refusal) Error() string {
	return fmt.Sprintf("verify: the issuer answered %d %s", r.status, r.code)
}

// Next implements Feed.
func (f *httpFeed) Next(ctx context.Context, cursor string, wait time.Duration) (Page, error) {
	q := url.Values{"limit": {strconv.Itoa(feedEvents)}}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if s := int64(wait / time.Second); s > 0 {
		q.Set("wait_seconds", strconv.FormatInt(s, 10))
	}
	var ans struct {
		Events []Event `json:"events"`
		Cursor string  `json:"cursor"`
		MaxAge int64   `json:"max_age_seconds"`
		// Audiences limits the feed to tokens for these audiences; absent = all
		// audiences.
		Audiences []string `json:"audiences"`
	}
	err := f.authorized(ctx, "/v1/revocations", q, &ans)
	var no *refusal
	if errors.As(err, &no) && cursor != "" && (no.code == "invalid_request" || no.status == http.StatusGone) {
		return Page{}, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	if err != nil {
		return Page{}, err
	}
	if len(ans.Audiences) > 0 && !slices.Contains(ans.Audiences, f.resource) {
		return Page{}, fmt.Errorf("verify: the revocation feed of principal %q does not cover tokens for %q, only for %s; add Resource to the audiences of the principal", f.id, f.resource, strings.Join(ans.Audiences, ", "))
	}
	return Page{
		Events: ans.Events, Cursor: ans.Cursor, Full: len(ans.Events) >= feedEvents,
		MaxAge: time.Duration(max(0, min(ans.MaxAge, 3600))) * time.Second,
	}, nil
}

// authorized makes a call with a token, once more with a new token when the old
// one is refused.
func (f *httpFeed) authorized(ctx context.Context, path string, q url.Values, out any) error {
	for again := false; ; again = true {
		if f.token == "" || !f.now().Before(f.expires) {
			if err := f.fetch(ctx); err != nil {
				return err
			}
		}
		err := f.call(ctx, http.MethodGet, path, q.Encode(), nil, f.token, out)
		var no *refusal
		if again || !errors.As(err, &no) || no.status != http.StatusUnauthorized || no.code == "invalid_dpop_proof" {
			return err
		}
		f.token = ""
	}
}

// fetch gets a token for the feed: client_credentials with private_key_jwt (RFC
// 7523), bound to the same key (RFC 9449).
func (f *httpFeed) fetch(ctx context.Context) error {
	now := f.now()
	assertion, err := jose.Sign(f.key, jose.SignHeader{Type: "client-authentication+jwt", KID: f.kid}, map[string]any{
		"iss": f.id, "sub": f.id, "aud": f.issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	form := url.Values{
		"grant_type": {"client_credentials"}, "resource": {f.issuer + "/v1"}, "client_id": {f.id},
		"client_assertion_type": {wire.AssertionTypeJWTBearer}, "client_assertion": {assertion},
	}
	var ans struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := f.call(ctx, http.MethodPost, "/oauth2/token", "", []byte(form.Encode()), "", &ans); err != nil {
		return err
	}
	if ans.AccessToken == "" || ans.TokenType != "DPoP" || ans.ExpiresIn <= 0 {
		return errors.New("verify: the issuer answered without a DPoP-bound token")
	}
	life := time.Duration(min(ans.ExpiresIn, 86400)) * time.Second
	f.token, f.expires = ans.AccessToken, now.Add(life-min(30*time.Second, life/5))
	return nil
}

// call makes one request with a proof, once more when a nonce is required.
func (f *httpFeed) call(ctx context.Context, method, path, query string, form []byte, token string, out any) error {
	nonce := &f.nonces[0]
	if token != "" {
		nonce = &f.nonces[1]
	}
	for again := false; ; again = true {
		used := *nonce
		resp, err := f.send(ctx, method, path, query, form, token, used)
		if err != nil {
			return err
		}
		if fresh := resp.Header.Get("DPoP-Nonce"); fresh != "" {
			*nonce = fresh
		}
		err = readAnswer(resp, out)
		_ = resp.Body.Close()
		var no *refusal
		if again || !errors.As(err, &no) || no.code != "use_dpop_nonce" || *nonce == used {
			return err
		}
	}
}

func (f *httpFeed) send(ctx context.Context, method, path, query string, form []byte, token, nonce string) (*http.Response, error) {
	proof, err := dpop.NewProof(f.key, method, f.issuer+path, token, nonce, f.now())
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	target := f.base + path
	if query != "" {
		target += "?" + query
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(form))
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if token != "" {
		req.Header.Set("Authorization", "DPoP "+token)
	}
	req.Header.Set("DPoP", proof)
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("verify: the issuer cannot be reached: %w", err)
	}
	return resp, nil
}

func readAnswer(resp *http.Response, out any) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK {
		no := &refusal{status: resp.StatusCode}
		var e struct {
			Error string `json:"error"`
			Type  string `json:"type"`
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		if err == nil && strings.HasSuffix(kind, "json") && json.Unmarshal(body, &e) == nil {
			no.code = e.Error + e.Type[strings.LastIndexByte(e.Type, '/')+1:]
		}
		if len(no.code) > 64 {
			no.code = ""
		}
		return no
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("verify: the response of the issuer ended early: %w", err)
	case kind != "application/json" || len(body) > maxBody || json.Unmarshal(body, out) != nil:
		return errors.New("verify: the response of the issuer is not valid JSON or larger than 1 MiB")
	}
	return nil
}
