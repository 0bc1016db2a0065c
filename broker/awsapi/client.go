package awsapi

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"

	"ebb/broker/provider"
)

const (
	// attempts of one call. More than one: in one of 300 answers of a real gateway
	// the body ended early. Whoever calls makes only calls that can be repeated.
	attempts = 3
	// maxAnswer is far above any answer that is asked for.
	maxAnswer = 1 << 20
)

// Config is where AWS is and who ebb is there.
type Config struct {
	Region   string
	Endpoint string         // "" = AWS's own
	Roots    *x509.CertPool // nil = the system's
	Timeout  time.Duration  // of one attempt
	// AccessKeyFile and SecretKeyFile hold ebb's own key; both "" = what AWS's SDKs
	// look for: environment, profile, web identity, container, instance.
	AccessKeyFile, SecretKeyFile string
}

// SDK makes the configuration of the SDK's clients. It does not connect.
func (c Config) SDK() (sdk.Config, error) {
	own, err := c.credentials()
	if err != nil {
		return sdk.Config{}, err
	}
	transport := provider.HTTP{Roots: c.Roots, Timeout: c.Timeout, MaxAnswer: maxAnswer}.Client()
	transport.Transport = named{transport.Transport}
	cfg := sdk.Config{Region: c.Region, Credentials: own, HTTPClient: transport, Retryer: func() sdk.Retryer { return Retryer(c.Timeout) }}
	if c.Endpoint != "" {
		cfg.BaseEndpoint = &c.Endpoint
	}
	return cfg, nil
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

// backoff is at most what is waited between two attempts.
func backoff(timeout time.Duration) time.Duration { return timeout / 4 }

// CallTime bounds one call with all its attempts.
func CallTime(timeout time.Duration) time.Duration {
	return attempts*timeout + (attempts-1)*backoff(timeout)
}

// Retryer is the SDK's, which also tries again after an answer that ended early or
// was none: every call that ebb makes can be repeated.
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

// SafeEndpoint reports whether secrets can travel to and from there: an https URL
// without a path, or http on loopback.
func SafeEndpoint(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return false
	}
	if u.Scheme == "https" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
