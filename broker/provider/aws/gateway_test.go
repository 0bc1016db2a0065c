package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/awsapi/awstest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/scopes"
)

// gateway is a real STS and S3: Ceph's RADOS Gateway, which has IAM too, or MinIO.
type gateway struct {
	t                  testing.TB
	flavor             string
	endpoint, key, sec string
	iam                *iam.Client // nil: MinIO
	role, bucket       string
}

// openGateway is the one that the environment names for a flavor, EBB_TEST_RGW or
// EBB_TEST_MINIO: its URL with the key of ebb's user, http://KEY:SECRET@host:port.
func openGateway(t testing.TB, flavor string) *gateway {
	t.Helper()
	name := "EBB_TEST_" + strings.ToUpper(flavor)
	u, err := url.Parse(counterpart.Need(t, name))
	if err != nil || u.User == nil {
		t.Fatalf("%s is not http://KEY:SECRET@host:port", name)
	}
	sec, _ := u.User.Password()
	return &gateway{t: t, flavor: flavor, endpoint: u.Scheme + "://" + u.Host, key: u.User.Username(), sec: sec, bucket: fmt.Sprintf("ebb-%d", time.Now().UnixNano())}
}

// fill makes the bucket, which is the broker's user's, as the role's tenant is.
func (g *gateway) fill() {
	g.t.Helper()
	own := g.s3(credentials.NewStaticCredentialsProvider(g.key, g.sec, ""))
	_, err := own.CreateBucket(g.t.Context(), &s3.CreateBucketInput{Bucket: &g.bucket})
	g.did(err)
	for _, key := range []string{"in/a.csv", "in/b.csv", "inside", "final/old"} {
		g.must(g.put(g.t.Context(), own, key, ""))
	}
}

func (g *gateway) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// did accepts that a call finds its own work done: the gateway ends some answers
// early, and the call was made again.
func (g *gateway) did(err error) {
	g.t.Helper()
	if r, ok := replyOf(err); ok && (r.Status == http.StatusConflict || r.Status == http.StatusNotFound) {
		return
	}
	g.must(err)
}

func (g *gateway) sdk(c sdk.CredentialsProvider) sdk.Config {
	return sdk.Config{Region: "us-east-1", BaseEndpoint: &g.endpoint, Credentials: c, HTTPClient: &http.Client{Timeout: 20 * time.Second},
		Retryer: func() sdk.Retryer { return awsapi.Retryer(20 * time.Second) }}
}

func (g *gateway) s3(c sdk.CredentialsProvider) *s3.Client {
	return s3.NewFromConfig(g.sdk(c), func(o *s3.Options) {
		o.UsePathStyle, o.RequestChecksumCalculation, o.ResponseChecksumValidation = true, sdk.RequestChecksumCalculationWhenRequired, sdk.ResponseChecksumValidationWhenRequired
	})
}

// as is S3 with a minted credential.
func (g *gateway) as(c provider.Credential) *s3.Client {
	p := documentOf(g.t, c)
	return g.s3(credentials.NewStaticCredentialsProvider(p.AccessKeyId, p.SecretAccessKey, p.SessionToken))
}

func (g *gateway) get(ctx context.Context, c *s3.Client, key string) error {
	out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &g.bucket, Key: &key})
	if err == nil {
		_, err = io.Copy(io.Discard, out.Body)
		err = errors.Join(err, out.Body.Close())
	}
	return err
}

func (g *gateway) put(ctx context.Context, c *s3.Client, key, from string) (err error) {
	if from != "" {
		_, err = c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &g.bucket, Key: &key, CopySource: &from})
	} else {
		_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: &g.bucket, Key: &key, Body: strings.NewReader("x")})
	}
	return err
}

func (g *gateway) list(ctx context.Context, c *s3.Client, prefix string) error {
	_, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &g.bucket, Prefix: &prefix})
	return err
}

func (g *gateway) del(ctx context.Context, c *s3.Client, key string) error {
	_, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &g.bucket, Key: &key})
	return err
}

// allowed reports whether a call was allowed, and fails on anything else.
func (g *gateway) allowed(err error) bool {
	g.t.Helper()
	if err == nil {
		return true
	}
	if r, ok := replyOf(err); !ok || r.Status != http.StatusForbidden {
		g.t.Errorf("neither allowed nor denied: %v", err)
	}
	return false
}

func (g *gateway) config() Config {
	return Config{
		Name: "s3", Flavor: g.flavor, Region: "us-east-1", Endpoint: g.endpoint, AccessKeyFile: awstest.SecretFile(g.t, g.key), SecretKeyFile: awstest.SecretFile(g.t, g.sec),
		Roles: []Role{{Scopes: []string{"s3:**:*"}, ARNs: []string{g.role}}},
		Areas: []Area{
			{Prefix: g.bucket + "/in", Actions: []string{"read", "list"}},
			{Prefix: g.bucket + "/quarantine", Actions: []string{"write"}},
			{Prefix: g.bucket + "/final", Actions: []string{"promote"}, From: g.bucket + "/quarantine"},
		},
	}
}

