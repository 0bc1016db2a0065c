package aws_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
)

// sts is a fake STS. It computes Signature Version 4 from the request that arrived,
// with its own code after AWS's specification, and responds in AWS's formats.
type sts struct {
	URL, host string

	t     testing.TB
	clock *attesttest.Clock

	mu       sync.Mutex
	keys     map[string]login
	asked    int
	status   int
	answer   string
	location string
}

// login is a pair of keys with its owner.
type login struct {
	id, secret, token    string
	account, arn, userID string
}

const (
	region  = "eu-west-1"
	issuer  = "https://ebb.example"
	account = "123456789012"
)

var (
	roleLogin = login{"ASIAABCDEFGHIJKLMNOP", "role-secret", "Rm9vQmFy/+tokenOfTheRole==", account,
		"arn:aws:sts::123456789012:assumed-role/worker/task-42", "AROAABCDEFGHIJKLMNOPQ:task-42"}
	ec2Login = login{"ASIAEC2EC2EC2EC2EC2E", "ec2-secret", "dG9rZW5PZlRoZUluc3RhbmNl", account,
		"arn:aws:sts::123456789012:assumed-role/box/i-0123456789abcdef0", "AROABOXBOXBOXBOXBOXBX:i-0123456789abcdef0"}
	identityLogin = login{"ASIAIDENTITYIDENTITY", "identity-secret", "dG9rZW5PZlRoZUlkZW50aXR5", account,
		"arn:aws:sts::123456789012:assumed-role/aws:ec2-instance/i-0123456789abcdef0", "123456789012:aws:ec2-instance:i-0123456789abcdef0"}
	userLogin = login{"AKIAABCDEFGHIJKLMNOP", "user-secret", "", account,
		"arn:aws:iam::123456789012:user/team/ann", "AIDAABCDEFGHIJKLMNOPQ"}
	sessionLogin   = login{"ASIAUSERUSERUSERUSER", "session-secret", "dG9rZW5PZlRoZVVzZXI=", account, userLogin.arn, userLogin.userID}
	federatedLogin = login{"ASIAFEDERATEDFEDERAT", "federated-secret", "dG9rZW5PZkZlZGVyYXRlZA==", account,
		"arn:aws:sts::123456789012:federated-user/bob", "123456789012:bob"}
	rootLogin = login{"ASIAROOTROOTROOTROOT", "root-secret", "dG9rZW5PZlJvb3Q=", account,
		"arn:aws:iam::123456789012:root", account}
	foreignLogin = login{"ASIAFOREIGNFOREIGNFO", "foreign-secret", "dG9rZW5PZkZvcmVpZ24=", "999999999999",
		"arn:aws:sts::999999999999:assumed-role/worker/task-42", "AROAZYXWVUTSRQPONMLKJ:task-42"}
	expiredLogin = login{id: "ASIAEXPIREDEXPIREDEX", secret: "expired-secret", token: "dG9rZW5PZkV4cGlyZWQ="}
)

