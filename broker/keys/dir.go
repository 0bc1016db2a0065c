package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
)

// skew is how far the clocks of replicas may be apart.
const skew = 5 * time.Minute

// ErrClock is wrapped when a key was made later than this machine's clock says
// it is. Nothing is changed until the clock is right.
var ErrClock = errors.New("the clock of this machine is behind the keys")

// Config says where keys are kept.
type Config struct {
	Dir    string           // required; made with mode 0700 when absent
	Policy Policy           // zero members mean the defaults
	Now    func() time.Time // nil = time.Now
	Log    *slog.Logger     // nil = silent
	// Used are the keys that were ever used, as the audit log has them. The public half of one whose file is
	// gone is put back, and no number is used twice.
	Used []Numbered
}

// Numbered is the public half of a key with the number of its file.
type Numbered struct {
	Number int
	jose.Key
}

// Dir is a directory of keys:
//
//	secret.key         the secret; made before the first signing key
//	sign-000001.key    signing keys, 0600, never rewritten; numbers only grow
//	sign-000001.pub    JWK of a removed key, so that old checkpoints can still be verified
//
// Replicas may share it. The first replica that links a file name owns it; the others read that
// key when they reload. It is safe for concurrent use.
type Dir struct {
	cfg  Config
	ring *Ring

	mu    sync.Mutex // one maintenance at a time in this process
	last  int        // highest number seen, forgotten keys included
	num   map[string]int
	early map[string]bool // keys of the future that the log has
}

// Open loads the directory, or creates it with a first key that signs at once. It refuses files
// that other users can read, damaged files, and a directory without its secret. It repairs and
// overwrites nothing.
func Open(cfg Config) (*Dir, error) {
	if cfg.Dir == "" {
		return nil, errors.New("keys: name the directory of the signing keys")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if cfg.Policy, err = cfg.Policy.withDefaults(); err != nil {
		return nil, err
	}
	if err := secret.EnsureDir(cfg.Dir); err != nil {
		return nil, err
	}
	secret.Sweep(cfg.Dir, cfg.Now())
	d := &Dir{cfg: cfg, early: map[string]bool{}}
	keys, err := d.load()
	if err != nil {
		return nil, err
	}
	secret, err := d.openSecret()
	if err != nil {
		return nil, err
	}
	if err := d.putBack(keys); err != nil {
		return nil, err
	}
	for len(keys) == 0 {
		now := cfg.Now()
		if _, err := d.create(now, now); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if keys, err = d.load(); err != nil {
			return nil, err
		}
	}
	if keys, err = d.past(keys, cfg.Now()); err != nil {
		return nil, err
	}
	d.ring, err = NewRing(cfg.Policy, secret, keys...)
	return d, err
}

// Ring returns the ring that follows this directory.
func (d *Dir) Ring() *Ring { return d.ring }

// openSecret must run after load. The secret is made before the first signing key, so a directory
// with signing keys and without a secret has lost it.
func (d *Dir) openSecret() ([]byte, error) {
	path := filepath.Join(d.cfg.Dir, secretFile)
	text, err := secret.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if d.last > 0 {
			return nil, fmt.Errorf("keys: %s is missing although signing keys exist: restore it from a backup, because what was sealed with it cannot be read without it", path)
		}
		err = secret.WriteFile(path, encodeSecret(newSecret()))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		text, err = secret.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	secret, err := decodeSecret(text)
	if err != nil {
		return nil, fmt.Errorf("keys: %s cannot be used: %w; restore it from a backup", path, err)
	}
	return secret, nil
}

// load reads every signing key and notes the numbers in use.
func (d *Dir) load() ([]Key, error) {
	list, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	var keys []Key
	num := make(map[string]int)
	for _, e := range list {
		n, ext, ok := parseName(e.Name())
		if !ok {
			continue
		}
		d.last = max(d.last, n)
		if ext != ".key" {
			continue
		}
		k, err := d.read(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // another replica archived it meanwhile
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(keys, func(o Key) bool { return o.KID == k.KID }) {
			keys = append(keys, k)
		}
		num[k.KID] = n
	}
	d.num = num
	return keys, nil
}

func (d *Dir) read(name string) (Key, error) {
	path := filepath.Join(d.cfg.Dir, name)
	text, err := secret.ReadFile(path)
	if err != nil {
		return Key{}, err
	}
	k, err := decodeKey(text)
	if err != nil {
		return Key{}, fmt.Errorf("keys: %s cannot be used: %w; restore it from a backup, or move it away to go on without it", path, err)
	}
	return k, nil
}

// past returns the keys that were made by now. A clock that was ahead for a while leaves
// keys of the future behind: they wait for their time, as long as another key signs.
func (d *Dir) past(keys []Key, now time.Time) ([]Key, error) {
	made := slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return k.Created.After(now.Add(skew)) })
	if len(made) == 0 {
		return nil, tooEarly(keys[0], now)
	}
	for _, k := range keys {
		if k.Created.After(now.Add(skew)) && !d.early[k.KID] {
			d.early[k.KID] = true
			d.cfg.Log.Warn("a signing key of the future is not used before its time: the clock is behind, or was ahead when the key was made", slog.String("kid", k.KID), slog.Time("created", k.Created))
		}
	}
	return made, nil
}

