package static_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/fields"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// mails is a rule for bodies with one recipient.
func mails(path string) static.Rule {
	return static.Rule{Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{path}}, Body: &fields.Rule{Format: fields.JSON, Fields: map[string]string{"/to": fields.Object}}}
}

// judged has a driver judge a body for a lease.
func judged(t *testing.T, c static.Config, path, body string, of provider.Target) (content.Facts, error) {
	t.Helper()
	d, err := static.Open("stripe", c, vaultOf(t, "stripe", canary), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, http.MethodPost, "https://api.example.com"+path)
	r.Body = io.NopCloser(strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	facts, _, err := d.(provider.ContentJudge).Judge(t.Context(), r, of)
	return facts, err
}

// A scope that allows every body of a path does so only in requests with its own credential, which comes
// from a response.
//
//ebb:invariant I5 Scopes for which ebb does not add the provider's secret allow no request with it, for any body
func TestJudgesByScopesOfTheCredential(t *testing.T) {
	t.Parallel()
	route := sealRoute()
	route.Use = []string{"raw:send"}
	c := client(route)
	c.Grants["to"] = map[string]static.Rule{"send": mails("/v1/mails")}
	c.Grants["raw"] = map[string]static.Rule{"send": {Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/v1/mails"}}}}
	of := lease("stripe:to/bob:send stripe:raw:send stripe:token:create")
	if f, err := judged(t, c, "/v1/mails", `{"to":"eve"}`, of); !errors.As(err, new(*provider.UncoveredError)) {
		t.Errorf("another recipient with the secret: %+v, %v", f, err)
	}
	of.Handle = secret.New("at_0123456789")
	if f, err := judged(t, c, "/v1/mails", `{"to":"eve"}`, of); err != nil || f.Kind != "" {
		t.Errorf("every body with a token: %+v, %v", f, err)
	}
}
