package awsapi

import (
	"bytes"
	"context"
	"crypto/fips140"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

const (
	// attempts is the number of attempts of one call. In one of 300 responses of a real gateway
	// the body ended early. All callers make idempotent calls only.
	attempts = 3
	// maxAnswer is the maximum size of a response in bytes, far above that of any expected
	// response.
	maxAnswer = 1 << 20
)

// Config has the address of an AWS-compatible service and ebb's credentials for it.
type Config struct {
	Region   string
	Endpoint string         // "" means AWS's endpoint
	Roots    *x509.CertPool // nil means the system's roots
	Timeout  time.Duration  // for one attempt
	// AccessKeyFile and SecretKeyFile are the files with ebb's own key. When both are "",
	// the sources of AWS's SDKs are used: environment, profile, web identity, container,
	// instance.
	AccessKeyFile, SecretKeyFile string
}

// SDK returns the configuration for the SDK's clients. It makes no connections.
func (c Config) SDK() (sdk.Config, error) {
	own, err := c.credentials()
	if err != nil {
		return sdk.Config{}, err
	}
	if fips140.Enforced() {
		own = longSecrets{own}
	}
	transport := provider.HTTP{Roots: c.Roots, Timeout: c.Timeout, MaxAnswer: maxAnswer}.Client()
	transport.Transport = named{transport.Transport}
	cfg := sdk.Config{Region: c.Region, Credentials: own, HTTPClient: transport, Retryer: func() sdk.Retryer { return Retryer(c.Timeout) }}
	if c.Endpoint != "" {
		cfg.BaseEndpoint = &c.Endpoint
	}
	return cfg, nil
}

// credentials returns ebb's own credentials. No other setting is taken from the SDK's
// configuration: an endpoint in the environment, for example, could supply the credentials.
func (c Config) credentials() (sdk.CredentialsProvider, error) {
	if c.AccessKeyFile == "" {
		// LoadDefaultConfig reads files and the environment. Credentials from the network are
		// fetched by the first call.
		cfg, err := awsconfig.LoadDefaultConfig(context.Background(), awsconfig.WithRegion(c.Region))
		return cfg.Credentials, err
	}
	id, err := secret.Read(c.AccessKeyFile)
	if err != nil {
		return nil, err
	}
	key, err := secret.Read(c.SecretKeyFile)
	if err != nil {
		return nil, err
	}
	return credentials.NewStaticCredentialsProvider(id.Reveal(), key.Reveal(), ""), nil
}

// longSecrets refuses a secret that would make the SDK panic under GODEBUG=fips140=only: the
// first HMAC key of Signature Version 4 is AWS4 and the secret, and the mode has no keys of less
// than 112 bits.
type longSecrets struct{ sdk.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (l longSecrets) Retrieve(ctx context.Context) (sdk.Credentials, error) {
	c, err := l.CredentialsProvider.Retrieve(ctx)
	if err == nil && len("AWS4"+c.SecretAccessKey) < 112/8 {
		return sdk.Credentials{}, errors.New("the secret access key is shorter than 10 characters, which GODEBUG=fips140=only forbids; make a longer one, or run ebb with GODEBUG=fips140=on")
	}
	return c, err
}

// backoff returns the longest wait between two attempts.
func backoff(timeout time.Duration) time.Duration { return timeout / 4 }

// CallTime bounds one call with all its attempts.
func CallTime(timeout time.Duration) time.Duration {
	return attempts*timeout + (attempts-1)*backoff(timeout)
}

// Retryer is the SDK's retryer. It also retries after an incomplete or missing response,
// because every call of ebb is idempotent.
func Retryer(timeout time.Duration) *retry.Standard {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = attempts, backoff(timeout)
		o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(func(err error) sdk.Ternary {
			if _, ok := errors.AsType[*smithy.DeserializationError](err); ok {
				return sdk.TrueTernary
			}
			return sdk.UnknownTernary
		}))
	})
}

// SafeEndpoint reports whether secrets may be sent to the URL: https without a path, or http
// on loopback.
func SafeEndpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" && (u.Path == "" || u.Path == "/") && fetch.Secure(u)
}

// named rewrites error responses of Ceph RGW to the form of AWS's query protocol, which has
// one more element around the error. Without it the SDK finds no error code, and the HTTP
// status alone does not show whether RGW or a proxy answered.
type named struct{ http.RoundTripper }

// bare matches the error of RGW at the end of a response; other output of the gateway may
// precede it.
var bare = lazyregexp.New(`<Error><Code>([A-Za-z0-9.]{1,64})</Code>[^\x00]*</Error>\s*$`)

// RoundTrip implements http.RoundTripper.
func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	body, err := provider.ReadBody(resp, maxAnswer)
	if err != nil {
		return nil, err
	}
	if m := bare.FindStringSubmatch(string(body)); m != nil && !bytes.Contains(body, []byte("<ErrorResponse")) {
		body = []byte("<ErrorResponse><Error><Code>" + m[1] + "</Code></Error></ErrorResponse>")
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}
