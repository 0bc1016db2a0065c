package aws

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/scopes"
)

const (
	heldID, heldSecret, heldToken = "ASIAHELDEXAMPLE", "held/secret/canary", "held-token"
	claimOf                       = "AWS4-HMAC-SHA256 Credential=ebb-placeholder.lse_1/20261122/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=00"
)

// injecting is a driver of AWS, which connects to nothing.
func injecting(t testing.TB, change ...func(*Config)) *Driver {
	t.Helper()
	c := config()
	c.Roles[0].Scopes = []string{c.Name + ":**:*"}
	c.Areas = nil
	for _, f := range change {
		f(&c)
	}
	return driver(t, c)
}

// kept is a lease whose session stayed in ebb.
func kept(t testing.TB, scope string) provider.Target {
	t.Helper()
	now := time.Now()
	h := handle{Role: cloudRoleA, Session: "ebb-0a1b2c3d-0123456789abcdef", By: byUserID, Issued: now.Unix(), Until: now.Add(time.Hour).Unix(), Key: &sessionKey{heldID, heldSecret, heldToken}}
	s, err := h.secret()
	if err != nil {
		t.Fatal(err)
	}
	return provider.Target{LeaseID: "lse_1", Scopes: scopes.MustParseSet(scope), Handle: s, IssuedAt: now, ExpiresAt: now.Add(time.Hour), Now: now}
}

func s3call(t testing.TB, method, text string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", claimOf)
	return r
}

// verify computes the signature again from what a server gets, by the documentation of
// Signature Version 4 for S3, and not by the SDK; "" = it is right.
func verify(r *http.Request, region string) string {
	auth := r.Header.Get("Authorization")
	rest, is := strings.CutPrefix(auth, "AWS4-HMAC-SHA256 Credential="+heldID+"/")
	date := r.Header.Get("X-Amz-Date")
	scope := date[:min(8, len(date))] + "/" + region + "/s3/aws4_request"
	rest, is2 := strings.CutPrefix(rest, scope+", SignedHeaders=")
	names, signature, is3 := strings.Cut(rest, ", Signature=")
	if !is || !is2 || !is3 || len(date) != 16 {
		return "it is not signed so: " + auth
	}
	signed := strings.Split(names, ";")
	for name := range r.Header {
		if n := strings.ToLower(name); strings.HasPrefix(n, "x-amz-") && !slices.Contains(signed, n) {
			return n + " is not signed"
		}
	}
	query := r.URL.Query()
	var pairs []string
	for k, vs := range query {
		for _, v := range vs {
			pairs = append(pairs, strings.ReplaceAll(url.QueryEscape(k), "+", "%20")+"="+strings.ReplaceAll(url.QueryEscape(v), "+", "%20"))
		}
	}
	sort.Strings(pairs)
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + strings.Join(pairs, "&") + "\n"
	for _, name := range signed {
		value := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			value = r.URL.Host
		}
		canonical += name + ":" + strings.TrimSpace(value) + "\n"
	}
	canonical += "\n" + names + "\n" + r.Header.Get("X-Amz-Content-Sha256")
	sum := sha256.Sum256([]byte(canonical))
	mac := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	key := []byte("AWS4" + heldSecret)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	if want := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+date+"\n"+scope+"\n"+hex.EncodeToString(sum[:]))); want != signature {
		return "the signature is wrong for\n" + canonical
	}
	return ""
}

