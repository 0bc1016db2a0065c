package egress_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/awsapi/awstest"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider/aws"
	"github.com/ebb-broker/ebb/scopes"
)

// s3Bed is a broker that issues sessions at Ceph's RADOS Gateway, which is reached over TLS.
type s3Bed struct {
	*bed
	endpoint, bucket string
	own, direct      *s3.Client   // with ebb's own key, without egress; direct uses TLS
	chunked          atomic.Int64 // payloads that arrived in chunks with a checksum after them
}

// newS3Bed makes a bucket, and a role with full access to buckets.
func newS3Bed(t *testing.T) *s3Bed {
	t.Helper()
	at, err := url.Parse(counterpart.Need(t, "EBB_TEST_RGW"))
	if err != nil || at.User == nil {
		t.Fatal("EBB_TEST_RGW is not http://KEY:SECRET@host:port")
	}
	key, user := at.User.Username(), at.User
	secret, _ := user.Password()
	at = &url.URL{Scheme: at.Scheme, Host: at.Host}
	b := &s3Bed{bucket: fmt.Sprintf("ebb-%d", time.Now().UnixNano())}
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Content-Sha256") == "STREAMING-UNSIGNED-PAYLOAD-TRAILER" {
			b.chunked.Add(1)
		}
		if strings.HasPrefix(r.URL.Path, "/echo/") {
			_ = r.Header.Write(w)
			return
		}
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(at); p.Out.Host = p.In.Host }}).ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b.endpoint = "https://" + s3Name + front.URL[strings.LastIndexByte(front.URL, ':'):]
	cfg := sdk.Config{Region: "us-east-1", BaseEndpoint: sdk.String(at.String()), Credentials: credentials.NewStaticCredentialsProvider(key, secret, "")}
	b.own = s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	over := cfg
	over.BaseEndpoint, over.HTTPClient = &b.endpoint, front.Client()
	b.direct = s3.NewFromConfig(over, func(o *s3.Options) { o.UsePathStyle = true })
	must := func(_ any, err error) {
		t.Helper()
		if err != nil && !strings.Contains(err.Error(), "AlreadyExists") { // the gateway ends some responses early, and the request is repeated
			t.Fatal(err)
		}
	}
	roles := iam.NewFromConfig(cfg)
	must(roles.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: &b.bucket, AssumeRolePolicyDocument: sdk.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["arn:aws:iam:::user/broker"]},"Action":["sts:AssumeRole"]}]}`)}))
	must(roles.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: &b.bucket, PolicyName: sdk.String("base"), PolicyDocument: sdk.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:*"],"Resource":["arn:aws:s3:::*"]}]}`)}))
	must(b.own.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &b.bucket}))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	driver, err := aws.New(aws.Config{
		Name: "s3", Flavor: "rgw", Region: "us-east-1", Endpoint: b.endpoint, CAFile: ca, AccessKeyFile: awstest.SecretFile(t, key), SecretKeyFile: awstest.SecretFile(t, secret),
		Roles: []aws.Role{{Scopes: []string{"s3:**:*"}, ARNs: []string{"arn:aws:iam:::role/" + b.bucket}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.bed = newBedOn(t, echo, func(c *brokertest.Config) {
		c.Providers["s3"] = broker.Provider{Driver: driver, Kind: "aws", Resource: b.endpoint + "/"}
	})
	b.leadsHere(s3Name)
	return b
}

// leadsHere makes a name resolve to loopback, and allows egress to connect there.
func (b *bed) leadsHere(name string) {
	b.names.answers[name+"."] = [][]string{{"127.0.0.1"}}
	b.cfg.Dialer.Private[name] = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
}

// tool is an S3 client in a sandbox. Its key is the placeholder of a lease for the scope.
func (b *s3Bed) tool(t *testing.T, x *sandbox, scope string, change ...func(*s3.Options)) *s3.Client {
	t.Helper()
	cfg := sdk.Config{
		Region: "us-east-1", BaseEndpoint: &b.endpoint, HTTPClient: x.client(t, false), Retryer: func() sdk.Retryer { return sdk.NopRetryer{} },
		Credentials: credentials.NewStaticCredentialsProvider(x.placeholder(t, strings.ReplaceAll(scope, "BUCKET", b.bucket)), "none", ""),
	}
	return s3.NewFromConfig(cfg, append([]func(*s3.Options){func(o *s3.Options) { o.UsePathStyle = true }}, change...)...)
}

// s3Box returns a sandbox whose task has full access to the bucket.
func (b *s3Bed) s3Box(t *testing.T) *sandbox {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("s3:**:*")
	return b.boxOf(t, b.Open(t, spec))
}

func (b *s3Bed) holds(t *testing.T, key string) string {
	t.Helper()
	out, err := b.own.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b.bucket, Key: &key})
	if err != nil {
		t.Fatalf("%q: %v", key, err)
	}
	defer func() { _ = out.Body.Close() }()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
