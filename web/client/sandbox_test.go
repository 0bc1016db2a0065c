package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

const sandboxID = "sbx_1"

var readScope = "orders:eu/42:read"

func (f *fake) sandbox(t testing.TB, key jose.Signer, taskToken string) *client.Sandbox {
	t.Helper()
	s, err := client.NewSandbox(client.SandboxConfig{
		Config: client.Config{Issuer: issuer, HTTP: &http.Client{Transport: f}, Now: f.now},
		Key:    key, ClientID: f.client, TaskToken: secret.New(taskToken),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEnrol(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "", time.Now)
	s := f.sandbox(t, key, "")
	if _, err := s.Token(t.Context(), client.TokenRequest{Scope: readScope}); err == nil || len(f.forms) != 0 {
		t.Errorf("a sandbox that never enrolled asked: %v", err)
	}
	if err := s.Revoke(t.Context(), secret.New("x")); err == nil {
		t.Error("a sandbox that never enrolled revoked")
	}
	f.script = func(w http.ResponseWriter, r *http.Request, _ []byte) {
		if r.Header.Get("Authorization") != "" {
			t.Error("an enrolment carried an access token")
		}
		answer(w, 200, map[string]any{"task_token": "TASK-TOKEN", "token_type": "DPoP", "expires_at": "2026-11-20T13:00:00Z", "task_id": "tsk_1", "client_id": sandboxID})
	}
	e, err := s.Enrol(t.Context(), secret.New("ebb_tkt_x"))
	if err != nil || e.TaskID != "tsk_1" || e.ClientID != sandboxID || e.TaskToken.Reveal() != "TASK-TOKEN" || e.ExpiresAt.IsZero() {
		t.Fatalf("Enrol = %+v, %v", e, err)
	}
	if _, err := s.EnrolEvidence(t.Context(), "tsk_1", "github", "a.b.c"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`POST /v1/enroll {"ticket":"ebb_tkt_x"}`, `POST /v1/enroll {"task_id":"tsk_1","evidence":"a.b.c","attestor":"github"}`} {
		if f.calls[i] != want {
			t.Errorf("got %s\nwant %s", f.calls[i], want)
		}
	}
	f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) { answer(w, 200, map[string]any{}) }
	if _, err := s.Enrol(t.Context(), secret.New("t")); err == nil {
		t.Error("an empty answer passed for an enrolment")
	}
}

func grant(w http.ResponseWriter) {
	answer(w, 200, map[string]any{"access_token": "ACCESS", "token_type": "DPoP", "expires_in": 300, "scope": readScope, "lease_id": "lse_1",
		"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"})
}

func TestTokenForms(t *testing.T) {
	t.Parallel()
	now := time.Now()
	full := client.TokenRequest{
		Scope: readScope, Resource: "https://orders.test", TTL: 90*time.Second + time.Millisecond, Tool: "git", Reason: "päck & ship",
		Details: []wire.Detail{{Provider: "orders", Identifier: "eu/42", Actions: []string{"read"}}}, Wait: true,
	}
	for _, tc := range []struct {
		name, taskToken string
		req             client.TokenRequest
		want            map[string]string
	}{
		{"least", "TT", client.TokenRequest{Scope: readScope}, map[string]string{
			"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "TT",
			"subject_token_type": "urn:ebb:params:oauth:token-type:task", "scope": "orders:eu/42:read"}},
		{"most", "TT", full, map[string]string{
			"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "TT",
			"subject_token_type": "urn:ebb:params:oauth:token-type:task", "scope": "orders:eu/42:read", "resource": "https://orders.test",
			"requested_expiry": "90", "tool": "git", "reason": "päck & ship", "completion_mode": "deferred",
			"authorization_details": `[{"type":"ebb_credential","provider":"orders","identifier":"eu/42","actions":["read"]}]`}},
		{"without a task token", "", client.TokenRequest{Scope: readScope, TTL: time.Millisecond}, map[string]string{
			"grant_type": "client_credentials", "scope": "orders:eu/42:read", "requested_expiry": "1", "client_id": sandboxID, "client_assertion": "*", "client_assertion_type": "*"}},
	} {
		f, key := newFake(t, sandboxID, func() time.Time { return now })
		f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) { grant(w) }
		c, err := f.sandbox(t, key, tc.taskToken).Token(t.Context(), tc.req)
		if err != nil || c.Token.Reveal() != "ACCESS" || c.Type != "DPoP" || !c.ExpiresAt.Equal(now.Add(5*time.Minute)) || c.Scope != readScope || c.LeaseID != "lse_1" || c.Resource != tc.req.Resource {
			t.Errorf("%s: %+v, %v", tc.name, c, err)
		}
		got := f.forms[0]
		for name, want := range tc.want {
			if got.Get(name) != want && (want != "*" || got.Get(name) == "") {
				t.Errorf("%s: %s = %q, want %q", tc.name, name, got.Get(name), want)
			}
		}
		if len(got) != len(tc.want) {
			t.Errorf("%s: parameters %v", tc.name, got)
		}
	}
	f, key := newFake(t, sandboxID, time.Now)
	if _, err := f.sandbox(t, key, "TT").Token(t.Context(), client.TokenRequest{}); err == nil {
		t.Error("a request without a scope was sent")
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	for _, taskToken := range []string{"TT", ""} {
		f, key := newFake(t, sandboxID, time.Now)
		f.script = func(w http.ResponseWriter, r *http.Request, _ []byte) {
			if r.URL.Path != "/oauth2/revoke" || taskToken != "" && r.Header.Get("Authorization") != "DPoP TT" {
				t.Errorf("%s with %q", r.URL.Path, r.Header.Get("Authorization"))
			}
			w.WriteHeader(200)
		}
		if err := f.sandbox(t, key, taskToken).Revoke(t.Context(), secret.New("ACCESS")); err != nil {
			t.Fatal(err)
		}
		if f.forms[0].Get("token") != "ACCESS" || f.forms[0].Has("client_assertion") != (taskToken == "") {
			t.Errorf("form %v", f.forms[0])
		}
	}
}

// step is one response to a poll, and the expected time after the previous one.
type step struct {
	after time.Duration
	do    func(http.ResponseWriter)
}

func oauth(status int, code string, more map[string]any, head ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i+1 < len(head); i += 2 {
			w.Header().Set(head[i], head[i+1])
		}
		v := map[string]any{"error": code, "error_description": "D."}
		for name, val := range more {
			v[name] = val
		}
		answer(w, status, v)
	}
}

