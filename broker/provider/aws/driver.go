package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// format is the format of a credential: the output of credential_process (AWS SDKs and Tools
// Reference Guide, "Process credential provider").
const format = "urn:ebb:token-type:aws"

// Driver mints sessions.
type Driver struct {
	cfg Config
	settings
	aws clients
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	writers map[string]*writer // by the role's ARN
}

var (
	_ provider.Driver   = (*Driver)(nil)
	_ provider.Prober   = (*Driver)(nil)
	_ provider.Checker  = (*Driver)(nil)
	_ provider.Injector = (*Driver)(nil)
)

var nameForm = lazyregexp.New(`^[a-z][a-z0-9-]{0,31}$`)

// New returns a driver. It makes no connections.
func New(c Config) (*Driver, error) {
	if !nameForm.MatchString(c.Name) {
		return nil, fmt.Errorf("aws provider: %q is not the name of a provider", c.Name)
	}
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: c, settings: s, now: c.Now, log: c.Logger, writers: map[string]*writer{}}
	if d.now == nil {
		d.now = time.Now
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.aws, err = c.clients(s)
	return d, err
}

// Traits implements provider.Driver.
func (d *Driver) Traits() provider.Traits {
	t := provider.Traits{Revocability: provider.Revocability{Class: provider.ClassTTLOnly}, ThirdParty: true}
	if d.deny {
		t.Revocability = provider.Revocability{Class: provider.ClassEventual, Bound: d.bound}
	}
	return t
}

// Check implements provider.Driver: it compiles the policy that Mint would send.
func (d *Driver) Check(set scopes.Set) error {
	_, _, err := d.plan(set, d.now())
	return err
}

func (d *Driver) plan(set scopes.Set, until time.Time) (rule, string, error) {
	if set.Empty() {
		return rule{}, "", fmt.Errorf("%w: no scope", provider.ErrUnsupported)
	}
	r, err := d.rule(set)
	if err != nil {
		return rule{}, "", err
	}
	policy, err := d.compile(set, r.partition, until)
	return r, policy, err
}

// Mint implements provider.Driver.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	now := d.now()
	session := provider.Name(g.Instance, g.LeaseID)
	until := g.ExpiresAt.Truncate(time.Second) // AWS compares whole seconds
	if session == "" || g.Save == nil || !until.After(g.IssuedAt) || !until.After(now) {
		return provider.Credential{}, errors.New("aws provider: the grant is incomplete or has expired")
	}
	r, policy, err := d.plan(g.Scopes, until)
	if err != nil {
		return provider.Credential{}, provider.Refused("AWS cannot express the scopes of this request: request fewer or other scopes", err)
	}
	if most := now.Add(r.maxSession).Truncate(time.Second); until.After(most) {
		until = most
		if policy, err = d.compile(g.Scopes, r.partition, until); err != nil {
			return provider.Credential{}, fmt.Errorf("aws provider: %w", err)
		}
	}
	role, err := d.pick(r, g.LeaseID, g.TaskID, now)
	if err != nil {
		return provider.Credential{}, err
	}

	h := handle{Role: role, Session: session, By: byUserID, Issued: now.Add(awsapi.CallTime(d.timeout) + skew).Unix(), Until: until.Unix()}
	in := d.request(g, h, policy, until.Sub(now))
	if d.sourceIdentity {
		h.By = bySourceIdentity
	}
	if d.sessionTags {
		h.Task = tagValue(g.TaskID)
	}
	saved, err := h.secret()
	if err != nil {
		return provider.Credential{}, err
	}
	if err := g.Save(ctx, saved); err != nil {
		// AWS has not been called yet. But after a failed save, the stored handle is unknown, so
		// the error is not ErrRefused.
		return provider.Credential{}, fmt.Errorf("saving the handle: %w", err)
	}
	out, sure, err := d.aws.assume(ctx, in)
	if err != nil {
		return provider.Credential{Handle: saved}, mintError(err, sure, now)
	}
	c, err := d.credential(h, in, out, until, g.Injected)
	if err != nil {
		c.Handle = saved
	}
	return c, err
}

