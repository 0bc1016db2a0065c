package kms_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/awsapi/awstest"
	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/seal/file"
	"github.com/ebb-broker/ebb/broker/seal/kms"
	"github.com/ebb-broker/ebb/broker/seal/sealtest"
	"github.com/ebb-broker/ebb/broker/secret"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	sealtest.Run(t, sealtest.Suite{
		Wrapper: c.wrapper(c.config(keyA)), Other: c.wrapper(c.config(keyB)),
		Rotate: func(t *testing.T) seal.Wrapper { return c.wrapper(c.config(keyB, keyA)) },
	})
}

// AWS rotates a key's material under the same ARN: texts wrapped before still open, and are wrapped
// again.
func TestRotationAtKMS(t *testing.T) {
	t.Parallel()
	c, now := newCloud(t), time.Now()
	cfg := c.config(keyA)
	cfg.Now = func() time.Time { return now }
	w := c.wrapper(cfg)
	before := wrap(t, w)
	c.rotate(keyA)
	if w.Stale(t.Context(), before) {
		t.Error("KMS is asked for each text")
	}
	now = now.Add(10 * time.Minute)
	if !w.Stale(t.Context(), before) {
		t.Error("after a rotation it is not stale")
	}
	if _, err := w.Unwrap(t.Context(), sealtest.ID, before); err != nil {
		t.Errorf("what the earlier material wrapped: %v", err)
	}
	if w.Stale(t.Context(), wrap(t, w)) {
		t.Error("a text that was wrapped after it is stale")
	}
	// If KMS does not report the material, no text counts as stale.
	c.set(keyA, func(k *cloudKey) { k.ids[len(k.ids)-1] = "" })
	now = now.Add(10 * time.Minute)
	if text := wrap(t, w); w.Stale(t.Context(), text) || w.Stale(t.Context(), before) {
		t.Error("stale, and KMS does not tell")
	}
}

func wrap(t *testing.T, w *kms.Wrapper) string {
	t.Helper()
	text, err := w.Wrap(t.Context(), sealtest.ID, sealtest.DataKey())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A text of this database, or one that an attacker has put there, opens neither at another
// installation nor with a key that is not configured.
func TestBoundToTheInstallationAndItsKeys(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.set(keyA, func(k *cloudKey) { k.context = map[string]string{"ebb-instance": instance} }) // as in the documented policy
	mine := c.wrapper(c.config(keyA))
	text := wrap(t, mine)
	theirs := c.config(keyA)
	theirs.Instance = "ffffffff"
	if _, err := c.wrapper(theirs).Unwrap(t.Context(), sealtest.ID, text); err == nil || errors.Is(err, seal.ErrNoKey) || !strings.Contains(err.Error(), "kms:Decrypt") {
		t.Errorf("another instance where the policy insists: %v", err)
	}
	c.set(keyA, func(k *cloudKey) { k.context = nil })
	if _, err := c.wrapper(theirs).Unwrap(t.Context(), sealtest.ID, text); !errors.Is(err, seal.ErrNoKey) || !strings.Contains(err.Error(), "public_url") {
		t.Errorf("another instance: %v", err)
	}
	planted := wrap(t, c.wrapper(c.config(keyB)))
	calls := c.count("Decrypt")
	for _, bad := range []string{planted, strings.Replace(text, keyA[strings.Index(keyA, "/")+1:], keyB[strings.Index(keyB, "/")+1:], 1)} {
		if _, err := mine.Unwrap(t.Context(), sealtest.ID, bad); !errors.Is(err, seal.ErrNoKey) || !strings.Contains(err.Error(), "previous") {
			t.Errorf("a key that is not configured: %v", err)
		}
	}
	if c.count("Decrypt") != calls {
		t.Error("KMS was asked to use a key that is not configured")
	}
	swap := c.config(keyA, keyB)
	if _, err := c.wrapper(swap).Unwrap(t.Context(), sealtest.ID, strings.Replace(text, keyA[strings.Index(keyA, "/")+1:], keyB[strings.Index(keyB, "/")+1:], 1)); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("under the name of another key: %v", err)
	}
}

