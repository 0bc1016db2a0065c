package api

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
)

// Completing a task waits for third parties only on request.
//
//ebb:invariant I6 Completing a task waits for revocations at third parties only if the request asks for it
func TestEndWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		query, prefer string
		want          time.Duration
		applied       string
	}{
		{"", "", 0, ""},
		{"wait_seconds=10", "", 10 * time.Second, ""},
		{"", "wait=10", 10 * time.Second, "wait=10"},
		{"", "wait=3600", time.Minute, "wait=60"},
		{"", "wait=0", 0, "wait=0"},
		{"", "respond-async", 0, ""},
		{"wait_seconds=2", "wait=10", 2 * time.Second, ""},
	} {
		r := httptest.NewRequest("POST", "/v1/tasks/t/complete?"+c.query, nil)
		r.Header.Set("Prefer", c.prefer)
		w := httptest.NewRecorder()
		got, err := endWait(echo.New().NewContext(r, w))
		if err != nil || got != c.want || w.Header().Get("Preference-Applied") != c.applied {
			t.Errorf("?%s and Prefer: %s: %s, %v, applied %q", c.query, c.prefer, got, err, w.Header().Get("Preference-Applied"))
		}
	}
}

// RFC 7240 section 2: the first preference of a name counts, and a malformed or
// unknown one is ignored.
func TestPreferredWait(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]int{
		"wait=10": 10, "Wait=10": 10, " respond-async , wait = 5": 5, `wait="7"`: 7, "wait=3;x=y": 3, "wait=1, wait=9": 1, "wait=0": 0, "wait=99999": 99999,
		"": -1, "respond-async": -1, "wait": -1, "wait=": -1, "wait=-1": -1, "wait=1e3": -1, "wait=99999999999": -1, "waiting=3": -1, ";;,=,wait": -1,
	} {
		if n, asked := preferredWait([]string{field}); asked != (want >= 0) || asked && n != want {
			t.Errorf("Prefer: %s: %d, %t; want %d", field, n, asked, want)
		}
	}
	if n, asked := preferredWait([]string{"respond-async", "wait=4"}); n != 4 || !asked {
		t.Errorf("two fields: %d, %t", n, asked)
	}
}