// request returns the input of AssumeRole. It always has a session policy.
func (d *Driver) request(g provider.Grant, h handle, policy string, ttl time.Duration) *sts.AssumeRoleInput {
	seconds := max(minSession, (ttl + time.Second - 1).Truncate(time.Second))
	in := &sts.AssumeRoleInput{
		RoleArn: &h.Role, RoleSessionName: &h.Session, Policy: &policy,
		DurationSeconds: sdk.Int32(int32(seconds / time.Second)), ExternalId: d.externalID,
	}
	if d.sourceIdentity {
		in.SourceIdentity = &h.Session
	}
	if d.sessionTags {
		for _, t := range [][2]string{{tagTask, g.TaskID}, {"ebb-sandbox", g.Sandbox}, {"ebb-lease", g.LeaseID}} {
			in.Tags = append(in.Tags, types.Tag{Key: &t[0], Value: sdk.String(tagValue(t[1]))})
		}
		in.TransitiveTagKeys = []string{tagTask}
	}
	return in
}

// tagTask is the session tag that denials of a whole task compare.
const tagTask = "ebb-task"

// process is the output of a credential_process.
type process struct {
	Version                                                int
	AccessKeyId, SecretAccessKey, SessionToken, Expiration string //nolint:revive,staticcheck // AWS's spelling
}

// credential returns the Credential of a response. A session that differs from the request is
// refused.
func (d *Driver) credential(h handle, in *sts.AssumeRoleInput, out *sts.AssumeRoleOutput, until time.Time, injected bool) (provider.Credential, error) {
	k := out.Credentials
	if k == nil || sdk.ToString(k.AccessKeyId) == "" || sdk.ToString(k.SecretAccessKey) == "" || sdk.ToString(k.SessionToken) == "" || k.Expiration == nil {
		return provider.Credential{}, errors.New("the response of AWS has no credentials")
	}
	asked := time.Duration(*in.DurationSeconds) * time.Second
	issued := k.Expiration.Add(-asked)
	if off := issued.Sub(d.now()); off > skew || off < -skew-awsapi.CallTime(d.timeout) {
		return provider.Credential{}, fmt.Errorf("the response of AWS for %s has a session that ends at %s: compare the clocks; if they agree, the response is for another session", asked, k.Expiration)
	}
	if k.Expiration.Before(until) {
		until = k.Expiration.Truncate(time.Second)
	}
	h.Issued = issued.Unix()
	if injected {
		h.Key = &sessionKey{*k.AccessKeyId, *k.SecretAccessKey, *k.SessionToken}
	}
	saved, err := h.secret()
	if err != nil {
		return provider.Credential{}, err
	}
	doc, err := json.Marshal(process{1, *k.AccessKeyId, *k.SecretAccessKey, *k.SessionToken, until.UTC().Format(time.RFC3339)})
	if err != nil {
		return provider.Credential{}, err
	}
	// DiesAt: no Allow of the session holds from then on, although STS has a later expiry.
	return provider.Credential{
		Token: secret.New(string(doc)), Type: "N_A", Format: format, ExpiresAt: until, DiesAt: time.Unix(h.Until, 0), Handle: saved,
	}, nil
}

// Describe implements provider.Describer. The effects of S3's actions are known; those of
// statements come from the operator's Words.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	one, err := scopes.NewSet(s)
	if err != nil {
		return provider.Effect{}, err
	}
	if err := d.Check(one); err != nil {
		return provider.Effect{}, err
	}
	switch s.Action() {
	case actWrite, actDelete, actPromote:
		return provider.Effect{Writes: provider.Yes, Reversible: provider.Unknown, Sentence: "Objects come back only if the bucket keeps versions."}, nil
	}
	return provider.ByAction(s), nil
}
