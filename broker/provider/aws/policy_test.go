package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

var deadline = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// config is a whole configuration for AWS that tests change.
func config() Config {
	return Config{
		Name: "s3", Region: "eu-central-1", Endpoint: "http://127.0.0.1:1",
		Roles: []Role{{Scopes: []string{"s3:**:*"}, ARNs: []string{"arn:aws:iam::111122223333:role/ebb/data-1"}}},
	}
}

func driver(t testing.TB, c Config) *Driver {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func withStatements(c Config) Config {
	c.Statements = []Statement{
		{Action: "query", Resource: "tables/*", Allow: []string{"dynamodb:GetItem", "dynamodb:Query"},
			On: []string{"arn:aws:dynamodb:eu-central-1:111122223333:table/{2}", "arn:aws:dynamodb:eu-central-1:111122223333:table/{2}/index/*"}},
		{Action: "param", Resource: "params/**", Allow: []string{"ssm:GetParameter"}, On: []string{"arn:aws:ssm:eu-central-1:111122223333:parameter/{rest}"}},
		{Action: "leading", Resource: "rows/*/*", Allow: []string{"dynamodb:Query"}, On: []string{"arn:aws:dynamodb:eu-central-1:111122223333:table/{2}"},
			When: map[string]map[string][]string{"StringEquals": {"dynamodb:LeadingKeys": {"k-{3}"}}}},
	}
	return c
}

// TestPolicyText compares the exact bytes of the policies that AWS receives, so that a change
// of them is deliberate.
func TestPolicyText(t *testing.T) {
	end := `"DateLessThan":{"aws:CurrentTime":"2026-01-02T03:04:05Z"}`
	for set, want := range map[string]string{
		"s3:data/in/a.csv:read":                   `{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::data/in/a.csv","Condition":{` + end + `}}`,
		"s3:data/in/**:read s3:data/out/**:read":  `{"Effect":"Allow","Action":"s3:GetObject","Resource":["arn:aws:s3:::data/in/*","arn:aws:s3:::data/out/*"],"Condition":{` + end + `}}`,
		"s3:data/in/**:read s3:data/in/**:delete": `{"Effect":"Allow","Action":["s3:DeleteObject","s3:GetObject"],"Resource":"arn:aws:s3:::data/in/*","Condition":{` + end + `}}`,
		"s3:data/in/**:list s3:data/b/**:list":    `{"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::data","Condition":{` + end + `,"StringLike":{"s3:prefix":["b/*","in/*"]}}}`,
		"s3:data/**:list":                         `{"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::data","Condition":{` + end + `}}`,
		"s3:data/q/x:write":                       `{"Effect":"Allow","Action":["s3:AbortMultipartUpload","s3:ListMultipartUploadParts","s3:PutObject"],"Resource":"arn:aws:s3:::data/q/x","Condition":{` + end + `}}`,
		"s3:rows/orders/7:leading":                `{"Effect":"Allow","Action":"dynamodb:Query","Resource":"arn:aws:dynamodb:eu-central-1:111122223333:table/orders","Condition":{` + end + `,"StringEquals":{"dynamodb:LeadingKeys":"k-7"}}}`,
		"s3:params/app/**:param":                  `{"Effect":"Allow","Action":"ssm:GetParameter","Resource":"arn:aws:ssm:eu-central-1:111122223333:parameter/app/*","Condition":{` + end + `}}`,
	} {
		got, err := driver(t, withStatements(config())).compile(scopes.MustParseSet(set), "aws", deadline)
		if want = `{"Version":"2012-10-17","Statement":[` + want + `]}`; err != nil || got != want {
			t.Errorf("%s\n got %s %v\nwant %s", set, got, err, want)
		}
	}
}

func TestScopesThatAWSCannotSay(t *testing.T) {
	c := withStatements(config())
	c.Areas = []Area{
		{Prefix: "data/inputs", Actions: []string{"read", "list"}},
		{Prefix: "data/quarantine", Actions: []string{"write"}},
		{Prefix: "data/final", Actions: []string{"promote"}, From: "data/quarantine"},
	}
	d := driver(t, c)
	for _, set := range []string{
		"s3:data/*:read", "s3:data/a/*/b:read", "s3:data/*/**:read", "s3:**:read", "s3:*/a:read", // one segment exactly is no pattern of IAM's
		"s3:data:read", "s3:data:list", "s3:data/a:list", "s3:data/a/**:*", "s3:data/a:fly", "s3:UPPER/a:read", "s3:a/b:read", "s3:-bucket/b:read",
		"s3:tables/*:query", "s3:tables/**:query", "s3:tables/a/b:query", "s3:params/*:param", "s3:rows/a/*:leading", "s3:data/a:query",
		"s3:data/inputs/a:write", "s3:data/inputs/**:delete", "s3:data/quarantine/a:read", "s3:data/quarantine/**:list", "s3:data/**:read", "s3:data/**:write",
		"s3:data/final/a:write", "s3:data/final/**:read", "s3:data/other/a:promote", "s3:data/**:promote", "s3:data/inputs/a:promote",
		"other:data/a:read",
	} {
		if err := d.Check(scopes.MustParseSet(set)); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("Check(%s) = %v", set, err)
		}
	}
	for _, set := range []string{
		"s3:data/inputs/**:read s3:data/inputs/**:list s3:data/quarantine/task1/**:write", "s3:data/final/task1/**:promote", "s3:data/other/**:delete", "s3:data/inputs:write",
	} {
		if err := d.Check(scopes.MustParseSet(set)); err != nil {
			t.Errorf("Check(%s) = %v", set, err)
		}
	}
}

