package egress_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/redact"
)

// TestAnswersThatMakeCredentials (E89): responses of a token endpoint, with a session, or with a
// signed URL. A value that works by itself, from any machine and after the end of the task, does
// not reach the sandbox. The rest of the response does, and the audit log counts the secrets.
//
//ebb:invariant I8 A credential that an upstream creates in a response does not reach the sandbox
func TestAnswersThatMakeCredentials(t *testing.T) {
	t.Parallel()
	const made = "made_0123456789"
	bodies := map[string]string{
		"/v1/token": `{"access_token": "%s", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "%[1]s", "id_token": "%[1]s"}`,
		"/v1/sts":   `<Credentials><AccessKeyId>ASIAX</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%[1]s</SessionToken></Credentials>`,
		"/v1/form":  `access_token=%s&token_type=bearer&refresh_token=%[1]s`,
		"/v1/url":   `{"url": "https://bucket.s3.amazonaws.com/k?X-Amz-Date=20261122T000000Z&X-Amz-Signature=%s"}`,
		"/v1/event": "event: token\ndata: {\"access_token\":\"%s\"}\n\n",
	}
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Last")
		w.Header().Set("Set-Cookie", "session="+made)
		w.Header().Set("Location", "https://files.example.com/a?sig="+made+"&x=1")
		text := fmt.Sprintf(bodies[r.URL.Path], made)
		for _, c := range text { // one write for each character
			_, _ = fmt.Fprint(w, string(c))
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Last", "https://files.example.com/a?access_token="+made)
	})
	x := b.sandbox(t)
	c := x.client(t, false)
	for path, body := range bodies {
		res, got := send(t, c, "GET", "https://"+b.host+path, "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read"))
		want := strings.ReplaceAll(strings.ReplaceAll(body, "%s", redact.Mark), "%[1]s", redact.Mark)
		if res.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: %d %s\nwant %s", path, res.StatusCode, got, want)
		}
		if all := fmt.Sprint(res.Header, res.Trailer); strings.Contains(all, made) || res.Header.Get("Location") != "https://files.example.com/a?sig="+redact.Mark+"&x=1" || res.Trailer.Get("X-Last") == "" {
			t.Errorf("%s: %s", path, all)
		}
	}
}