// TestInject: (E13, E55, E56, E57, E58, E60, E61, E71, E82, E95) a request of S3 is signed from scratch with the lease's session, when the
// lease's scopes are for its bucket, key and operation.
//
//ebb:invariant I2 Each provider that checks requests suggests in a refusal only scopes that allow the refused request
//ebb:invariant I6 The AWS provider signs an S3 request only if the lease's scopes cover its bucket, key and operation
//ebb:invariant I6 The AWS provider signs requests only for hosts of S3 or for its configured endpoint
func TestInject(t *testing.T) {
	t.Parallel()
	d := injecting(t)
	n := d.cfg.Name
	const path, host = "https://s3.eu-central-1.amazonaws.com/data/", "https://data.s3.eu-central-1.amazonaws.com/"
	read, write, list, remove := n+":data/in/**:read", n+":data/in/**:write", n+":data/in/**:list", n+":data/in/**:delete"
	for _, c := range []struct {
		scope, method, url string
		ok                 bool
	}{
		{read, "GET", path + "in/a.csv", true},
		{read, "HEAD", host + "in/a%20b.csv?x-id=GetObject", true},
		{n + ":data/in/a.csv:read", "GET", host + "in/a.csv", true},
		{write, "PUT", host + "in/a.csv?x-id=PutObject", true},
		{write, "POST", host + "in/a.csv?uploads", true},
		{write, "PUT", host + "in/a.csv?partNumber=1&uploadId=x", true},
		{write, "POST", host + "in/a.csv?uploadId=x", true},
		{write, "DELETE", host + "in/a.csv?uploadId=x", true},
		{remove, "DELETE", host + "in/a.csv", true},
		{list, "GET", host + "?list-type=2&prefix=in%2Fx&continuation-token=t", true},
		{list, "GET", path[:len(path)-1] + "?list-type=2&prefix=in%2F", true},
		{n + ":data/**:list", "GET", host, true},

		// Another action, bucket, key or operation.
		{read, "PUT", host + "in/a.csv", false},
		{write, "GET", host + "in/a.csv", false},
		{write, "DELETE", host + "in/a.csv", false},
		{remove, "DELETE", host + "in/a.csv?uploadId=x", false},
		{read, "GET", host + "out/a.csv", false},
		{read, "GET", host + "inside", false},
		{n + ":data/in/a.csv:read", "GET", host + "in/a.csvx", false},
		{read, "GET", "https://other.s3.eu-central-1.amazonaws.com/in/a.csv", false},
		{read, "GET", "https://s3.eu-central-1.amazonaws.com/other/in/a.csv", false},
		{read, "GET", "https://other.s3.eu-central-1.amazonaws.com/data/in/a.csv", false},
		{list, "GET", host + "?list-type=2", false},
		{list, "GET", host + "?list-type=2&prefix=out%2F", false},
		{list, "GET", host + "?list-type=2&prefix=in%2F&prefix=out%2F", false},
		{n + ":data/**:list", "GET", host + "?policy", false},
		{read, "GET", host + "in/a.csv?acl", false},
		{read, "GET", host + "in/a.csv?versionId=1", false},
		{write, "PUT", host + "in/a.csv?acl", false},
		{write, "PUT", host + "in/a.csv?tagging", false},
		{write, "POST", host + "?delete", false},
		{write, "POST", host + "in/a.csv?restore", false},
		{n + ":data/**:delete", "DELETE", host, false},
		{n + ":data/**:write", "PUT", host, false},
		// Another place, and paths that two servers could read in two ways.
		{read, "GET", "https://s3.amazonaws.com.evil.example/data/in/a.csv", false},
		{read, "GET", "https://data.s3.eu-central-1.evil.example/in/a.csv", false},
		{read, "GET", "https://data.s3-website.eu-central-1.amazonaws.com/in/a.csv", false},
		{read, "GET", "https://data.s3-accelerate.amazonaws.com/in/a.csv", false},
		{read, "GET", "https://sts.eu-central-1.amazonaws.com/data/in/a.csv", false},
		{read, "GET", "https://data.s3.us-west-2.amazonaws.com/in/a.csv", false}, // signed for eu-central-1
		{read, "GET", "http://data.s3.eu-central-1.amazonaws.com/in/a.csv", false},
		{read, "GET", "https://data.s3.eu-central-1.amazonaws.com:8443/in/a.csv", false},
		{read, "GET", host + "in/../out/a.csv", false},
		{read, "GET", host + "in/%2e%2e/out/a.csv", false},
		{read, "GET", host + "in%2fa.csv", false},
		{read, "GET", host + "in/a%2fb", false},
		{read, "GET", host + "in/..%2fout", false},
		{read, "GET", host + "/in/a.csv", false},
		{read, "GET", host + "in/a%00", false},
		{read, "GET", host + "in/..;/a", false},
	} {
		r := s3call(t, c.method, c.url)
		providertest.ScopesFor(t, d, n, r, c.ok, func(scope string) provider.Target { return kept(t, scope) })
		err := d.Inject(t.Context(), r, kept(t, c.scope))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%s: %s %s: %v", c.scope, c.method, c.url, err)
		}
		if !c.ok {
			if r.Header.Get("Authorization") != claimOf || r.Header.Get("X-Amz-Security-Token") != "" {
				t.Errorf("%s %s: refused, and it has %v", c.method, c.url, r.Header)
			}
			continue
		}
		if wrong := verify(r, "eu-central-1"); wrong != "" || r.Header.Get("X-Amz-Security-Token") != heldToken {
			t.Errorf("%s %s: %s", c.method, c.url, wrong)
		}
	}
}

