package client_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
)

// Tokens and names sent by a server are printed, exported to a child process
// and written to header lines ('ebb token --use'). They must contain no
// terminal escapes and no line breaks.
func TestHostileNamesAndTokensAreRefused(t *testing.T) {
	t.Parallel()
	good := map[string]any{
		"access_token": "abc.DEF-_~+/=", "token_type": "DPoP", "expires_in": 60, "scope": "orders:eu/42:read",
		"task_token": "abc", "expires_at": "2026-11-20T13:00:00Z", "task_id": "tsk_1", "client_id": sandboxID,
	}
	for member, enrols := range map[string]bool{"access_token": false, "task_token": true, "task_id": true, "client_id": true} {
		for _, bad := range []string{"a\x1b]0;owned\x07", "a\r\nHost: evil.test", "a b", "a\u009b31m", "a\u202eb", "a\x00"} {
			f, key := newFake(t, "", time.Now)
			s := f.sandbox(t, key, "TASK-TOKEN")
			ans := map[string]any{}
			for k, v := range good {
				ans[k] = v
			}
			f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) { answer(w, 200, ans) }
			ask := func() error {
				if enrols {
					_, err := s.Enrol(t.Context(), secret.New("ebb_tkt_x"))
					return err
				}
				_, err := s.Token(t.Context(), client.TokenRequest{Scope: readScope})
				return err
			}
			if err := ask(); err != nil {
				t.Fatalf("%s: the good answer: %v", member, err)
			}
			ans[member] = bad
			if err := ask(); err == nil {
				t.Errorf("%s: %q was taken", member, bad)
			}
		}
	}
}

// A server that is not ebb, or a broken one, must not widen what a delegated
// sandbox gets.
func TestDelegatedScopeIsCoveredByTheRequestedScope(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		granted string
		ok      bool
	}{
		{readScope, true},
		{"orders:eu/42:read,write", false},
		{"orders:eu/*:read", false},
		{readScope + " payroll:eu/42:read", false},
		{"", false},
		{"orders:eu/42:read\x1b[31m", false},
	} {
		f, key := newFake(t, sandboxID, time.Now)
		s := f.sandbox(t, key, "TASK-TOKEN")
		f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			answer(w, 200, map[string]any{"task_id": "tsk_2", "scope": tc.granted, "ticket": "ebb_tkt_x"})
		}
		d, err := s.Delegate(t.Context(), client.Delegation{Scope: readScope})
		if (err == nil) != tc.ok || err != nil && d.TaskID != "" {
			t.Errorf("granted %q: %+v, %v", tc.granted, d, err)
		}
	}
}

// A scope that the client cannot compare with the answer is refused before the
// request, because ebb would already have opened the task.
func TestUnreadableScopeIsNotDelegated(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, sandboxID, time.Now)
	s := f.sandbox(t, key, "TASK-TOKEN")
	f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		t.Error("the request was sent")
		answer(w, 200, map[string]any{"task_id": "tsk_2", "scope": readScope, "ticket": "ebb_tkt_x"})
	}
	if d, err := s.Delegate(t.Context(), client.Delegation{Scope: "orders:eu/42"}); err == nil || d.TaskID != "" {
		t.Errorf("%+v, %v", d, err)
	}
}
