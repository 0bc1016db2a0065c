package egress

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Limits of redactors: the memory of one task and of all, in bytes; how many are built at one time,
// each of which takes twice its memory more, and one core; and how long an unused one is kept.
const (
	taskRedactors = 16 << 20
	maxRedactors  = (shares + 1) * taskRedactors
	redactorsMade = 2
	idleRedactor  = time.Minute
)

// redactors caches the redactors of responses by lease and secrets, because one for a long token
// takes megabytes. They hold secrets in clear text, so that none is kept after its task or lease
// has ended.
type redactors struct {
	build  func(secrets ...string) (*redact.Redactor, error)
	making chan struct{} // its capacity is how many are built at one time

	mu    sync.Mutex
	all   map[redactorKey]*redactor
	held  share  // in bytes
	given uint64 // how often a redactor became unused
}

type redactorKey struct {
	leaseID string
	of      [sha256.Size]byte // digest of the secrets
}

// redactor is one redactor of the cache. Its fields are guarded by the mutex of redactors. The
// embedded Redactor and err are set once made is closed.
type redactor struct {
	key     redactorKey
	root    string
	ids     []string // tasks and lease: it is removed with the first of them
	bytes   int      // counted in redactors.held
	uses    int
	begun   bool        // a caller is building it
	gone    bool        // removed from the cache
	expires *time.Timer // set while it is unused
	given   uint64      // value of redactors.given at its last give

	made chan struct{}
	*redact.Redactor
	err error
}

func newRedactors(build func(secrets ...string) (*redact.Redactor, error)) *redactors {
	return &redactors{build: build, making: make(chan struct{}, redactorsMade), all: map[redactorKey]*redactor{}}
}

// take returns the redactor for these secrets; the caller must call give. If its memory may exceed
// the limit of the task, or the task's share of all, take fails before anything is built.
func (t *redactors) take(ctx context.Context, who broker.Caller, leaseID string, secrets []string) (*redactor, error) {
	slices.Sort(secrets)
	x, err := t.reserve(who, redactorKey{leaseID, sumOf(secrets)}, redact.Cost(secrets...))
	if err != nil {
		return nil, err
	}
	select {
	case <-x.made:
	case t.making <- struct{}{}:
		t.make(x, secrets)
		<-t.making
	case <-ctx.Done():
	}
	if err := t.wait(ctx, x); err != nil {
		return nil, err
	}
	return x, nil
}

// wait waits until x is built. A finished x is returned even if ctx has ended, so that it is kept
// for the next request.
func (t *redactors) wait(ctx context.Context, x *redactor) error {
	select {
	case <-x.made:
	default:
		select {
		case <-x.made:
		case <-ctx.Done():
			t.leave(x)
			return context.Cause(ctx)
		}
	}
	if x.err != nil {
		t.leave(x)
	}
	return x.err
}

// reserve finds or adds a redactor, and counts the memory that it may take.
func (t *redactors) reserve(who broker.Caller, key redactorKey, most int) (*redactor, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.all[key]; x != nil {
		if x.uses++; x.expires != nil {
			x.expires.Stop()
		}
		return x, nil
	}
	for !t.held.take(who.Root(), most, taskRedactors, maxRedactors) {
		if !t.giveUp(who.Root()) {
			return nil, deny(TooOften, errors.New("the redactors of the task have reached their memory limit"))
		}
	}
	x := &redactor{key: key, root: who.Root(), ids: append(lineage(who), key.leaseID), bytes: most, uses: 1, made: make(chan struct{})}
	t.all[key] = x
	return x, nil
}

// make builds x, unless another caller has begun to.
func (t *redactors) make(x *redactor, secrets []string) {
	t.mu.Lock()
	mine := !x.begun
	x.begun = true
	t.mu.Unlock()
	if !mine {
		return
	}
	r, err := t.build(secrets...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.Redactor, x.err = r, err; err == nil {
		t.held.give(x.root, x.bytes-r.Bytes())
		x.bytes = r.Bytes()
	}
	close(x.made)
}

// leave records that a request does not use x after all.
func (t *redactors) leave(x *redactor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.uses--; x.uses == 0 {
		t.unlink(x)
	}
}

// give returns x at the end of a request. life is how long the lease is still valid; at 0 the
// redactor is removed.
func (t *redactors) give(x *redactor, life time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.uses--
	switch {
	case life <= 0, x.gone:
		t.unlink(x)
	case x.uses == 0:
		t.given++
		x.given = t.given
		x.expires = time.AfterFunc(min(life, idleRedactor), func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if x.uses == 0 { // it may have been taken again just now
				t.unlink(x)
			}
		})
	}
}

