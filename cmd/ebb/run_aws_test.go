package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// objects is a real S3 over TLS, with the requests that it received.
type objects struct {
	host, bucket string

	mu   sync.Mutex
	seen []*http.Request
}

// newObjects makes an ebb use the Ceph RGW of the environment for sessions, and
// creates a bucket with in/a.csv in it.
func newObjects(t *testing.T, b *outBed) *objects {
	t.Helper()
	at, err := url.Parse(counterpart.Need(t, "EBB_TEST_RGW"))
	if err != nil || at.User == nil {
		t.Fatal("EBB_TEST_RGW is not http://KEY:SECRET@host:port")
	}
	key, secret := at.User.Username(), ""
	secret, _ = at.User.Password()
	at.User = nil
	o := &objects{bucket: fmt.Sprintf("ebb-run-%d", time.Now().UnixNano())}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(at)
		r.Out.Host = r.In.Host // the header is signed
	}}
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.seen = append(o.seen, r.Clone(t.Context()))
		o.mu.Unlock()
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	o.host = fmt.Sprintf("api.example.com:%d", netip.MustParseAddrPort(front.Listener.Addr().String()).Port())
	aws := func(args ...string) {
		cmd := exec.Command("/usr/bin/aws", append([]string{"--endpoint-url", at.String(), "--region", "us-east-1"}, args...)...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "AWS_ACCESS_KEY_ID=" + key, "AWS_SECRET_ACCESS_KEY=" + secret}
		b.must(cmd)
	}
	aws("iam", "create-role", "--role-name", o.bucket, "--assume-role-policy-document", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["arn:aws:iam:::user/broker"]},"Action":["sts:AssumeRole"]}]}`)
	aws("iam", "put-role-policy", "--role-name", o.bucket, "--policy-name", "base", "--policy-document", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:*"],"Resource":["arn:aws:s3:::*"]}]}`)
	b.write("a.csv", "one,two\n")
	aws("s3api", "create-bucket", "--bucket", o.bucket)
	aws("s3api", "put-object", "--bucket", o.bucket, "--key", "in/a.csv", "--body", b.home+"/a.csv")
	b.write("aws.id", key+"\n")
	b.write("aws.secret", secret+"\n")
	if err := os.Mkdir(b.home+"/policies", 0o700); err != nil {
		t.Fatal(err)
	}
	b.write("policies/s3.cedar", `@id("all") permit (principal, action, resource);`)
	b.more(fmt.Sprintf(`  - name: s3
    kind: aws
    resource: https://%[2]s
    config:
      flavor: rgw
      region: us-east-1
      endpoint: https://%[2]s
      ca_file: %[1]s/ca.pem
      access_key_file: %[1]s/aws.id
      secret_key_file: %[1]s/aws.secret
      roles: [{scopes: ["s3:%[3]s/**:*"], arns: ["arn:aws:iam:::role/%[3]s"]}]
policy_dir: %[1]s/policies
`, b.home, o.host, o.bucket))
	return o
}

// TestRunAWS: the AWS client, which gets credentials in the two ways that SDKs
// support, reads and writes its objects, and the session never enters the
// sandbox.
func TestRunAWS(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	installed(t, "aws")
	o := newObjects(t, b)
	b.serve()
	scope := "s3:" + o.bucket + "/in/**:read s3:" + o.bucket + "/out/**:write"
	const script = `s3() { aws --endpoint-url https://$S3 --region us-east-1 s3api "$@"; }
		s3 get-object --bucket $BUCKET --key in/a.csv a.csv >/dev/null && cat a.csv
		echo written >b.csv; s3 put-object --bucket $BUCKET --key out/b.csv --body b.csv >/dev/null && echo put
		s3 put-object --bucket $BUCKET --key in/a.csv --body b.csv >/dev/null 2>&1 || echo refused`
	for name, how := range map[string]struct {
		flags  []string
		before string
	}{
		"container credentials": {[]string{"--aws", scope}, ``},
		"credential_process":    {nil, `mkdir ~/.aws; echo "[default]` + "\n" + `credential_process = ebb credential aws --scope \"` + scope + `\"" >~/.aws/config; `},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", "--scope", "s3:**:*", "--env", "S3=" + o.host, "--env", "BUCKET=" + o.bucket}, how.flags...)
			cmd := b.ebb(append(args, "--", "sh", "-c", how.before+script+"; env >environment")...)
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil || string(out) != "one,two\nput\nrefused\n" {
				t.Errorf("%v: %s%s", err, out, errs.String())
			}
			if env, err := os.ReadFile(b.work + "/environment"); err != nil || strings.Contains(string(env), "ASIA") {
				t.Errorf("%s, %v", env, err)
			}
		})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	got := map[string]int{}
	for _, r := range o.seen {
		if r.URL.Path != "/" {
			got[r.Method+" "+strings.TrimPrefix(r.URL.Path, "/"+o.bucket)]++
		}
		if a := r.Header.Get("Authorization"); strings.Contains(a, "placeholder") || r.Header.Get("X-Amz-Security-Token") == "" && r.URL.Path != "/" {
			t.Errorf("%s %s arrived signed so: %s", r.Method, r.URL.Path, a)
		}
	}
	if got["GET /in/a.csv"] != 2 || got["PUT /out/b.csv"] != 2 || got["PUT /in/a.csv"] != 0 {
		t.Errorf("arrived: %v", got)
	}
}
