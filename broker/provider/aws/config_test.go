package aws

import (
	"strings"
	"testing"
)

func TestConfigurationsThatAreRefused(t *testing.T) {
	yes := true
	for want, change := range map[string]func(*Config){
		"flavor":                func(c *Config) { c.Flavor = "gcp" },
		"region":                func(c *Config) { c.Region = "" },
		"http on loopback":      func(c *Config) { c.Endpoint = "http://sts.example.com" },
		"endpoint: is required": func(c *Config) { c.Flavor, c.Endpoint = "rgw", "" },
		"set both":              func(c *Config) { c.AccessKeyFile = "/x" },
		"timeout":               func(c *Config) { c.Timeout = "1h" },
		"roles: name":           func(c *Config) { c.Roles = nil },
		"not a scope of this":   func(c *Config) { c.Roles[0].Scopes = []string{"other:x:read"} },
		"ARN of a role":         func(c *Config) { c.Roles[0].ARNs = []string{"arn:aws:iam::1:user/x"} },
		"two partitions":        func(c *Config) { c.Roles[0].ARNs = append(c.Roles[0].ARNs, "arn:aws-cn:iam::111122223333:role/x") },
		"max_session":           func(c *Config) { c.Roles[0].MaxSession = "13h" },
		"external_id":           func(c *Config) { c.ExternalID = "ä" },
		"enforces neither":      func(c *Config) { c.Flavor, c.SourceIdentity = "rgw", &yes },
		"set one":               func(c *Config) { c.SourceIPs, c.SourceVPCEs = []string{"10.0.0.0/8"}, []string{"vpce-01234567"} },
		"is not a network":      func(c *Config) { c.SourceIPs = []string{"10.0.0.1/8"} },
		"id of an endpoint":     func(c *Config) { c.SourceVPCEs = []string{"*"} },
		"minio has no roles":    func(c *Config) { c.Flavor, c.Revoke = "minio", "deny" },
		"neither deny nor none": func(c *Config) { c.Revoke = "sometimes" },
		"revoke_bound":          func(c *Config) { c.RevokeBound = "0s" },
		"one call can take":     func(c *Config) { c.Timeout, c.RevokeBound = "10s", "20s" },
		"promote and from":      func(c *Config) { c.Areas = []Area{{Prefix: "data/f", Actions: []string{"promote"}}} },
		"not bucket":            func(c *Config) { c.Areas = []Area{{Prefix: "data/*", Actions: []string{"read"}}} },
		"lies in areas": func(c *Config) {
			c.Areas = []Area{{Prefix: "data/a", Actions: []string{"read"}}, {Prefix: "data/a/b", Actions: []string{"write"}}}
		},
	} {
		c := config()
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, st := range map[string]Statement{
		"hands out identities":     {Action: "x", Resource: "a", Allow: []string{"sts:AssumeRole"}, On: []string{"*"}},
		"not service:Action":       {Action: "x", Resource: "a", Allow: []string{"*"}, On: []string{"*"}},
		"\"iam:*\"":                {Action: "x", Resource: "a", Allow: []string{"iam:*"}, On: []string{"*"}},
		"\"IAM:PassRole\"":         {Action: "x", Resource: "a", Allow: []string{"IAM:PassRole"}, On: []string{"*"}},
		"\"s*:AssumeRole\"":        {Action: "x", Resource: "a", Allow: []string{"s*:AssumeRole"}, On: []string{"*"}},
		"is taken":                 {Action: "read", Resource: "a", Allow: []string{"sqs:SendMessage"}, On: []string{"*"}},
		"must hold {2}":            {Action: "x", Resource: "a/*", Allow: []string{"sqs:SendMessage"}, On: []string{"*"}},
		"must hold {rest}":         {Action: "x", Resource: "a/**", Allow: []string{"sqs:SendMessage"}, On: []string{"*"}},
		"has no {3}":               {Action: "x", Resource: "a/*", Allow: []string{"sqs:SendMessage"}, On: []string{"arn:aws:sqs:::{2}/{3}"}},
		"has no {rest}":            {Action: "x", Resource: "a/b", Allow: []string{"sqs:SendMessage"}, On: []string{"arn:aws:sqs:::{rest}"}},
		"no $ before":              {Action: "x", Resource: "a/*", Allow: []string{"sqs:SendMessage"}, On: []string{"arn:aws:sqs:::${2}"}},
		"between two placeholders": {Action: "x", Resource: "*/*", Allow: []string{"sqs:SendMessage"}, On: []string{"arn:aws:sqs:::{1}-{2}"}},
		"that ebb itself sets":     {Action: "x", Resource: "a", Allow: []string{"sqs:SendMessage"}, On: []string{"*"}, When: map[string]map[string][]string{"DateLessThan": {"AWS:currentTime": {"2099-01-01T00:00:00Z"}}}},
		"not an operator":          {Action: "x", Resource: "a", Allow: []string{"sqs:SendMessage"}, On: []string{"*"}, When: map[string]map[string][]string{"x y": {"aws:a": {"b"}}}},
		"at least one action":      {Action: "x", Resource: "a"},
	} {
		c := config()
		c.Statements = []Statement{st}
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