var pending = oauth(400, "authorization_pending", map[string]any{"deferral_code": "ebb_dfr_CODE", "expires_in": 600, "interval": 3})

// A83-A85, H53: the poll interval of a waiting client, in fake time.
func TestWait(t *testing.T) {
	t.Parallel()
	hangUp := func(http.ResponseWriter) { panic("hang up") }
	for _, tc := range []struct {
		name  string
		steps []step
		want  wire.Kind // "" = a token
	}{
		{"approved at once", []step{{3 * time.Second, grant}}, ""},
		{"approved later", []step{{3 * time.Second, pending}, {3 * time.Second, pending}, {3 * time.Second, grant}}, ""},
		{"slow_down adds five seconds for good", []step{
			{3 * time.Second, oauth(400, "slow_down", nil)}, {8 * time.Second, pending}, {8 * time.Second, oauth(400, "slow_down", map[string]any{"interval": 60})},
			{60 * time.Second, grant}}, ""},
		{"Retry-After counts", []step{{3 * time.Second, oauth(400, "authorization_pending", nil, "Retry-After", "30")}, {30 * time.Second, grant}}, ""},
		{"unavailable for a while", []step{
			{3 * time.Second, oauth(503, "temporarily_unavailable", nil, "Retry-After", "20")}, {20 * time.Second, oauth(503, "temporarily_unavailable", nil)},
			{4 * time.Second, hangUp}, {8 * time.Second, hangUp}, {16 * time.Second, pending}, {3 * time.Second, grant}}, ""},
		{"denied", []step{{3 * time.Second, oauth(400, "access_denied", map[string]any{"advice": map[string]any{"decision": "denied", "code": "too_broad"}})}}, wire.KindDenied},
		{"expired", []step{{3 * time.Second, oauth(400, "expired_token", nil)}}, wire.KindExpiredRequest},
		{"taken back", []step{{3 * time.Second, oauth(400, "invalid_grant", nil)}}, wire.KindInvalidGrant},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, key := newFake(t, sandboxID, time.Now)
			s := f.sandbox(t, key, "TT")
			var last time.Time
			at := -1
			f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				if at++; at == 0 {
					last = time.Now()
					pending(w)
					return
				}
				if form := f.forms[at]; len(form) != 2 || form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:deferred" || form.Get("deferral_code") != "ebb_dfr_CODE" {
					t.Errorf("%s: poll %v repeats the request", tc.name, form)
				}
				st := tc.steps[at-1]
				if got := time.Since(last); got != st.after {
					t.Errorf("%s: poll %d after %v, want %v", tc.name, at, got, st.after)
				}
				last = time.Now()
				st.do(w)
			}
			told := 0
			c, err := waiting(s, f, client.TokenRequest{Scope: readScope, Wait: true, Resource: "https://orders.test", Pending: func(p client.Pending) {
				if told++; p.Interval != 3*time.Second || p.ExpiresIn != 10*time.Minute {
					t.Errorf("%s: told %+v", tc.name, p)
				}
			}})
			if at != len(tc.steps) || told != 1 {
				t.Errorf("%s: %d polls, told %d times", tc.name, at, told)
			}
			if tc.want == "" {
				if err != nil || c.Token.Reveal() != "ACCESS" || c.Resource != "https://orders.test" {
					t.Errorf("%s: %v", tc.name, err)
				}
			} else if !client.IsKind(err, tc.want) {
				t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
			}
			if err != nil && strings.Contains(fmt.Sprintf("%+v", err), "CODE") {
				t.Errorf("%s: the code is in the error", tc.name)
			}
		})
	}
}

// waiting turns a panic of the script into a broken connection.
func waiting(s *client.Sandbox, f *fake, r client.TokenRequest) (client.Credential, error) {
	inner := f.script
	f.script = func(w http.ResponseWriter, r *http.Request, b []byte) {
		defer func() {
			if recover() != nil {
				w.Header().Set("X-Hang-Up", "1")
			}
		}()
		inner(w, r, b)
	}
	return s.Token(context.Background(), r)
}

func TestWaitGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, key := newFake(t, sandboxID, time.Now)
		f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) { pending(w) }
		s := f.sandbox(t, key, "TT")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		_, err := s.Token(ctx, client.TokenRequest{Scope: readScope, Wait: true})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		// The request is never decided, and ebb does not report its expiry.
		began = time.Now()
		_, err = s.Token(t.Context(), client.TokenRequest{Scope: readScope, Wait: true})
		if !client.IsKind(err, wire.KindPending) || time.Since(began) > 11*time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		// Without Wait the response is returned at once.
		f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			oauth(400, "interaction_required", nil)(w)
		}
		if _, err := s.Token(t.Context(), client.TokenRequest{Scope: readScope}); !client.IsKind(err, wire.KindAskRequired) {
			t.Errorf("without Wait: %v", err)
		}
	})
}
