package kms

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/seal"
)

const (
	prefix  = "kms:"
	keySize = 32
	// maxBlob is the limit of KMS for a CiphertextBlob.
	maxBlob = 6144
)

// materialForm is a KeyMaterialId, or "-" for an unknown one.
var materialForm = lazyregexp.New(`^(?:-|[0-9a-f]{64})$`)

// Wrapper wraps and unwraps by calls to KMS.
type Wrapper struct {
	instance string
	now      func() time.Time
	timeout  time.Duration
	newest   *key
	keys     map[string]*key // by id
}

// key is one key at KMS.
type key struct {
	name
	client *kms.Client
	rest   rest
	state  state
}

var _ seal.Wrapper = (*Wrapper)(nil)

// New makes a wrapper. It opens no connection.
func New(c Config) (*Wrapper, error) {
	names, err := c.names()
	api, e := c.api()
	if err = errors.Join(err, e); err != nil {
		return nil, err
	}
	w := &Wrapper{instance: c.Instance, now: c.Now, timeout: api.Timeout, keys: map[string]*key{}}
	if w.now == nil {
		w.now = time.Now
	}
	for _, n := range names {
		api.Region = n.region
		cfg, err := api.SDK()
		if err != nil {
			return nil, fmt.Errorf("sealing key at KMS: %w", err)
		}
		k := &key{name: n, client: kms.NewFromConfig(cfg)}
		w.keys[n.id] = k
		if w.newest == nil {
			w.newest = k
		}
	}
	return w, nil
}

// bound returns the encryption context of a data key.
func (w *Wrapper) bound(id string) map[string]string {
	return map[string]string{"ebb-instance": w.instance, "ebb-data-key": id}
}

// call makes one call with a timeout, unless calls to its key are suspended.
func (w *Wrapper) call(ctx context.Context, k *key, f func(context.Context) error) error {
	if err := k.rest.over(w.now()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, awsapi.CallTime(w.timeout))
	defer cancel()
	err := w.explain(k, f(ctx))
	k.rest.after(err, w.now())
	return err
}

// Wrap implements seal.Wrapper. The form is kms:<id of the key>:<id of its
// material>:<base64url of the CiphertextBlob>.
func (w *Wrapper) Wrap(ctx context.Context, id string, dataKey []byte) (string, error) {
	k := w.newest
	// Read before the call: if the key rotates in between, the text counts as older than it is, and
	// is wrapped once more.
	material := w.describe(ctx, k).material
	if material == "" {
		material = "-"
	}
	var out *kms.EncryptOutput
	err := w.call(ctx, k, func(ctx context.Context) (err error) {
		out, err = k.client.Encrypt(ctx, &kms.EncryptInput{
			KeyId: &k.arn, Plaintext: dataKey, EncryptionContext: w.bound(id), EncryptionAlgorithm: types.EncryptionAlgorithmSpecSymmetricDefault,
		})
		return err
	})
	if err != nil {
		return "", err
	}
	if out.KeyId == nil || *out.KeyId != k.arn || len(out.CiphertextBlob) == 0 || len(out.CiphertextBlob) > maxBlob {
		return "", fmt.Errorf("sealing key at KMS: the answer is for a key other than %s: check the server at the endpoint", k.arn)
	}
	return prefix + k.id + ":" + material + ":" + base64.RawURLEncoding.EncodeToString(out.CiphertextBlob), nil
}

// parse splits a wrapped text; ok is false for a text that Wrap did not make.
func parse(wrapped string) (id, material string, blob []byte, ok bool) {
	parts := strings.Split(wrapped, ":")
	if len(parts) != 4 || parts[0]+":" != prefix || !materialForm.MatchString(parts[2]) || parts[3] == "" {
		return "", "", nil, false
	}
	blob, err := base64.RawURLEncoding.Strict().DecodeString(parts[3])
	if err != nil || len(blob) > maxBlob || strings.ContainsAny(parts[3], "\r\n") {
		return "", "", nil, false
	}
	return parts[1], parts[2], blob, true
}

// Unwrap implements seal.Wrapper. It names the key in the call: otherwise an attacker with write
// access to the database could choose a key of their own and so know the data key.
func (w *Wrapper) Unwrap(ctx context.Context, id, wrapped string) ([]byte, error) {
	by, _, blob, ok := parse(wrapped)
	if !ok {
		return nil, fmt.Errorf("%w: it was not wrapped by KMS", seal.ErrNoKey)
	}
	k := w.keys[by]
	if k == nil {
		return nil, fmt.Errorf("%w: it was wrapped by the key %.36q at KMS, which is not configured: name its ARN as previous", seal.ErrNoKey, by)
	}
	var out *kms.DecryptOutput
	err := w.call(ctx, k, func(ctx context.Context) (err error) {
		out, err = k.client.Decrypt(ctx, &kms.DecryptInput{
			KeyId: &k.arn, CiphertextBlob: blob, EncryptionContext: w.bound(id), EncryptionAlgorithm: types.EncryptionAlgorithmSpecSymmetricDefault,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if out.KeyId == nil || *out.KeyId != k.arn || len(out.Plaintext) != keySize {
		return nil, fmt.Errorf("sealing key at KMS: the answer is not a data key of %s: check the server at the endpoint", k.arn)
	}
	return out.Plaintext, nil
}