// TestPolicyThatIsTooLong: the driver refuses a policy that is too long before it sends it,
// because a gateway crashes on it.
func TestPolicyThatIsTooLong(t *testing.T) {
	d := driver(t, config())
	var set []string
	for i := range scopes.MaxScopes {
		set = append(set, fmt.Sprintf("s3:data/a-prefix-that-is-long/%02d/**:read", i))
		text, err := d.compile(scopes.MustParseSet(strings.Join(set, " ")), "aws", deadline)
		if err != nil {
			if !errors.Is(err, provider.ErrUnsupported) || !strings.Contains(err.Error(), "2048") {
				t.Errorf("%d scopes: %v", i+1, err)
			}
			if i < 20 {
				t.Errorf("only %d scopes fit", i)
			}
			return
		}
		if len(text) > maxPolicy {
			t.Fatalf("%d scopes make %d characters", i+1, len(text))
		}
	}
	t.Error("64 long scopes fit")
}

func TestBindingIsInEveryAllow(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.SourceIPs = []string{"203.0.113.0/24"} },
		func(c *Config) { c.SourceVPCEs = []string{"vpce-0123456789abcdef0"} },
	} {
		c := withStatements(config())
		change(&c)
		text, err := driver(t, c).compile(scopes.MustParseSet("s3:data/in/**:read s3:data/in/**:list s3:tables/a:query s3:rows/a/b:leading"), "aws", deadline)
		if err != nil {
			t.Fatal(err)
		}
		p := parseIAM(t, text)
		if len(p.Statement) != 4 {
			t.Errorf("%d statements", len(p.Statement))
		}
		for _, s := range p.Statement {
			if s.Condition["DateLessThan"]["aws:CurrentTime"] == nil || s.Condition["IpAddress"] == nil && s.Condition["StringEquals"]["aws:SourceVpce"] == nil {
				t.Errorf("an Allow lacks its end or its binding: %+v", s)
			}
		}
	}
}

