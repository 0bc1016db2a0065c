package aws

import (
	"context"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/ebb-broker/ebb/broker/awsapi"
)

// clients speak to STS and IAM as ebb itself.
type clients struct {
	sts     *sts.Client
	iam     iamCalls
	timeout time.Duration // of one attempt
}

// iamCalls are the calls of iam.Client that this package uses. The fields are
// functions and not the client, because the linker keeps all methods of a type
// that reflection may reach: all calls of IAM add 5 MB to the binary.
type iamCalls struct {
	getRole          call[iam.GetRoleInput, iam.GetRoleOutput]
	getRolePolicy    call[iam.GetRolePolicyInput, iam.GetRolePolicyOutput]
	putRolePolicy    call[iam.PutRolePolicyInput, iam.PutRolePolicyOutput]
	deleteRolePolicy call[iam.DeleteRolePolicyInput, iam.DeleteRolePolicyOutput]
}

// call is the type of a call of IAM.
type call[In, Out any] func(context.Context, *In, ...func(*iam.Options)) (*Out, error)

func (c Config) clients(s settings) (clients, error) {
	cfg, err := awsapi.Config{
		Region: c.Region, Endpoint: c.Endpoint, Roots: s.roots, Timeout: s.timeout, AccessKeyFile: c.AccessKeyFile, SecretKeyFile: c.SecretKeyFile,
	}.SDK()
	if err != nil {
		return clients{}, err
	}
	i := iam.NewFromConfig(cfg)
	return clients{sts: sts.NewFromConfig(cfg), iam: iamCalls{i.GetRole, i.GetRolePolicy, i.PutRolePolicy, i.DeleteRolePolicy}, timeout: s.timeout}, nil
}

// witness is a retryer that remembers whether any attempt ended without the
// provider's word: then a later refusal does not say that nothing was made.
type witness struct {
	sdk.RetryerV2
	unsure atomic.Bool
}

// IsErrorRetryable implements aws.Retryer; the SDK asks it about every attempt.
func (w *witness) IsErrorRetryable(err error) bool {
	if !awsapi.Judged(err) {
		w.unsure.Store(true)
	}
	return w.RetryerV2.IsErrorRetryable(err)
}

// assume calls AssumeRole. sure is false when a session may have been made although
// the call failed.
func (c clients) assume(ctx context.Context, in *sts.AssumeRoleInput) (out *sts.AssumeRoleOutput, sure bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, awsapi.CallTime(c.timeout))
	defer cancel()
	var w *witness
	out, err = c.sts.AssumeRole(ctx, in, func(o *sts.Options) {
		v2, ok := o.Retryer.(sdk.RetryerV2)
		if !ok {
			v2 = awsapi.Retryer(c.timeout)
		}
		w = &witness{RetryerV2: v2}
		o.Retryer = w
	})
	return out, err == nil || w != nil && !w.unsure.Load() && awsapi.Judged(err), err
}