func tooEarly(k Key, now time.Time) error {
	return fmt.Errorf("keys: key %s was made at %s, now it is %s: %w; set the clock right. If it is right and was ahead when the key was made, move the .key file away and start again: what it signed is refused then",
		k.KID, k.Created.Format(timeShape), second(now).Format(timeShape), ErrClock)
}

func keyName(n int) string { return fmt.Sprintf("sign-%06d", n) }

func parseName(name string) (n int, ext string, ok bool) {
	ext = filepath.Ext(name)
	digits, ok := strings.CutPrefix(strings.TrimSuffix(name, ext), "sign-")
	if !ok || ext != ".key" && ext != ".pub" {
		return 0, "", false
	}
	n, err := strconv.Atoi(digits)
	return n, ext, err == nil && n > 0 && keyName(n)+ext == name
}

// putBack writes the public halves of used keys whose files are missing, so that their signatures
// can still be verified. The private halves are lost: tokens that they signed are refused from now
// on.
func (d *Dir) putBack(have []Key) error {
	for _, u := range d.cfg.Used {
		d.last = max(d.last, u.Number)
		path := filepath.Join(d.cfg.Dir, keyName(u.Number))
		_, err := os.Lstat(path + ".pub")
		if err == nil || slices.ContainsFunc(have, func(k Key) bool { return k.KID == u.KID }) {
			continue
		}
		if _, taken := os.Lstat(path + ".key"); taken == nil {
			continue // an earlier version gave the number away again; the audit log has the key
		}
		jwk, err := jose.MarshalPublicJWK(u.Key)
		if err != nil {
			return fmt.Errorf("keys: key %d: %w", u.Number, err)
		}
		d.cfg.Log.Error("signing key is missing: tokens that it signed are refused, and the audit log keeps its public key; restore its file from a backup if it was lost by mistake",
			slog.Int("number", u.Number), slog.String("kid", u.KID), slog.String("file", path+".key"))
		if err := secret.WriteFile(path+".pub", jwk); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Numbered returns every public key of the directory with its number, in order.
func (d *Dir) Numbered() ([]Numbered, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	var out []Numbered
	for _, e := range list { // by name, and so by number
		n, ext, ok := parseName(e.Name())
		if !ok {
			continue
		}
		k, err := d.publicOf(e.Name(), ext)
		if errors.Is(err, fs.ErrNotExist) {
			continue // archived meanwhile
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o Numbered) bool { return o.KID == k.KID }) {
			out = append(out, Numbered{n, k})
		}
	}
	return out, nil
}

func (d *Dir) publicOf(name, ext string) (jose.Key, error) {
	if ext == ".key" {
		k, err := d.read(name)
		if err != nil {
			return jose.Key{}, err
		}
		return k.public()
	}
	b, err := secret.ReadFile(filepath.Join(d.cfg.Dir, name))
	if err != nil {
		return jose.Key{}, err
	}
	k, err := jose.ParseJWK(b)
	if err != nil {
		return jose.Key{}, fmt.Errorf("keys: %s cannot be used: %w", name, err)
	}
	return k, nil
}

// Public returns every public key that the directory has: those that are forgotten, and those in use.
func (d *Dir) Public() ([]jose.Key, error) {
	all, err := d.Numbered()
	var out []jose.Key
	for _, k := range all {
		out = append(out, k.Key)
	}
	return out, err
}

// Archive returns the public keys of removed signing keys, oldest first. They verify signatures in
// the audit log, but no tokens.
func (d *Dir) Archive() ([]jose.Key, error) {
	list, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	var out []jose.Key
	for _, e := range list {
		if _, ext, ok := parseName(e.Name()); !ok || ext != ".pub" {
			continue
		}
		k, err := d.publicOf(e.Name(), ".pub")
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}
