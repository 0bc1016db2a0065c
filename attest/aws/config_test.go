package aws_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/aws"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	const base = `"accounts":["123456789012"],"regions":["eu-west-1"]`
	for _, tc := range []struct{ config, problem string }{
		{`{` + base + `}`, ""},
		{`{"accounts":["123456789012"],"regions":["cn-north-1","cn-northwest-1"]}`, ""},
		{`{"accounts":["123456789012"],"regions":["us-gov-west-1"]}`, ""},
		{`{"accounts":["123456789012"],"regions":["eu-west-1","ap-southeast-2"],"lifetime":"1h","allow_users":true,"ec2_roles":["123456789012/box"]}`, ""},
		{`{` + base + `,"endpoint":"https://vpce-0a1b-2c3d.sts.eu-west-1.vpce.amazonaws.com","allow_private_addresses":true}`, ""},
		{`{}`, "accounts is empty"},
		{`{}`, "regions is empty"}, // all problems at once
		{`{` + base + `,"host":"x"}`, "host"},
		{`{"accounts":["123456789012"],"accounts":[],"regions":["eu-west-1"]}`, "accounts"},
		{`{"accounts":["12345678901"],"regions":["eu-west-1"]}`, "12 digits"},
		{`{"accounts":[123456789012],"regions":["eu-west-1"]}`, "accounts"},
		{`{"accounts":["*"],"regions":["eu-west-1"]}`, "12 digits"},
		{`{"accounts":["123456789012"],"regions":["*"]}`, "not a region"},
		{`{"accounts":["123456789012"],"regions":["eu-west-1.evil.example/"]}`, "not a region"},
		{`{"accounts":["123456789012"],"regions":["EU-WEST-1"]}`, "not a region"},
		{`{"accounts":["123456789012"],"regions":["us-iso-east-1"]}`, "not a region"},
		{`{"accounts":["123456789012"],"regions":["eu-west-1","cn-north-1"]}`, "another partition"},
		{`{"accounts":["123456789012"],"regions":["eu-west-1","eu-west-2"],"endpoint":"https://x.example"}`, "belongs to one region"},
		{`{` + base + `,"endpoint":"http://sts.example"}`, "not https"},
		{`{` + base + `,"endpoint":"https://sts.example/x"}`, "without path"},
		{`{` + base + `,"endpoint":"https://sts.example?x"}`, "without path"},
		{`{` + base + `,"endpoint":"https://u:p@sts.example"}`, "user information"},
		{`{` + base + `,"endpoint":"sts.example"}`, "endpoint"},
		{`{` + base + `,"lifetime":"59s"}`, "lifetime"},
		{`{` + base + `,"lifetime":"13h"}`, "lifetime"},
		{`{` + base + `,"lifetime":"-1h"}`, "lifetime: this is not"},
		{`{` + base + `,"lifetime":"0s"}`, "lifetime: this is not"},
		{`{` + base + `,"ec2_roles":["box"]}`, "ec2_roles"},
		{`{` + base + `,"ec2_roles":["999999999999/box"]}`, "ec2_roles"},
		{`{` + base + `,"ec2_roles":["123456789012/team/box"]}`, "ec2_roles"},
	} {
		c, err := aws.Decode([]byte(tc.config))
		if err == nil {
			c.Name, c.Issuer, c.Nonces = "cloud", issuer, nonces(t, 1)
			_, err = aws.New(c)
		}
		if tc.problem == "" && err != nil || tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)) {
			t.Errorf("%s: got %v, want %q", tc.config, err, tc.problem)
		}
	}
	for _, want := range []string{"name is empty", "nonces", "the URL of this ebb"} {
		if _, err := aws.New(aws.Config{Accounts: []string{account}, Regions: []string{region}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The issuer that callers sign must be a URL in one spelling.
func TestIssuer(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{issuer: true, issuer + "/a": true, "": false, "ebb.example": false, issuer + "/\u202ea": false, issuer + "/\na": false, "https://": false} {
		c := aws.Config{Name: "cloud", Issuer: url, Nonces: nonces(t, 1), Accounts: []string{account}, Regions: []string{region}}
		if _, err := aws.New(c); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	one := newBed(t, nil).aws
	two := newBed(t, func(c *aws.Config) { c.Accounts = append(c.Accounts, "999999999999") }).aws
	for _, tc := range []struct {
		a    *aws.Attestor
		want map[string]string
		ok   bool
	}{
		{one, map[string]string{"arn": roleLogin.arn}, true},
		{two, map[string]string{"user_id": roleLogin.userID}, true},
		{one, map[string]string{"role": "worker", "session": "task-42"}, true},
		{two, map[string]string{"role": "worker", "session": "task-42"}, false},
		{two, map[string]string{"role": "worker", "session": "task-42", "account": account}, true},
		{one, map[string]string{"account": account, "region": region}, false},
		{one, map[string]string{"session": "task-42"}, false},
	} {
		if err := tc.a.CheckRegistration(tc.want); (err == nil) != tc.ok || err != nil && strings.Contains(err.Error(), "task-42") {
			t.Errorf("%v: got %v", tc.want, err)
		}
	}
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	b := newBed(t, nil)
	if _, err := b.aws.Challenge(t.Context(), attest.Evidence{Key: attest.Key{X5T: "x"}}); err == nil {
		t.Error("a challenge for no key")
	}
	c, err := b.aws.Challenge(t.Context(), attest.Evidence{Key: b.key})
	if err != nil || len(c.Nonce) != 75 || c.Document != nil || !c.ExpiresAt.Equal(b.clock.Now().Add(attest.NonceLife)) {
		t.Errorf("got %+v, %v", c, err)
	}
	if b.requests() != 0 {
		t.Error("STS was asked")
	}
}
