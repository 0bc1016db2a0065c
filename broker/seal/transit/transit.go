package transit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/vaultapi"
)

// Config of this kind.
type Config struct {
	vaultapi.Config
	Mount string `json:"mount,omitempty"` // "" = transit
	Key   string `json:"key"`             // of type aes256-gcm96 or chacha20-poly1305
}

// look is how long the known newest version of the key is used.
const look = 10 * time.Minute

var (
	keyForm     = lazyregexp.New(`^[A-Za-z0-9_.-]{1,128}$`)
	wrappedForm = lazyregexp.New(`^vault:v([1-9][0-9]{0,8}):[A-Za-z0-9+/=]+$`)
)

// Wrapper wraps and unwraps by calls to the engine.
type Wrapper struct {
	cfg    Config
	client *vaultapi.Client
	now    func() time.Time

	mu     sync.Mutex
	newest int // version of the key
	asked  time.Time
	gone   error // error of the last lookup of the key
}

var _ seal.Wrapper = (*Wrapper)(nil)

// New makes a wrapper. It opens no connection. now may be nil.
func New(c Config, now func() time.Time) (*Wrapper, error) {
	if c.Mount == "" {
		c.Mount = "transit"
	}
	client, err := vaultapi.New(c.Config, now)
	if !keyForm.MatchString(c.Key) {
		err = errors.Join(err, errors.New("key: name the key of the transit engine"))
	}
	if !vaultapi.ValidPath(c.Mount) {
		err = errors.Join(err, fmt.Errorf("mount: %q is not a path", c.Mount))
	}
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	return &Wrapper{cfg: c, client: client, now: now}, nil
}

func (w *Wrapper) write(ctx context.Context, verb, id string, body map[string]any, member string) (string, error) {
	body["associated_data"] = base64.StdEncoding.EncodeToString([]byte("ebb data key " + id))
	var out *api.Secret
	err := w.client.Do(ctx, func(ctx context.Context, c *api.Client) (err error) {
		out, err = c.Logical().WriteWithContext(ctx, w.cfg.Mount+"/"+verb+"/"+w.cfg.Key, body)
		return err
	})
	if err != nil {
		return "", err
	}
	var text string
	if out != nil {
		text, _ = out.Data[member].(string)
	}
	if text == "" {
		return "", errors.New("the engine's answer is empty")
	}
	return text, nil
}

// Wrap implements seal.Wrapper.
func (w *Wrapper) Wrap(ctx context.Context, id string, key []byte) (string, error) {
	text, err := w.write(ctx, "encrypt", id, map[string]any{"plaintext": base64.StdEncoding.EncodeToString(key)}, "ciphertext")
	if err == nil && !wrappedForm.MatchString(text) {
		err = errors.New("the engine's answer has another form")
	}
	if err != nil {
		return "", fmt.Errorf("sealing key at transit: %w", err)
	}
	return text, nil
}

// Unwrap implements seal.Wrapper.
func (w *Wrapper) Unwrap(ctx context.Context, id, wrapped string) ([]byte, error) {
	if !wrappedForm.MatchString(wrapped) {
		return nil, fmt.Errorf("%w: it was not wrapped by a transit engine", seal.ErrNoKey)
	}
	text, err := w.write(ctx, "decrypt", id, map[string]any{"ciphertext": wrapped}, "plaintext")
	if closed(err) {
		return nil, fmt.Errorf("%w: the transit engine does not open it: %w", seal.ErrNoKey, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sealing key at transit: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, seal.ErrDamaged
	}
	return key, nil
}

// closed reports whether the engine itself answered that it cannot open the text: the key is
// another one or was deleted, the id is another, the text was altered, or its version is below
// min_decryption_version or unknown. The status alone does not tell: Vault answers 400 for many
// other errors, such as a call without a token.
func closed(err error) bool {
	return vaultapi.Refused(err, http.StatusBadRequest) && slices.ContainsFunc([]string{
		"invalid ciphertext", "message authentication failed", "encryption key not found", "no such key version", "version is disallowed by policy",
	}, func(words string) bool { return vaultapi.Says(err, words) })
}

// Stale implements seal.Wrapper: the key was rotated at the engine.
func (w *Wrapper) Stale(ctx context.Context, wrapped string) bool {
	m := wrappedForm.FindStringSubmatch(wrapped)
	if m == nil {
		return true
	}
	version, err := strconv.Atoi(m[1])
	return err == nil && version < w.version(ctx)
}

// Check implements seal.Wrapper: the key exists.
func (w *Wrapper) Check(ctx context.Context) error {
	w.version(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// version returns the newest version of the key, or 0 when it is unknown.
func (w *Wrapper) version(ctx context.Context) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest > 0 && w.now().Sub(w.asked) < look {
		return w.newest
	}
	var out *api.Secret
	err := w.client.Do(ctx, func(ctx context.Context, c *api.Client) (err error) {
		out, err = c.Logical().ReadWithContext(ctx, w.cfg.Mount+"/keys/"+w.cfg.Key)
		return err
	})
	if err != nil {
		return w.newest
	}
	if out == nil { // Vault's own 404
		w.gone = fmt.Errorf("sealing key at transit: the engine at %s no longer has the key %s: restore it from a backup of the engine before ebb starts again", w.cfg.Mount, w.cfg.Key)
		return w.newest
	}
	w.gone = nil
	if n, ok := out.Data["latest_version"].(json.Number); ok {
		if v, err := strconv.Atoi(strings.TrimSpace(n.String())); err == nil {
			w.newest, w.asked = v, w.now()
		}
	}
	return w.newest
}
