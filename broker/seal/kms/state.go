package kms

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/ebb-broker/ebb/broker/awsapi"
)

// look is how long an answer of DescribeKey is used; again applies after a failure or a problem.
const (
	look  = 10 * time.Minute
	again = time.Minute
)

// facts is the known state of a key; the zero value means unknown.
type facts struct {
	material string // CurrentKeyMaterialId; "" = KMS does not say
	problem  error  // it does not open data keys any more, or soon will not
}

// state caches facts.
type state struct {
	mu    sync.Mutex
	facts facts
	until time.Time
}

// describe returns the state of a key from DescribeKey. If the call fails, it returns the last
// known state.
func (w *Wrapper) describe(ctx context.Context, k *key) facts {
	k.state.mu.Lock()
	defer k.state.mu.Unlock()
	if w.now().Before(k.state.until) {
		return k.state.facts
	}
	var out *kms.DescribeKeyOutput
	err := w.call(ctx, k, func(ctx context.Context) (err error) {
		out, err = k.client.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &k.arn})
		return err
	})
	r, answered := awsapi.ReplyOf(err)
	switch {
	case err == nil && out.KeyMetadata != nil:
		k.state.facts = w.read(k, out.KeyMetadata)
	case answered && r.Named() && !r.Throttled() && r.Status < 500: // the key does not exist, or ebb may not read it
		k.state.facts.problem = err
	}
	k.state.until = w.now().Add(look)
	if err != nil || k.state.facts.problem != nil {
		k.state.until = w.now().Add(again)
	}
	return k.state.facts
}

func (w *Wrapper) read(k *key, m *types.KeyMetadata) (f facts) {
	if m.CurrentKeyMaterialId != nil && materialForm.MatchString(*m.CurrentKeyMaterialId) {
		f.material = *m.CurrentKeyMaterialId
	}
	switch {
	case m.KeyState == types.KeyStatePendingDeletion || m.KeyState == types.KeyStatePendingReplicaDeletion:
		when := "soon"
		if m.DeletionDate != nil {
			when = "on " + m.DeletionDate.UTC().Format(time.RFC3339)
		}
		f.problem = fmt.Errorf("sealing key at KMS: %s will be deleted %s, and everything sealed with it is lost: cancel the deletion (aws kms cancel-key-deletion), then enable the key", k.arn, when)
	case m.KeyUsage != "" && m.KeyUsage != types.KeyUsageTypeEncryptDecrypt, m.KeySpec != "" && m.KeySpec != types.KeySpecSymmetricDefault:
		f.problem = fmt.Errorf("sealing key at KMS: %s is not a symmetric key for encryption: make one (aws kms create-key) and name it", k.arn)
	case m.KeyState != "" && m.KeyState != types.KeyStateEnabled:
		f.problem = fmt.Errorf("sealing key at KMS: %s is in the state %.24q: data keys in use go on, and none opens after a restart: enable it (aws kms enable-key)", k.arn, m.KeyState)
	case m.ValidTo != nil && m.ExpirationModel == types.ExpirationModelTypeKeyMaterialExpires && m.ValidTo.Before(w.now().Add(14*24*time.Hour)):
		f.problem = fmt.Errorf("sealing key at KMS: the imported material of %s expires at %s: import it again", k.arn, m.ValidTo.UTC().Format(time.RFC3339))
	}
	return f
}

// Stale implements seal.Wrapper: another key wraps now, or its material was rotated.
func (w *Wrapper) Stale(ctx context.Context, wrapped string) bool {
	id, material, _, ok := parse(wrapped)
	if !ok || id != w.newest.id {
		return true
	}
	now := w.describe(ctx, w.newest).material
	return now != "" && now != material
}

// Check implements seal.Wrapper.
func (w *Wrapper) Check(ctx context.Context) error { return w.describe(ctx, w.newest).problem }