func TestPromotionIsACopyFromTheQuarantine(t *testing.T) {
	c := config()
	c.Areas = []Area{{Prefix: "data/quarantine", Actions: []string{"write"}}, {Prefix: "final/data", Actions: []string{"promote"}, From: "data/quarantine"}}
	text, err := driver(t, c).compile(scopes.MustParseSet("s3:final/data/task1/**:promote s3:final/data/a+b@c.csv:promote"), "aws", deadline)
	if err != nil {
		t.Fatal(err)
	}
	p := parseIAM(t, text)
	for _, c := range []struct {
		action, resource, source string
		want                     bool
	}{
		{"s3:PutObject", "final/data/task1/r.csv", "data/quarantine/task1/r.csv", true},
		{"s3:PutObject", "final/data/task1/r.csv", "/data/quarantine/task1/r.csv", true},
		{"s3:PutObject", "final/data/a+b@c.csv", "data/quarantine/a%2Bb%40c.csv", true},
		{"s3:PutObject", "final/data/a+b@c.csv", "data/quarantine/task2/x", false},
		{"s3:PutObject", "final/data/task1/r.csv", "", false}, // an upload
		{"s3:PutObject", "final/data/task1/r.csv", "data/quarantine/task2/r.csv", false},
		{"s3:PutObject", "final/data/task1/r.csv", "evil/quarantine/task1/r.csv", false},
		{"s3:PutObject", "final/data/task2/r.csv", "data/quarantine/task1/r.csv", false},
		{"s3:PutObject", "data/quarantine/task1/r.csv", "data/quarantine/task1/r.csv", false},
		{"s3:GetObject", "data/quarantine/task1/r.csv", "", true},
		{"s3:GetObject", "data/quarantine/task2/r.csv", "", false},
		{"s3:GetObject", "final/data/task1/r.csv", "", false},
		{"s3:DeleteObject", "final/data/task1/r.csv", "", false},
	} {
		f := facts{"aws:currenttime": "2026-01-02T03:00:00Z"}
		if c.source != "" {
			f["s3:x-amz-copy-source"] = c.source
		}
		if got := p.effect(t, c.action, "arn:aws:s3:::"+c.resource, f) == "Allow"; got != c.want {
			t.Errorf("%+v = %v\n%s", c, got, text)
		}
	}
}

// allowedByScope says what a set permits in S3, from the meaning of scopes alone.
func allowedByScope(set scopes.Set, action, bucket, key string) bool {
	for _, s := range set.Scopes() {
		b, rest, _ := strings.Cut(s.Resource(), "/")
		if b != bucket || s.Action() != map[string]string{"s3:GetObject": "read", "s3:PutObject": "write", "s3:DeleteObject": "delete", "s3:ListBucket": "list"}[action] {
			continue
		}
		if prefix, deep := strings.CutSuffix(rest, "**"); deep && strings.HasPrefix(key, prefix) || !deep && key == rest {
			return true
		}
	}
	return false
}

// FuzzPolicy: for arbitrary scopes, the session policy allows exactly what the scopes allow, until
// the lease expires.
func FuzzPolicy(f *testing.F) {
	f.Add("s3:data/in/**:read s3:data/in/**:list", "data", "in/a", uint8(0))
	f.Add("s3:data/a~b@c+d=e,f:write", "data", "a~b@c+d=e,f", uint8(1))
	f.Add("s3:data/in/a:read s3:data/in/**:read", "data", "in//../x", uint8(0))
	f.Add("s3:data/**:list", "data", "", uint8(3))
	f.Add("s3:data/a/**:delete s3:other/a/**:read", "other", "a/*", uint8(2))
	d := driver(f, config())
	actions := []string{"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket", "s3:PutBucketPolicy", "iam:CreateUser", "sts:AssumeRole"}
	f.Fuzz(func(t *testing.T, text, bucket, key string, n uint8) {
		set, err := scopes.ParseSet(text)
		if err != nil || d.Check(set) != nil {
			return
		}
		policy, err := d.compile(set, "aws", deadline)
		if err != nil {
			t.Fatal(err)
		}
		p := parseIAM(t, policy)
		keys := []string{key}
		for _, s := range set.Scopes() { // and what is near the scopes themselves
			_, rest, _ := strings.Cut(s.Resource(), "/")
			rest = strings.TrimSuffix(rest, "**")
			keys = append(keys, rest, rest+key, key+rest, strings.TrimSuffix(rest, "/"))
			if strings.HasPrefix(key, "a") {
				bucket, _, _ = strings.Cut(s.Resource(), "/")
			}
		}
		action := actions[int(n)%len(actions)]
		for _, key := range keys {
			in, after := facts{"aws:currenttime": "2026-01-02T03:04:04Z"}, facts{"aws:currenttime": "2026-01-02T03:04:05Z"}
			resource := "arn:aws:s3:::" + bucket + "/" + key
			if action == "s3:ListBucket" {
				resource, in["s3:prefix"], after["s3:prefix"] = "arn:aws:s3:::"+bucket, key, key
			}
			if strings.ContainsRune(bucket, '/') {
				continue // no bucket
			}
			want := allowedByScope(set, action, bucket, key)
			if got := p.effect(t, action, resource, in) == "Allow"; got != want {
				t.Fatalf("%s on %q: %v, the scopes say %v\n%s", action, resource, got, want, policy)
			}
			if p.effect(t, action, resource, after) == "Allow" {
				t.Fatal("allowed after its end")
			}
		}
	})
}