// A refusal by KMS is reported with its remedy, and the key does not count as lost.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*cloudKey)
		says   string
		check  string // "" = Check returns nil
	}{
		"disabled":     {func(k *cloudKey) { k.state = "Disabled" }, "enable-key", "enable-key"},
		"to be gone":   {func(k *cloudKey) { k.state, k.deletion = "PendingDeletion", time.Unix(1800000000, 0) }, "cancel-key-deletion", "2027-01-15T08:00:00Z"},
		"no material":  {func(k *cloudKey) { k.state = "PendingImport" }, "import", "PendingImport"},
		"of MACs":      {func(k *cloudKey) { k.usage = "GENERATE_VERIFY_MAC" }, "symmetric", "symmetric"},
		"no Decrypt":   {func(k *cloudKey) { k.deny = []string{"Decrypt", "Encrypt"} }, "kms:Decrypt", ""},
		"no looking":   {func(k *cloudKey) { k.deny = []string{"DescribeKey", "Decrypt", "Encrypt"} }, "kms:DescribeKey", "kms:DescribeKey"},
		"other state":  {func(k *cloudKey) { k.state = "Unavailable" }, "state", "Unavailable"},
		"deleted":      {func(*cloudKey) {}, "deleted", "deleted"},
		"wrong secret": {func(*cloudKey) {}, "credentials", "credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			text := wrap(t, c.wrapper(c.config(keyA)))
			c.set(keyA, tt.change)
			cfg := c.config(keyA)
			switch name {
			case "deleted":
				c.mu.Lock()
				delete(c.keys, keyA)
				c.mu.Unlock()
			case "wrong secret":
				cfg.SecretKeyFile = awstest.SecretFile(t, "canary-of-somebody")
			}
			w := c.wrapper(cfg)
			_, wrapErr := w.Wrap(t.Context(), sealtest.ID, sealtest.DataKey())
			_, openErr := w.Unwrap(t.Context(), sealtest.ID, text)
			for what, err := range map[string]error{"Wrap": wrapErr, "Unwrap": openErr} {
				if err == nil || errors.Is(err, seal.ErrNoKey) || errors.Is(err, seal.ErrDamaged) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s: %v", what, err)
				}
				if err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "dddd") || strings.Contains(err.Error(), ownSecret)) {
					t.Errorf("%s tells a secret: %v", what, err)
				}
			}
			if err := w.Check(t.Context()); (err == nil) != (tt.check == "") || err != nil && !strings.Contains(err.Error(), tt.check) {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

// With another server in place of KMS, no data key is wrapped or opened, and no key counts as lost.
func TestNonsense(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"500": broken, "cut": cut, "garbage": garbage, "empty": hollow, "endless": endless, "another key": swapped, "half a key": short, "hang": hang, "gateway": proxied,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			text := wrap(t, c.wrapper(c.config(keyA)))
			for _, action := range []string{"Encrypt", "Decrypt", "DescribeKey"} {
				c.fail(action, f)
			}
			cfg := c.config(keyA)
			if f == hang {
				cfg.Timeout = "200ms"
			}
			w := c.wrapper(cfg)
			if got, err := w.Wrap(t.Context(), sealtest.ID, sealtest.DataKey()); f != short && err == nil {
				t.Errorf("Wrap = %q", got)
			}
			if _, err := w.Unwrap(t.Context(), sealtest.ID, text); err == nil || errors.Is(err, seal.ErrNoKey) || errors.Is(err, seal.ErrDamaged) {
				t.Errorf("Unwrap: %v", err)
			}
			if w.Stale(t.Context(), text) {
				t.Error("stale although the key could not be read")
			}
			if err := w.Check(t.Context()); err != nil {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

// A truncated answer or a single 500 is retried.
func TestOneFaultIsSurvived(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{cut, broken, garbage, throttle} {
		c := newCloud(t)
		for _, action := range []string{"Encrypt", "Decrypt", "DescribeKey"} {
			c.fail(action, f, pass)
		}
		w := c.wrapper(c.config(keyA))
		text := wrap(t, w)
		if _, err := w.Unwrap(t.Context(), sealtest.ID, text); err != nil || w.Stale(t.Context(), text) {
			t.Errorf("fault %d: %v", f, err)
		}
	}
}

// Calls to a KMS that does not answer or limits the rate are suspended: a dozen data keys do not
// wait one after the other.
func TestKMSIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{hang, throttle} {
		c, now := newCloud(t), time.Now()
		text := wrap(t, c.wrapper(c.config(keyA)))
		c.fail("Decrypt", f)
		cfg := c.config(keyA)
		cfg.Now = func() time.Time { return now }
		if f == hang {
			cfg.Timeout = "3s" // retried within that time, and finally answered
		}
		w := c.wrapper(cfg)
		before := c.count("Decrypt")
		var first error
		for range 12 {
			_, err := w.Unwrap(t.Context(), sealtest.ID, text)
			if err == nil {
				t.Fatal("it opened")
			}
			if first == nil {
				first = err
			}
			if err.Error() != first.Error() {
				t.Errorf("%v, and then %v", first, err)
			}
		}
		if n := c.count("Decrypt") - before; n != 3 {
			t.Errorf("fault %d: %d attempts", f, n)
		}
		c.fail("Decrypt", pass)
		now = now.Add(5 * time.Second)
		if _, err := w.Unwrap(t.Context(), sealtest.ID, text); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}

// A cancelled call says nothing about KMS.
func TestCallerWhoLeaves(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	w := c.wrapper(c.config(keyA))
	text := wrap(t, w)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Unwrap(gone, sealtest.ID, text); err == nil || errors.Is(err, seal.ErrNoKey) {
		t.Errorf("%v", err)
	}
	if _, err := w.Unwrap(t.Context(), sealtest.ID, text); err != nil {
		t.Errorf("the next: %v", err)
	}
}

// A ring on KMS: with permission to encrypt but not to decrypt it makes no key. A disabled key is
// noticed while the data keys in use still work.
func TestRing(t *testing.T) {
	t.Parallel()
	c, now := newCloud(t), time.Now()
	cfg := c.config(keyA)
	cfg.Now = func() time.Time { return now }
	store := &memory{}
	ring, err := seal.New(t.Context(), seal.Config{Wrapper: c.wrapper(cfg), Store: store, Now: cfg.Now})
	if err != nil || ring.Err() != nil {
		t.Fatal(err, ring.Err())
	}
	text, err := ring.Seal("lse_1", secret.New("handle"))
	if err != nil {
		t.Fatal(err)
	}
	c.set(keyA, func(k *cloudKey) { k.state, k.deletion = "PendingDeletion", now.Add(7*24*time.Hour) })
	now = now.Add(11 * time.Minute)
	if err := ring.Maintain(t.Context()); err == nil || !strings.Contains(ring.Err().Error(), "cancel-key-deletion") {
		t.Errorf("Check does not report it: %v", err)
	}
	if s, err := ring.Open("lse_1", text); err != nil || s.Reveal() != "handle" {
		t.Errorf("Open: %v", err)
	}
	if _, err := ring.Seal("lse_2", secret.New("handle")); err != nil {
		t.Errorf("Seal: %v", err)
	}
	c.set(keyA, func(k *cloudKey) { k.state = "Enabled" })
	now = now.Add(2 * time.Minute)
	if err := ring.Maintain(t.Context()); err != nil || ring.Err() != nil {
		t.Errorf("enabled again: %v", err)
	}

	c.set(keyA, func(k *cloudKey) { k.deny = []string{"Decrypt"} })
	empty := &memory{}
	bad, err := seal.New(t.Context(), seal.Config{Wrapper: c.wrapper(cfg), Store: empty, Now: cfg.Now})
	if err != nil || bad.Err() == nil || bad.KeyID() != "" || len(empty.keys) != 0 || !strings.Contains(bad.Err().Error(), "kms:Decrypt") {
		t.Errorf("a ring without permission to decrypt has made %d keys: %v", len(empty.keys), bad.Err())
	}
}

// Data keys of an earlier key at KMS are wrapped again; afterwards that key is not needed.
func TestKeyIsReplaced(t *testing.T) {
	t.Parallel()
	c, store := newCloud(t), &memory{}
	ring := func(cfg kms.Config) *seal.Ring {
		r, err := seal.New(t.Context(), seal.Config{Wrapper: c.wrapper(cfg), Store: store})
		if err != nil || r.Err() != nil {
			t.Fatal(err, r.Err())
		}
		return r
	}
	text, err := ring(c.config(keyA)).Seal("lse_1", secret.New("handle"))
	if err != nil {
		t.Fatal(err)
	}
	ring(c.config(keyB, keyA))
	c.set(keyA, func(k *cloudKey) { k.state = "Disabled" })
	if s, err := ring(c.config(keyB)).Open("lse_1", text); err != nil || s.Reveal() != "handle" {
		t.Errorf("%v", err)
	}
}

// An installation that began with a file moves to KMS, and then does not need the file. A text that
// neither opens is reported with both reasons.
func TestMovingFromAFile(t *testing.T) {
	t.Parallel()
	c, store := newCloud(t), &memory{}
	files, err := file.New(file.Config{Path: filepath.Join(t.TempDir(), "seal.key")})
	if err != nil {
		t.Fatal(err)
	}
	ring := func(w seal.Wrapper) *seal.Ring {
		r, err := seal.New(t.Context(), seal.Config{Wrapper: w, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	text, err := ring(files).Seal("lse_1", secret.New("handle"))
	if err != nil {
		t.Fatal(err)
	}
	at := func() seal.Wrapper { return c.wrapper(c.config(keyA)) }
	if r := ring(at()); !errors.Is(r.Err(), seal.ErrNoKey) || len(store.keys) != 1 {
		t.Errorf("without the file: %v, %d keys", r.Err(), len(store.keys))
	}
	other, err := file.New(file.Config{Path: filepath.Join(t.TempDir(), "other.key")})
	if err != nil {
		t.Fatal(err)
	}
	if r := ring(seal.Moved(at(), other)); !errors.Is(r.Err(), seal.ErrNoKey) || !strings.Contains(r.Err().Error(), "KMS") || !strings.Contains(r.Err().Error(), "files") {
		t.Errorf("with another file: %v", r.Err())
	}
	// KMS is unreachable: the file opens, and the data key stays unchanged for now.
	c.fail("Encrypt", broken)
	before := store.keys[0].Wrapped
	if r := ring(seal.Moved(at(), files)); r.Err() != nil || store.keys[0].Wrapped != before {
		t.Errorf("while KMS is away: %v", r.Err())
	}
	c.fail("Encrypt", pass)
	for _, w := range []seal.Wrapper{seal.Moved(at(), files), at()} {
		r := ring(w)
		if s, err := r.Open("lse_1", text); err != nil || s.Reveal() != "handle" || r.Err() != nil || len(store.keys) != 1 {
			t.Errorf("%v, %v, %d keys", err, r.Err(), len(store.keys))
		}
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	good := kms.Config{Instance: instance, Key: keyA}
	for name, change := range map[string]func(*kms.Config){
		"none":       func(c *kms.Config) { c.Key = "" },
		"alias":      func(c *kms.Config) { c.Key = "arn:aws:kms:eu-central-1:111122223333:alias/ebb" },
		"only an id": func(c *kms.Config) { c.Key = "1234abcd-12ab-34cd-56ef-1234567890ab" },
		"newline":    func(c *kms.Config) { c.Key += "\n" },
		"twice":      func(c *kms.Config) { c.Previous = []string{keyA} },
		"two regions": func(c *kms.Config) {
			c.Key = keyB
			c.Previous = []string{strings.Replace(keyB, "us-east-1", "eu-west-1", 1)}
		},
		"previous": func(c *kms.Config) { c.Previous = []string{"x"} },
		"plain":    func(c *kms.Config) { c.Endpoint = "http://kms.example.com" },
		"path":     func(c *kms.Config) { c.Endpoint = "https://kms.example.com/x" },
		"one file": func(c *kms.Config) { c.AccessKeyFile = "/x" },
		"no file":  func(c *kms.Config) { c.AccessKeyFile, c.SecretKeyFile = "/does/not", "/exist" },
		"no ca":    func(c *kms.Config) { c.CAFile = "/does/not/exist" },
		"timeout":  func(c *kms.Config) { c.Timeout = "1h" },
		"instance": func(c *kms.Config) { c.Instance = "" },
	} {
		c := good
		change(&c)
		if _, err := kms.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := kms.New(kms.Config{Key: "x", Timeout: "x", Endpoint: "x"}); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("not every problem at once: %v", err)
	}
}

func FuzzUnwrap(f *testing.F) {
	c := newCloud(f)
	w := c.wrapper(c.config(keyA))
	text, err := w.Wrap(f.Context(), sealtest.ID, sealtest.DataKey())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("kms:1234abcd-12ab-34cd-56ef-1234567890ab:-:AAAA")
	f.Add("kms:::")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := w.Unwrap(t.Context(), sealtest.ID, s)
		if err == nil && string(got) != string(sealtest.DataKey()) {
			t.Errorf("%q opens", s)
		}
		if err != nil && !errors.Is(err, seal.ErrNoKey) {
			t.Errorf("%q: %v", s, err)
		}
	})
}

// memory keeps data keys.
type memory struct{ keys []seal.Key }

func (m *memory) SealingKeys(context.Context) ([]seal.Key, error) {
	return append([]seal.Key(nil), m.keys...), nil
}

func (m *memory) AddSealingKey(_ context.Context, k seal.Key) error {
	m.keys = append(m.keys, k)
	return nil
}

func (m *memory) RewrapSealingKey(_ context.Context, id, old, wrapped string) error {
	for i, k := range m.keys {
		if k.ID == id && k.Wrapped == old {
			m.keys[i].Wrapped = wrapped
		}
	}
	return nil
}
