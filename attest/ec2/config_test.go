package ec2_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/ec2"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	regions := func(names ...string) func(*ec2.Config) {
		return func(c *ec2.Config) {
			c.Certificates = map[string]string{}
			for _, n := range names {
				c.Certificates[n] = "/etc/ebb/ec2.pem"
			}
		}
	}
	times := func(window, lifetime time.Duration) func(*ec2.Config) {
		return func(c *ec2.Config) { c.LaunchWindow, c.Lifetime = window, lifetime }
	}
	for name, tt := range map[string]struct {
		change func(*ec2.Config)
		want   string // "" for no problem
	}{
		"as it is":              {func(*ec2.Config) {}, ""},
		"the shortest":          {times(time.Minute, time.Minute), ""},
		"the longest":           {times(30*time.Minute, 24*time.Hour), ""},
		"China":                 {regions("cn-north-1", "cn-northwest-1"), ""},
		"everywhere":            {regions("us-gov-east-1", "us-gov-west-1"), ""},
		"long names":            {regions("ap-southeast-4", "mx-central-1", "il-central-1"), ""},
		"no name":               {func(c *ec2.Config) { c.Name = "" }, "name is empty"},
		"no source of nonces":   {func(c *ec2.Config) { c.Nonces = nil }, "no source of nonces"},
		"no accounts":           {func(c *ec2.Config) { c.Accounts = nil }, "accounts is empty"},
		"an account of 11":      {func(c *ec2.Config) { c.Accounts = []string{"12345678901"} }, "not the 12 digits"},
		"any account":           {func(c *ec2.Config) { c.Accounts = []string{account, "*"} }, "not the 12 digits"},
		"no certificates":       {regions(), "certificates is empty"},
		"a zone":                {regions("eu-west-1a"), "not a region"},
		"any region":            {regions("*"), "not a region"},
		"no region":             {regions(""), "not a region"},
		"two partitions":        {regions("cn-north-1", "eu-west-1"), "another partition"},
		"two others":            {regions("us-gov-west-1", "us-iso-west-1"), "another partition"},
		"no file":               {func(c *ec2.Config) { c.Certificates = map[string]string{region: ""} }, "has no file"},
		"a window of seconds":   {times(30*time.Second, 0), "between 1m0s and 30m0s"},
		"a window of an hour":   {times(time.Hour, 0), "between 1m0s and 30m0s"},
		"a negative window":     {times(-time.Minute, 0), "between 1m0s and 30m0s"},
		"over before the end":   {times(10*time.Minute, 9*time.Minute), "not between launch_window and"},
		"longer than any task":  {times(0, 25*time.Hour), "not between launch_window and"},
		"over before it begins": {times(0, -time.Hour), "not between launch_window and"},
	} {
		c := ec2.Config{Name: "cloud", Accounts: []string{account}, Certificates: map[string]string{region: "/nowhere"}, Nonces: newNonces(t, 1)}
		tt.change(&c)
		a, err := ec2.New(c)
		if tt.want == "" && (a == nil || err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if tt.want != "" && (a != nil || err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tt.want)
		}
	}
	if _, err := ec2.New(ec2.Config{LaunchWindow: -1, Lifetime: -2}); err == nil || strings.Count(err.Error(), "\n") < 5 {
		t.Errorf("got %v, want all problems at once", err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	c, err := ec2.Decode([]byte(`{"accounts":["123456789012"],"certificates":{"eu-west-1":"/etc/ebb/ec2/eu-west-1.pem"},"launch_window":"10m","lifetime":"2h"}`))
	if err != nil || c.Accounts[0] != account || c.Certificates[region] != "/etc/ebb/ec2/eu-west-1.pem" || c.LaunchWindow != 10*time.Minute || c.Lifetime != 2*time.Hour {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, text := range []string{``, `[]`, `{"regions":["eu-west-1"]}`, `{"Accounts":[]}`, `{"accounts":"123456789012"}`, `{"accounts":[123456789012]}`,
		`{"certificates":["x"]}`, `{"launch_window":300}`, `{"launch_window":"5"}`, `{"launch_window":"0s"}`, `{"launch_window":""}`, `{"lifetime":"-1h"}`,
		`{"accounts":[],"accounts":[]}`, `{} {}`, `{"certificates":{"eu-west-1":"a","eu-west-1":"b"}}`} {
		if c, err := ec2.Decode([]byte(text)); err == nil {
			t.Errorf("%s: got %+v", text, c)
		}
	}
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const box = "i-0123456789abcdef0"
	for name, tt := range map[string]struct {
		selectors map[string]string
		want      string
	}{
		"an instance":           {map[string]string{"instance_id": box}, ""},
		"an old one":            {map[string]string{"instance_id": "i-0123abcd"}, ""},
		"and where":             {map[string]string{"instance_id": box, "account": account, "region": other, "image_id": "ami-0fa9e1f64142cde17"}, ""},
		"nothing":               {nil, "add instance_id"},
		"an image":              {map[string]string{"image_id": "ami-0fa9e1f64142cde17", "account": account}, "add instance_id"},
		"an address":            {map[string]string{"private_ip": "10.0.0.209"}, "add instance_id"},
		"no instance":           {map[string]string{"instance_id": ""}, "does not have the form of an instance id"},
		"any instance":          {map[string]string{"instance_id": "i-*"}, "does not have the form of an instance id"},
		"a name":                {map[string]string{"instance_id": "web-1"}, "does not have the form of an instance id"},
		"an account of another": {map[string]string{"instance_id": box, "account": "210987654321"}, "matches no instance"},
		"a region of another":   {map[string]string{"instance_id": box, "region": "eu-west-3"}, "matches no instance"},
	} {
		err := f.CheckRegistration(tt.selectors)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
		if err != nil && (strings.Contains(err.Error(), "210987654321") || strings.Contains(err.Error(), "web-1")) {
			t.Errorf("%s: it repeats the value: %v", name, err)
		}
	}
}

// Re-attestation is refused: a document is accepted only within the window, so every
// sandbox would end at its first deadline.
func TestNobodyAttestsAgain(t *testing.T) {
	t.Parallel()
	if err := newFixture(t).CheckReattest(); err == nil || !strings.Contains(err.Error(), "lifetime") {
		t.Errorf("got %v", err)
	}
}
