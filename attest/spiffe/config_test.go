package spiffe_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/spiffe"
)

func TestConfigProblems(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	domain := func(name string, change func(*spiffe.TrustDomain)) func(*spiffe.Config) {
		return func(c *spiffe.Config) {
			d := c.TrustDomains[home]
			change(&d)
			c.TrustDomains[name] = d
		}
	}
	named := func(name string) func(*spiffe.Config) { return domain(name, func(*spiffe.TrustDomain) {}) }
	of := func(change func(*spiffe.TrustDomain)) func(*spiffe.Config) { return domain(home, change) }
	at := func(change func(*spiffe.TrustDomain)) func(*spiffe.Config) {
		return of(func(d *spiffe.TrustDomain) { d.BundleFile = ""; change(d) })
	}
	for _, tc := range []struct {
		want   string
		change func(*spiffe.Config)
	}{
		{"name is empty", func(c *spiffe.Config) { c.Name = "" }},
		{"audience is empty", func(c *spiffe.Config) { c.Audience = "" }},
		{"trust_domains is empty", func(c *spiffe.Config) { c.TrustDomains = nil }},
		{`svids: "JWT"`, func(c *spiffe.Config) { c.SVIDs = []string{"JWT"} }},
		{"leeway is not between", func(c *spiffe.Config) { c.Leeway = new(5 * time.Minute) }},
		{"leeway is not between", func(c *spiffe.Config) { c.Leeway = new(-time.Second) }},
		{"max_lifetime is negative", func(c *spiffe.Config) { c.MaxLifetime = -1 }},
		{"max_x509_lifetime is negative", func(c *spiffe.Config) { c.MaxX509Lifetime = -1 }},
		{"not that of a trust domain", named("SBX.test")},
		{"not that of a trust domain", named("spiffe://sbx.test")},
		{"not that of a trust domain", named("sbx.test/path")},
		{"not that of a trust domain", named("sbx.test:443")},
		{"not that of a trust domain", named("")},
		{"not that of a trust domain", named(strings.Repeat("a", 256))},
		{"exactly one of bundle_file", at(func(*spiffe.TrustDomain) {})},
		{"exactly one of bundle_file", of(func(d *spiffe.TrustDomain) { d.HTTPSWeb = "https://spire.example" })},
		{"https_spiffe, endpoint_id and", at(func(d *spiffe.TrustDomain) { d.HTTPSSPIFFE = "https://spire.example" })},
		{"https_spiffe, endpoint_id and", at(func(d *spiffe.TrustDomain) { d.HTTPSSPIFFE, d.EndpointID = "https://spire.example", serverID })},
		{"https_spiffe, endpoint_id and", at(func(d *spiffe.TrustDomain) { d.HTTPSWeb, d.EndpointID = "https://spire.example", serverID })},
		{"endpoint_id: not the SPIFFE ID", at(func(d *spiffe.TrustDomain) {
			d.HTTPSSPIFFE, d.EndpointID, d.EndpointBundleFile = "https://spire.example", "spiffe://"+home, "b.json"
		})},
		{"ca_file is only for", of(func(d *spiffe.TrustDomain) { d.CAFile = "ca.pem" })},
		{"ca_file: ", at(func(d *spiffe.TrustDomain) { d.HTTPSWeb, d.CAFile = "https://spire.example", "/nowhere/ca.pem" })},
		{"ca_file contains no", at(func(d *spiffe.TrustDomain) { d.HTTPSWeb, d.CAFile = "https://spire.example", file(t, []byte("x")) })},
		{"allow_private_addresses is only for", of(func(d *spiffe.TrustDomain) { d.Private = true })},
		{"not https", at(func(d *spiffe.TrustDomain) { d.HTTPSWeb = "http://spire.example/bundle" })},
		{"cannot be authenticated", at(func(d *spiffe.TrustDomain) {
			d.HTTPSSPIFFE, d.EndpointID, d.EndpointBundleFile = "http://127.0.0.1:1", serverID, "b.json"
		})},
		{"without user information", at(func(d *spiffe.TrustDomain) { d.HTTPSWeb = "https://a:b@spire.example" })},
		{"not the path of a socket", at(func(d *spiffe.TrustDomain) { d.WorkloadAPI = "tcp://127.0.0.1:8081" })},
		{"not the path of a socket", at(func(d *spiffe.TrustDomain) { d.WorkloadAPI = "/run/agent.sock" })},
		{"not the path of a socket", at(func(d *spiffe.TrustDomain) { d.WorkloadAPI = "unix://run/agent.sock" })},
		{"not the path of a socket", at(func(d *spiffe.TrustDomain) { d.WorkloadAPI = "unix:agent.sock" })},
		{"not the path of a socket", at(func(d *spiffe.TrustDomain) { d.WorkloadAPI = "dns:///agent" })},
		{"allow is empty", of(func(d *spiffe.TrustDomain) { d.Allow = nil })},
		{`allow: "team"`, of(func(d *spiffe.TrustDomain) { d.Allow = []string{"/a", "team"} })},
	} {
		c := f.config
		c.TrustDomains = maps.Clone(c.TrustDomains)
		tc.change(&c)
		if a, err := spiffe.New(c); a != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want an error with %q", err, tc.want)
		}
	}
	if _, err := spiffe.New(spiffe.Config{TrustDomains: map[string]spiffe.TrustDomain{"A": {}}}); err == nil || strings.Count(err.Error(), "\n") < 4 {
		t.Errorf("got %v, want all problems at once", err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	c, err := spiffe.Decode([]byte(`{"audience":"https://ebb.example","svids":["x509"],"max_lifetime":"10m","max_x509_lifetime":"2h","leeway":"10s","trust_domains":{
		"sbx.test":{"https_spiffe":"https://spire.sbx.test:8443","endpoint_id":"spiffe://sbx.test/spire/server","endpoint_bundle_file":"/b.json","allow_private_addresses":true,"allow":["/sandbox/*"]},
		"other.test":{"https_web":"https://other.test/bundle","ca_file":"/ca.pem","allow":["/**"]},"file.test":{"bundle_file":"/f.json"},"here.test":{"workload_api":"unix:///run/agent.sock"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	d := c.TrustDomains["sbx.test"]
	if c.Audience != aud || len(c.SVIDs) != 1 || c.MaxLifetime != 10*time.Minute || c.MaxX509Lifetime != 2*time.Hour || *c.Leeway != 10*time.Second || len(c.TrustDomains) != 4 ||
		d.EndpointID != serverID || !d.Private || d.Allow[0] != "/sandbox/*" || c.TrustDomains["here.test"].WorkloadAPI == "" || c.TrustDomains["other.test"].CAFile == "" {
		t.Errorf("got %+v", c)
	}
	for name, raw := range map[string]string{
		"unknown member": `{"bundle":1}`, "letter case": `{"Audience":"x"}`, "duplicate": `{"audience":"x","audience":"y"}`, "duration": `{"leeway":"30"}`,
		"unknown in a trust domain": `{"trust_domains":{"a":{"bundle_url":"x"}}}`, "one trust domain twice": `{"trust_domains":{"a":{},"a":{}}}`, "empty": ``, "array": `[]`,
	} {
		if _, err := spiffe.Decode([]byte(raw)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
