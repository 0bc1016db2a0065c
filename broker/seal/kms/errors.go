package kms

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/seal"
)

// sentences are the remedies for refusals, by the error code of KMS; %s is the key's ARN.
var sentences = map[string]string{
	"AccessDeniedException": "ebb may not use %s: its key policy, and the policy of ebb's role, must allow kms:Encrypt, kms:Decrypt and kms:DescribeKey with ebb's encryption context (docs/reference/sealing.md)",
	"DisabledException":     "%s is disabled: enable it (aws kms enable-key)",
	"NotFoundException":     "%s does not exist: compare account, region and id; a deleted key is lost, and with it everything sealed by it",
	"KMSInvalidStateException": "%s cannot be used in its state: if it waits for deletion, cancel that (aws kms cancel-key-deletion) and enable it; " +
		"if its material was imported, import it again",
	"InvalidKeyUsageException": "%s is not a symmetric key for encryption: make one (aws kms create-key) and name it",
	"KeyUnavailableException":  "%s is not available for now: AWS says that it will be",
}

// explain adds the meaning of an error and its remedy.
func (w *Wrapper) explain(k *key, err error) error {
	if err == nil {
		return nil
	}
	r, ok := awsapi.ReplyOf(err)
	text, known := sentences[r.Code]
	switch {
	case !ok:
		return fmt.Errorf("sealing key at KMS: no answer about %s: check the network and ebb's own credentials: %w", k.arn, err)
	case r.Code == "InvalidCiphertextException" || r.Code == "IncorrectKeyException":
		return fmt.Errorf("%w: %s at KMS does not open it for the instance %s: it was wrapped for another instance (if public_url has changed, set instance to its earlier value), for another data key, or was altered: %w",
			seal.ErrNoKey, k.arn, w.instance, err)
	case r.OwnFault():
		return fmt.Errorf("sealing key at KMS: AWS does not accept ebb's own credentials: renew them, and compare the clock: %w", err)
	case r.Throttled():
		return fmt.Errorf("sealing key at KMS: AWS limits the rate of %s: %w", k.region, err)
	case known:
		return fmt.Errorf("sealing key at KMS: "+text+": %w", k.arn, err)
	}
	return fmt.Errorf("sealing key at KMS: %s: %w", k.arn, err)
}

// pause is the time without calls to a key after it did not answer, or after it limited the rate
// without a duration.
const pause = 5 * time.Second

// rest suspends calls to a key that does not answer: a ring has many data keys, and each would wait
// for it.
type rest struct {
	mu    sync.Mutex
	until time.Time
	why   error
}

// over returns nil when the key may be called.
func (r *rest) over(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.until) {
		return r.why
	}
	return nil
}

func (r *rest) after(err error, now time.Time) {
	// A cancelled call says nothing about the key.
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	answer, ok := awsapi.ReplyOf(err)
	if ok && !answer.Throttled() && answer.Status < 500 {
		return
	}
	wait, told := provider.RetryAfter(answer.Header, now)
	if !told {
		wait = pause
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.why = now.Add(wait), err
}
