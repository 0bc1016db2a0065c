package aws

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"ebb/broker/provider"
)

const (
	// attempts of one call. More than one: in one of 300 answers of a real gateway
	// the body ended early, and AssumeRole can be repeated, since what is revoked
	// is the name of a session, however many of them there are.
	attempts = 3
	// maxAnswer is far above any answer of STS or IAM.
	maxAnswer = 1 << 20
)

// clients speak to STS and IAM as ebb itself.
type clients struct {
	sts     *sts.Client
	iam     *iam.Client
	timeout time.Duration // of one attempt
}

// backoff is at most what is waited between two attempts.
func backoff(timeout time.Duration) time.Duration { return timeout / 4 }

// callTime bounds one call with all its attempts.
func callTime(timeout time.Duration) time.Duration {
	return attempts*timeout + (attempts-1)*backoff(timeout)
}

func (c Config) clients(s settings) (clients, error) {
	transport := provider.HTTP{Roots: s.roots, Timeout: s.timeout}.Client()
	transport.Transport = bounded{transport.Transport}
	own, err := c.credentials()
	if err != nil {
		return clients{}, err
	}
	cfg := sdk.Config{Region: c.Region, Credentials: own, HTTPClient: transport}
	if c.Endpoint != "" {
		cfg.BaseEndpoint = &c.Endpoint
	}
	return clients{
		sts: sts.NewFromConfig(cfg, func(o *sts.Options) { o.Retryer = newRetryer(s.timeout) }),
		iam: iam.NewFromConfig(cfg, func(o *iam.Options) { o.Retryer = newRetryer(s.timeout) }),

		timeout: s.timeout,
	}, nil
}

// credentials are ebb's own. From the SDK's configuration nothing else is taken:
// an endpoint in the environment, say, would be where credentials come from.
func (c Config) credentials() (sdk.CredentialsProvider, error) {
	if c.AccessKeyFile == "" {
		// It reads files and environment; whatever needs the network waits for the
		// first call.
		cfg, err := awsconfig.LoadDefaultConfig(context.Background(), awsconfig.WithRegion(c.Region))
		return cfg.Credentials, err
	}
	id, err := provider.ReadSecret(c.AccessKeyFile)
	if err != nil {
		return nil, err
	}
	key, err := provider.ReadSecret(c.SecretKeyFile)
	if err != nil {
		return nil, err
	}
	return credentials.NewStaticCredentialsProvider(id.Reveal(), key.Reveal(), ""), nil
}

// newRetryer is the SDK's, which also tries again after an answer that ended early
// or was none: every call made here can be repeated.
func newRetryer(timeout time.Duration) *retry.Standard {
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

// witness is a retryer that remembers whether any attempt ended without the
// provider's word: then a later refusal does not say that nothing was made.
type witness struct {
	sdk.RetryerV2
	unsure atomic.Bool
}

// IsErrorRetryable implements aws.Retryer; the SDK asks it about every attempt.
func (w *witness) IsErrorRetryable(err error) bool {
	if !judged(err) {
		w.unsure.Store(true)
	}
	return w.RetryerV2.IsErrorRetryable(err)
}

// assume calls AssumeRole. sure is false when a session may have been made although
// the call failed.
func (c clients) assume(ctx context.Context, in *sts.AssumeRoleInput) (out *sts.AssumeRoleOutput, sure bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime(c.timeout))
	defer cancel()
	var w *witness
	out, err = c.sts.AssumeRole(ctx, in, func(o *sts.Options) {
		v2, ok := o.Retryer.(sdk.RetryerV2)
		if !ok {
			v2 = newRetryer(c.timeout)
		}
		w = &witness{RetryerV2: v2}
		o.Retryer = w
	})
	return out, err == nil || w != nil && !w.unsure.Load() && judged(err), err
}

// bounded ends answers that go on for ever: an error, not a short answer.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, maxAnswer}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, provider.ErrTooLarge
	}
	return n, err
}