// TestInjectHeaders: (E66, E71, E95) the client's signature must name the region and service
// of the request. The driver accepts only payload hashes that it can forward, and refuses
// headers that change the operation.
//
//ebb:invariant I6 The AWS provider refuses an S3 request with a header that extends its operation, such as `x-amz-copy-source` or `x-amz-acl`
func TestInjectHeaders(t *testing.T) {
	t.Parallel()
	d := injecting(t)
	const at = "https://data.s3.eu-central-1.amazonaws.com/in/a.csv"
	hash := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		set  map[string]string
		want string // of X-Amz-Content-Sha256; "" = refused
	}{
		"as it is":           {nil, "UNSIGNED-PAYLOAD"},
		"no claim":           {map[string]string{"Authorization": ""}, "UNSIGNED-PAYLOAD"},
		"hash":               {map[string]string{"X-Amz-Content-Sha256": hash}, hash},
		"unsigned":           {map[string]string{"X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD"}, "UNSIGNED-PAYLOAD"},
		"unsigned chunks":    {map[string]string{"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"},
		"another date":       {map[string]string{"X-Amz-Date": "20200101T000000Z", "Date": "x"}, "UNSIGNED-PAYLOAD"},
		"another token":      {map[string]string{"X-Amz-Security-Token": "mine"}, "UNSIGNED-PAYLOAD"},
		"signed chunks":      {map[string]string{"X-Amz-Content-Sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, ""},
		"signed trailers":    {map[string]string{"X-Amz-Content-Sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"}, ""},
		"no hash":            {map[string]string{"X-Amz-Content-Sha256": "x"}, ""},
		"another region":     {map[string]string{"Authorization": strings.Replace(claimOf, "eu-central-1", "us-east-1", 1)}, ""},
		"another service":    {map[string]string{"Authorization": strings.Replace(claimOf, "/s3/", "/iam/", 1)}, ""},
		"another scheme":     {map[string]string{"Authorization": "Bearer ebb-placeholder.lse_1"}, ""},
		"source of a copy":   {map[string]string{"X-Amz-Copy-Source": "/secret/key"}, ""},
		"access list":        {map[string]string{"X-Amz-Acl": "public-read"}, ""},
		"grant":              {map[string]string{"X-Amz-Grant-Read": "uri=x"}, ""},
		"underscores":        {map[string]string{"X_amz_copy_source": "/secret/key"}, ""},
		"method in a header": {map[string]string{"X-Http-Method-Override": "DELETE"}, ""},
	} {
		r := s3call(t, http.MethodPut, at)
		for k, v := range c.set {
			r.Header[k] = []string{v}
		}
		providertest.ScopesFor(t, d, d.cfg.Name, r, c.want != "", func(scope string) provider.Target { return kept(t, scope) })
		err := d.Inject(t.Context(), r, kept(t, d.cfg.Name+":data/in/**:write"))
		if (err == nil) != (c.want != "") || err != nil && !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.want == "" {
			continue
		}
		if got := r.Header.Get("X-Amz-Content-Sha256"); got != c.want {
			t.Errorf("%s: the payload is %q", name, got)
		}
		if wrong := verify(r, "eu-central-1"); wrong != "" || r.Header.Get("X-Amz-Security-Token") != heldToken || r.Header.Get("Date") != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
	none := kept(t, d.cfg.Name+":data/in/**:write")
	over := none
	over.Now = over.ExpiresAt
	h, _ := readHandle(none.Handle)
	h.Key = nil
	none.Handle, _ = h.secret()
	for _, x := range []provider.Target{over, none, {}} {
		if err := d.Inject(t.Context(), s3call(t, http.MethodPut, at), x); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("signed: %v", err)
		}
	}
}

// TestInjects: egress is for objects and listings of S3.
func TestInjects(t *testing.T) {
	t.Parallel()
	d := injecting(t)
	for scope, want := range map[string]bool{"data/in/**:read": true, "data/in/**:list": true, "data/**:delete": true, "data/in/a:write": true, "data/final/**:promote": false} {
		if got := d.Injects(scopes.MustParseSet(d.cfg.Name + ":" + scope)); got != want {
			t.Errorf("%s: %v", scope, got)
		}
	}
}

// TestInjectAtAnEndpoint: an endpoint that is not AWS is one host, whose paths name the
// bucket.
//
//ebb:invariant I6 The AWS provider signs requests only for hosts of S3 or for its configured endpoint
func TestInjectAtAnEndpoint(t *testing.T) {
	t.Parallel()
	d := injecting(t, func(c *Config) {
		c.Flavor, c.Endpoint, c.Region = flavorRGW, "https://s3.example.com:8443", "eu-central-1"
	})
	x := kept(t, d.cfg.Name+":data/in/**:read")
	for text, ok := range map[string]bool{
		"https://s3.example.com:8443/data/in/a": true, "https://data.s3.example.com:8443/in/a": false, "https://s3.example.com/data/in/a": false,
		"https://s3.eu-central-1.amazonaws.com/data/in/a": false,
	} {
		r := s3call(t, http.MethodGet, text)
		err := d.Inject(t.Context(), r, x)
		if (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
		if ok {
			if wrong := verify(r, "eu-central-1"); wrong != "" {
				t.Error(wrong)
			}
		}
	}
}

// TestMintForEgress: the key of a session is in its handle when it stays in ebb, and only
// then; the session is revoked all the same.
func TestMintForEgress(t *testing.T) {
	cl := newCloud(t)
	d, gs := driver(t, cl.config()), newGrants(cl.now)
	for _, injected := range []bool{true, false} {
		g := gs.next()
		g.Injected = injected
		c, err := d.Mint(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		h, err := readHandle(c.Handle)
		if err != nil || (h.Key != nil) != injected || injected && !strings.Contains(c.Token.Reveal(), h.Key.Secret) {
			t.Errorf("injected %v: %v", injected, err)
		}
		if err := d.Revoke(t.Context(), gs.target(g, c)); err != nil {
			t.Error(err)
		}
	}
}

// FuzzInject: for arbitrary requests, the driver signs only those that read in the scope's bucket
// below the scope's prefix.
func FuzzInject(f *testing.F) {
	d := injecting(f)
	for _, u := range []string{"https://data.s3.eu-central-1.amazonaws.com/in/a", "https://s3.eu-central-1.amazonaws.com/data/in/a?x-id=GetObject", "https://s3.amazonaws.com/data/in/../x", "//data.s3.amazonaws.com/in/%2e"} {
		f.Add("GET", u, "X-Amz-Acl", "")
	}
	x := kept(f, d.cfg.Name+":data/in/**:read")
	f.Fuzz(func(t *testing.T, method, text, header, host string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: host, Header: http.Header{header: {"x"}}}
		if d.Inject(t.Context(), r, x) != nil {
			if strings.Contains(r.Header.Get("Authorization"), heldID) {
				t.Error("refused, and signed")
			}
			return
		}
		h := strings.ToLower(u.Hostname())
		virtual := strings.HasPrefix(h, "data.s3.") && strings.HasPrefix(u.Path, "/in/")
		path := strings.HasPrefix(h, "s3.") && strings.HasPrefix(u.Path, "/data/in/")
		if u.Scheme != "https" || method != "GET" && method != "HEAD" || !strings.HasSuffix(h, ".amazonaws.com") || !virtual && !path || strings.Contains(u.Path, "/../") {
			t.Errorf("signed %s %q (host %q)", method, text, host)
		}
	})
}