func newSTS(t testing.TB, clock *attesttest.Clock) *sts {
	t.Helper()
	s := &sts{t: t, clock: clock, keys: map[string]login{}}
	for _, l := range []login{roleLogin, ec2Login, identityLogin, userLogin, sessionLogin, federatedLogin, rootLogin, foreignLogin, expiredLogin} {
		s.keys[l.id] = l
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

// says sets the response for all requests. Status 0 restores the normal behaviour.
func (s *sts) says(status int, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.answer = status, answer
}

func (s *sts) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *sts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked++
	status, answer, location := s.status, s.answer, s.location
	s.mu.Unlock()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.onlyThat(r, b)
	if location != "" {
		w.Header().Set("Location", location)
	}
	if status == 0 {
		status, answer = s.judge(r, b)
	}
	w.WriteHeader(status)
	io.WriteString(w, answer) //nolint:errcheck // the client has gone
}

// onlyThat fails the test on any request other than the one that ebb may send.
func (s *sts) onlyThat(r *http.Request, body []byte) {
	if r.Method != "POST" || r.RequestURI != "/" || r.Host != s.host || string(body) != "Action=GetCallerIdentity&Version=2011-06-15" {
		s.t.Errorf("STS was asked %s %s at %s with %q", r.Method, r.RequestURI, r.Host, body)
	}
	known := []string{"Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "User-Agent",
		"X-Amz-Content-Sha256", "X-Amz-Date", "X-Amz-Security-Token", "X-Ebb-Issuer", "X-Ebb-Nonce"}
	for name, values := range r.Header {
		if !slices.Contains(known, name) || len(values) != 1 {
			s.t.Errorf("STS got the header %s with %d values", name, len(values))
		}
	}
	if r.Header.Get("X-Ebb-Issuer") != issuer || r.Header.Get("Accept") != "application/json" {
		s.t.Errorf("STS got %v", r.Header)
	}
}

func (s *sts) judge(r *http.Request, body []byte) (int, string) {
	rest, sigv4 := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	parts := map[string]string{}
	for p := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		parts[name] = value
	}
	scope := strings.Split(parts["Credential"], "/")
	if !sigv4 || len(scope) != 5 || scope[3] != "sts" || scope[4] != "aws4_request" {
		return refusal(400, "IncompleteSignature")
	}
	key, known := s.keys[scope[0]]
	if !known || r.Header.Get("X-Amz-Security-Token") != key.token {
		return refusal(403, "InvalidClientTokenId")
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if d := s.clock.Now().Sub(at); err != nil || d > 15*time.Minute || d < -15*time.Minute || scope[2] != region {
		return refusal(403, "SignatureDoesNotMatch")
	}
	signed := strings.Split(parts["SignedHeaders"], ";")
	for name := range r.Header { // every header of AWS's own must be signed
		if n := strings.ToLower(name); strings.HasPrefix(n, "x-amz-") && !slices.Contains(signed, n) {
			return refusal(403, "SignatureDoesNotMatch")
		}
	}
	if hex.EncodeToString(sign(key.secret, scope, r, signed, body)) != parts["Signature"] {
		return refusal(403, "SignatureDoesNotMatch")
	}
	if key.userID == "" {
		return refusal(403, "ExpiredToken")
	}
	return 200, identity(key.account, key.arn, key.userID)
}

// sign computes Signature Version 4, written from its specification.
func sign(secret string, scope []string, r *http.Request, signed []string, body []byte) []byte {
	mac := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	var canonical bytes.Buffer
	canonical.WriteString(r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n")
	for _, name := range signed {
		value := strings.TrimSpace(r.Header.Get(name))
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		canonical.WriteString(name + ":" + value + "\n")
	}
	sum := sha256.Sum256(body)
	canonical.WriteString("\n" + strings.Join(signed, ";") + "\n" + hex.EncodeToString(sum[:]))
	hash := sha256.Sum256(canonical.Bytes())
	text := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + strings.Join(scope[1:], "/") + "\n" + hex.EncodeToString(hash[:])
	key := []byte("AWS4" + secret)
	for _, part := range scope[1:] {
		key = mac(key, part)
	}
	return mac(key, text)
}

func refusal(status int, code string) (int, string) {
	return status, `{"Error":{"Code":"` + code + `","Message":"no","Type":"Sender"},"RequestId":"11111111-2222-3333-4444-555555555555"}`
}

func identity(account, arn, userID string) string {
	b, _ := json.Marshal(map[string]any{"GetCallerIdentityResponse": map[string]any{
		"GetCallerIdentityResult": map[string]string{"Account": account, "Arn": arn, "UserId": userID},
		"ResponseMetadata":        map[string]string{"RequestId": "11111111-2222-3333-4444-555555555555"},
	}})
	return string(b)
}