// FuzzLiteral: text of any bytes matches itself alone.
func FuzzLiteral(f *testing.F) {
	for _, s := range []string{"a", "*", "a?b", "${*}", "$", "${aws:username}", "$*{", "\\*", "{1}"} {
		f.Add(s, s+"x", "*")
	}
	f.Fuzz(func(t *testing.T, text, other, tail string) {
		vars := facts{"aws:username": "*", "*": "x"}
		for _, s := range []string{text, other, tail, text + tail} {
			if got := like(literal(text), s, vars); got != (s == text) {
				t.Fatalf("literal(%q) = %q matches %q: %v", text, literal(text), s, got)
			}
		}
		if !like(literal(text)+"*", text+tail, vars) {
			t.Fatalf("%q* does not match %q", literal(text), text+tail)
		}
	})
}

// FuzzStatement: a scope's segments fill their places and nothing else.
func FuzzStatement(f *testing.F) {
	f.Add("s3:tables/orders:query", "orders")
	f.Add("s3:params/a/b/c:param", "a/b/c")
	f.Add("s3:params/a/**:param", "a/x/y")
	d := driver(f, withStatements(config()))
	f.Fuzz(func(t *testing.T, text, name string) {
		set, err := scopes.ParseSet(text)
		if err != nil || set.Len() != 1 || slices.Contains(s3Actions, set.Scopes()[0].Action()) || d.Check(set) != nil {
			return
		}
		policy, err := d.compile(set, "aws", deadline)
		if err != nil {
			t.Fatal(err)
		}
		s, p, in := set.Scopes()[0], parseIAM(t, policy), facts{"aws:currenttime": "2026-01-02T03:04:04Z"}
		_, rest, _ := strings.Cut(s.Resource(), "/")
		prefix, deep := strings.CutSuffix(rest, "**")
		if s.Action() == "param" {
			got := p.effect(t, "ssm:GetParameter", "arn:aws:ssm:eu-central-1:111122223333:parameter/"+name, in) == "Allow"
			if want := name == rest || deep && strings.HasPrefix(name, prefix); got != want {
				t.Fatalf("%s allows %q: %v", s, name, got)
			}
		}
		if s.Action() == "query" && !strings.Contains(name, "/") {
			got := p.effect(t, "dynamodb:Query", "arn:aws:dynamodb:eu-central-1:111122223333:table/"+name, in) == "Allow"
			if got != (name == rest) {
				t.Fatalf("%s allows %q: %v", s, name, got)
			}
		}
	})
}

func TestPolicyIsJSONWithoutSpaces(t *testing.T) {
	text, err := driver(t, config()).compile(scopes.MustParseSet("s3:data/in/**:read"), "aws-cn", deadline)
	if err != nil || strings.ContainsAny(text, " \n\\") || !json.Valid([]byte(text)) || !strings.Contains(text, "arn:aws-cn:s3:::") {
		t.Errorf("%s %v", text, err)
	}
}

func TestDescribe(t *testing.T) {
	d := driver(t, withStatements(config()))
	for text, want := range map[string][2]provider.Answer{
		"s3:data/in/a.csv:read":   {provider.No, provider.Yes},
		"s3:data/in/a.csv:write":  {provider.Yes, provider.Unknown},
		"s3:data/in/a.csv:delete": {provider.Yes, provider.Unknown},
		"s3:tables/orders:query":  {provider.Unknown, provider.Unknown},
		"s3:params/app/x:param":   {provider.Unknown, provider.Unknown},
	} {
		e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0])
		if err != nil || e.Writes != want[0] || e.Reversible != want[1] {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{"s3:data/a:frob", "s3:data/*:read", "s3:tables/orders:read-all", "s3:data/a:*"} {
		if e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0]); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
}
