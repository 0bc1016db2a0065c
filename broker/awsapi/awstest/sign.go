package awstest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=[0-9a-f]{64}$`)

// Signed recomputes the signature (SigV4) of a received request and returns the first
// problem, "" when it is valid. services are the services that the request may be for.
func Signed(r *http.Request, body []byte, keyID, secret string, services ...string) string {
	m := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil || m[1] != keyID || !slices.Contains(services, m[4]) {
		return "no signature of ours: " + r.Header.Get("Authorization")
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || at.Format("20060102") != m[2] {
		return "the date is not that of the scope"
	}
	signed := strings.Split(m[5], ";")
	for _, name := range []string{"host", "x-amz-date", "content-type"} {
		if !slices.Contains(signed, name) {
			return "a header that counts is not signed: " + m[5]
		}
	}
	again, err := http.NewRequestWithContext(context.Background(), r.Method, "http://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		return err.Error()
	}
	for _, h := range signed {
		switch h {
		case "host", "x-amz-date":
		case "content-length":
			again.ContentLength = r.ContentLength
		default:
			again.Header[http.CanonicalHeaderKey(h)] = r.Header[http.CanonicalHeaderKey(h)]
		}
	}
	sum := sha256.Sum256(body)
	key := sdk.Credentials{AccessKeyID: keyID, SecretAccessKey: secret}
	if err := v4.NewSigner().SignHTTP(context.Background(), key, again, hex.EncodeToString(sum[:]), m[4], m[3], at); err != nil {
		return err.Error()
	}
	if got, want := r.Header.Get("Authorization"), again.Header.Get("Authorization"); got != want {
		return "the signature is wrong:\n" + got + "\n" + want
	}
	return ""
}
