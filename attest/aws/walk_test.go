package aws_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/aws"
	"github.com/ebb-broker/ebb/web/api/walktest"
)

// TestWalk runs signed requests of two roles through a complete ebb.
func TestWalk(t *testing.T) {
	t.Parallel()
	clock := attesttest.NewClock()
	clock.Set(time.Now())
	s := newSTS(t, clock)
	logins := []login{roleLogin, ec2Login}
	walktest.Run(t, walktest.Kind{
		Name: "cloud",
		Open: func(t testing.TB, nonces *attest.Nonces, now func() time.Time) attest.Attestor {
			a, err := aws.New(aws.Config{Name: "cloud", Issuer: issuer, Nonces: nonces, Accounts: []string{account}, Regions: []string{region}, Endpoint: s.URL, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			return a
		},
		Start: func(testing.TB) walktest.Sandbox {
			who := logins[0]
			logins = logins[1:]
			return walktest.Sandbox{Selectors: map[string]string{"user_id": who.userID}, Answer: func(t testing.TB, _ string, c attest.Challenge) string {
				a := ask{login: who, method: "POST", url: s.URL + "/", body: requestBody, region: region, service: "sts", at: c.ExpiresAt.Add(-attest.NonceLife),
					header: http.Header{}, nonce: c.Nonce, iss: issuer}
				text, err := json.Marshal(a.document(t, c.Nonce))
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}}
		},
	})
}