// giveUp removes the redactor of a task that was unused for longest; false = all are in use.
func (t *redactors) giveUp(root string) bool {
	var oldest *redactor
	for _, x := range t.all {
		if x.root == root && x.uses == 0 && (oldest == nil || x.given < oldest.given) {
			oldest = x
		}
	}
	if oldest != nil {
		t.unlink(oldest)
	}
	return oldest != nil
}

// drop removes the redactors of a task or lease, because they hold its secrets.
func (t *redactors) drop(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.all {
		if slices.Contains(x.ids, id) {
			t.unlink(x)
		}
	}
}

// dropAll removes all redactors.
func (t *redactors) dropAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.all {
		t.unlink(x)
	}
}

// unlink removes the redactor from the cache. Its memory counts against the task until the last
// response that uses it ends.
func (t *redactors) unlink(x *redactor) {
	x.gone = true
	if t.all[x.key] == x {
		delete(t.all, x.key)
	}
	if x.uses > 0 || x.bytes == 0 {
		return
	}
	if x.expires != nil {
		x.expires.Stop()
	}
	t.held.give(x.root, x.bytes)
	x.bytes = 0
}

func sumOf(secrets []string) [sha256.Size]byte {
	var text []byte
	for _, s := range secrets {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(s))), s...)
	}
	return sha256.Sum256(text)
}

// signed are the headers of an AWS signature. They hold no secret, and the signature is valid for
// this request alone.
var signed = []string{"Authorization", "X-Amz-Date", "X-Amz-Content-Sha256"}

// schemes are authorization schemes: a secret after one is looked for without it. Any other first
// word may be a part of the secret, as the first pair of a Cookie is.
var schemes = []string{"bearer", "basic", "token", "dpop", "apikey"}

// secretsOf returns what an injector added: values of headers, user and password of Basic, and
// values of parameters.
func secretsOf(before, after *http.Request) ([]string, error) {
	aws := strings.HasPrefix(after.Header.Get("Authorization"), awsScheme+" ")
	var secrets []string
	add := func(s string) {
		if len(s) >= redact.MinSecret {
			secrets = append(secrets, s)
		}
	}
	for name, values := range after.Header {
		for _, v := range values {
			if slices.Contains(before.Header[name], v) || aws && slices.Contains(signed, name) {
				continue
			}
			scheme, rest, two := strings.Cut(v, " ")
			if two {
				add(rest)
			}
			if !two || !slices.Contains(schemes, strings.ToLower(scheme)) {
				add(v)
				continue
			}
			if raw, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "Basic") {
				user, password, _ := strings.Cut(string(raw), ":")
				add(user)
				add(password)
			}
		}
	}
	had, err1 := url.ParseQuery(before.URL.RawQuery)
	has, err2 := url.ParseQuery(after.URL.RawQuery)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for name, values := range has {
		for _, v := range values {
			if !slices.Contains(had[name], v) {
				add(v)
			}
		}
	}
	return secrets, nil
}

// maxNamed is how many are cached; a provider has one or two.
const maxNamed = 256

// named caches what finds credentials by their names.
type named struct {
	mu  sync.Mutex
	all *simplelru.LRU[*provider.Disclosed, *redact.Named]
}

func newNamed() (*named, error) {
	all, err := simplelru.NewLRU[*provider.Disclosed, *redact.Named](maxNamed, nil)
	return &named{all: all}, err
}

func (n *named) of(names *provider.Disclosed) (*redact.Named, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found, is := n.all.Get(names); is {
		return found, nil
	}
	made, err := redact.NewNamed(names.Members, names.Parameters)
	if err == nil {
		n.all.Add(names, made)
	}
	return made, err
}