func (g *gateway) grants(set string) *grants {
	gs := newGrants(time.Now)
	gs.set = strings.ReplaceAll(set, "BUCKET", g.bucket)
	// Session names must be unique on the gateway, which may still have those of earlier test runs.
	gs.n.Store(time.Now().UnixNano())
	return gs
}

const inputs = "s3:BUCKET/in/**:read s3:BUCKET/in/**:list s3:BUCKET/quarantine/t1/**:write"

func (g *gateway) subject() providertest.Subject {
	gs := g.grants(inputs)
	return providertest.Subject{Driver: driver(g.t, g.config()), Grant: gs.next, Unsupported: "s3:b/*:read",
		Alive: func(ctx context.Context, c provider.Credential) (bool, error) {
			return g.allowed(g.get(ctx, g.as(c), "in/a.csv")), nil
		}}
}

func (g *gateway) enforcesTheScopes() {
	d := driver(g.t, g.config())
	mint := func(set string) *s3.Client {
		c, err := d.Mint(g.t.Context(), g.grants(set).next())
		g.must(err)
		return g.as(c)
	}
	work, promote := mint(inputs), mint("s3:BUCKET/final/t1/**:promote")
	ctx := g.t.Context()
	g.must(g.put(ctx, work, "quarantine/t1/r.csv", "")) // what is promoted below
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"read an input":           {g.get(ctx, work, "in/a.csv"), true},
		"read beside":             {g.get(ctx, work, "inside"), false},
		"read final":              {g.get(ctx, work, "final/old"), false},
		"list inputs":             {g.list(ctx, work, "in/"), true},
		"list a part of inputs":   {g.list(ctx, work, "in/a"), true},
		"list beside":             {g.list(ctx, work, "in"), false},
		"list all":                {g.list(ctx, work, ""), false},
		"write an input":          {g.put(ctx, work, "in/a.csv", ""), false},
		"delete an input":         {g.del(ctx, work, "in/a.csv"), false},
		"read back":               {g.get(ctx, work, "quarantine/t1/r.csv"), false},
		"delete what was written": {g.del(ctx, work, "quarantine/t1/r.csv"), false},
		"write for another task":  {g.put(ctx, work, "quarantine/t2/r.csv", ""), false},
		"write to final":          {g.put(ctx, work, "final/t1/r.csv", ""), false},
		"copy to final":           {g.put(ctx, work, "final/t1/r.csv", g.bucket+"/in/a.csv"), false},
		"promote":                 {g.put(ctx, promote, "final/t1/r.csv", g.bucket+"/quarantine/t1/r.csv"), true},
		"promote with a slash":    {g.put(ctx, promote, "final/t1/r2.csv", "/"+g.bucket+"/quarantine/t1/r.csv"), true},
		"promote an upload":       {g.put(ctx, promote, "final/t1/r.csv", ""), false},
		"promote an input":        {g.put(ctx, promote, "final/t1/r.csv", g.bucket+"/in/a.csv"), false},
		"promote for another":     {g.put(ctx, promote, "final/t2/r.csv", g.bucket+"/quarantine/t1/r.csv"), false},
		"promote backwards":       {g.put(ctx, promote, "quarantine/t1/x", g.bucket+"/quarantine/t1/r.csv"), false},
	} {
		if got := g.allowed(c.err); got != c.want {
			g.t.Errorf("%s: allowed %v", name, got)
		}
	}
}

// STS's least is 900 s. The lease ends long before.
func (g *gateway) endsBelowSTSFloor() {
	d, gs := driver(g.t, g.config()), g.grants(inputs)
	gs.ttl = 20 * time.Second
	gr := gs.next()
	c, err := d.Mint(g.t.Context(), gr)
	g.must(err)
	use := g.as(c)
	if !g.allowed(g.get(g.t.Context(), use, "in/a.csv")) {
		g.t.Error("not alive to begin with")
	}
	for end := gr.ExpiresAt.Add(30 * time.Second); g.allowed(g.get(g.t.Context(), use, "in/a.csv")); {
		if time.Now().After(end) {
			g.t.Fatal("alive half a minute after its end")
		}
	}
	if early := time.Until(gr.ExpiresAt); early > 0 {
		g.t.Errorf("dead %s before its end", early)
	}
}

// mintsMany mints n in a row, which all come whole; a policy that is too long,
// which would crash Ceph's gateway, is never sent.
func (g *gateway) mintsMany(n int) {
	d, gs := driver(g.t, g.config()), g.grants(inputs)
	long := gs.next()
	var set []string
	for i := range scopes.MaxScopes {
		set = append(set, fmt.Sprintf("s3:%s/a-prefix-that-is-long/%02d/**:read", g.bucket, i))
	}
	long.Scopes = scopes.MustParseSet(strings.Join(set, " "))
	if _, err := d.Mint(g.t.Context(), long); !errors.Is(err, provider.ErrRefused) {
		g.t.Errorf("a policy that is too long: %v", err)
	}
	start := time.Now()
	mintAll(g.t, d, gs, n, "tsk_1")
	g.t.Logf("%d mints took %s", n, time.Since(start))
}
