package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Driver mints installation tokens.
type Driver struct {
	cfg   Config
	http  *http.Client
	app   *app
	known *known
}

var (
	_ provider.Driver   = (*Driver)(nil)
	_ provider.Prober   = (*Driver)(nil)
	_ provider.Injector = (*Driver)(nil)
	_ provider.Checker  = (*Driver)(nil)
)

// New returns a driver. It reads the key, so that an invalid file is reported at start. It
// makes no connections.
func New(c Config) (*Driver, error) {
	if c.Now == nil || c.Logger == nil {
		return nil, errors.New("github provider: a clock and a logger are required")
	}
	c.setDefaults()
	wrong := c.check()
	transport, err := c.client()
	wrong = errors.Join(wrong, err)
	if c.PrivateKeyFile != "" {
		_, err := readKey(c.PrivateKeyFile)
		wrong = errors.Join(wrong, err)
	}
	if wrong != nil {
		return nil, fmt.Errorf("github provider: %w", wrong)
	}
	return &Driver{
		cfg: c, http: transport.Client(), known: newKnown(c.Repositories),
		app: &app{issuer: c.ClientID, file: c.PrivateKeyFile, now: c.Now},
	}, nil
}

// Traits returns GitHub's: a lifetime of one hour at any request. Without the option for opaque
// tokens, GitHub may return a token that holds a JWT; its revocation is not documented (see
// unverified).
func (d *Driver) Traits() provider.Traits {
	t := provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}, ThirdParty: true, Floor: lifetime}
	if d.cfg.TokenFormat != formatOpaque {
		t.Revocability = unverified
	}
	return t
}

// unverified is the revocability of stateless tokens. GitHub does not document when they are
// refused after a revocation, so ebb claims expiry only. A probe shows when one is dead.
var unverified = provider.Revocability{Class: provider.ClassEventual, Bound: lifetime}

// Check accepts scopes that one installation token can express exactly.
func (d *Driver) Check(s scopes.Set) error {
	_, err := d.cfg.read(s)
	return err
}

// request is the body of a mint call. Permissions are always set, and exactly one of the other
// members: GitHub reads a missing member as "all".
type request struct {
	IDs          []int64           `json:"repository_ids,omitempty"`
	Repositories []string          `json:"repositories,omitempty"`
	Permissions  map[string]string `json:"permissions"`
}

// Mint requests a token and returns it only if it is exactly the requested one. It stores first
// that GitHub was called, because a token whose response is lost can be neither found nor revoked.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	nothing := provider.Credential{Handle: secret.New(handleNothing)}
	if g.LeaseID == "" || g.Scopes.Empty() || g.ExpiresAt.IsZero() || !g.ExpiresAt.After(g.IssuedAt) {
		return nothing, errors.New("github provider: the grant is incomplete")
	}
	a, err := d.cfg.read(g.Scopes)
	if err != nil {
		return nothing, err
	}
	if g.Save != nil {
		if err := g.Save(ctx, secret.New(handleAsked)); err != nil {
			return nothing, fmt.Errorf("github provider: saving the handle before the call of GitHub: %w", err)
		}
	}
	ids, unknown := d.known.of(a.repositories)
	if len(unknown) > 0 {
		if left, err := d.lookUp(ctx, a, unknown); err != nil {
			return failed(left, err)
		}
		ids, _ = d.known.of(a.repositories)
	}
	body := request{Permissions: a.permissions}
	for _, name := range a.repositories {
		body.IDs = append(body.IDs, ids[name])
	}
	m, ans, err := d.post(ctx, a, body)
	if errors.Is(err, errRepository) {
		return failed(d.whyNot(ctx, a, err))
	}
	if err != nil {
		return failed(secret.Secret{}, err)
	}
	until, dies, wrong := m.lives(ans)
	if wrong = errors.Join(m.differs(a, ids), wrong); wrong != nil {
		return failed(d.reject(ctx, secret.New(m.Token), wrong))
	}
	return credential(g, m.Token, until, dies), nil
}

func credential(g provider.Grant, token string, until, dies time.Time) provider.Credential {
	secret := secret.New(token)
	c := provider.Credential{Token: secret, Type: "Bearer", ExpiresAt: g.ExpiresAt, DiesAt: dies, Handle: secret}
	if until.Before(c.ExpiresAt) {
		c.ExpiresAt = until
	}
	if stateless(token) {
		c.Revocability = unverified
	}
	return c
}

// failed returns the result of Mint beside an error. left is a token that may still be
// valid, empty for none.
func failed(left secret.Secret, err error) (provider.Credential, error) {
	if !left.Empty() {
		return provider.Credential{Handle: left}, err
	}
	handle := handleAsked
	busy := (*provider.BusyError)(nil)
	if errors.Is(err, errNotSent) || errors.Is(err, provider.ErrRefused) || errors.As(err, &busy) {
		handle = handleNothing
	}
	return provider.Credential{Handle: secret.New(handle)}, err
}

// post requests a token. After an error that is neither a refusal, nor busy, nor not sent, a
// token may exist.
func (d *Driver) post(ctx context.Context, a ask, body request) (minted, answer, error) {
	ans, err := d.asApp(ctx, http.MethodPost, fmt.Sprintf("/app/installations/%d/access_tokens", d.cfg.Installations[a.owner]), body)
	if err != nil {
		return minted{}, ans, fmt.Errorf("github: requesting a token: %w", err)
	}
	if ans.status != http.StatusCreated {
		return minted{}, ans, d.refusal(ctx, a, ans)
	}
	m, err := parseMinted(ans.body)
	if err != nil {
		return minted{}, ans, fmt.Errorf("github: a token was minted, but the response cannot be parsed: %w", err)
	}
	return m, ans, nil
}

// reject revokes a token that differs from the request.
func (d *Driver) reject(ctx context.Context, token secret.Secret, wrong error) (left secret.Secret, err error) {
	d.cfg.Logger.ErrorContext(ctx, "github minted something else than it was asked for", "error", wrong)
	if err := d.takeBack(ctx, token); err != nil {
		// Not wrapped: a rate limit of this call does not mean that no token was made.
		return token, fmt.Errorf("github: %w; and revoking it failed: %v", wrong, err)
	}
	return secret.Secret{}, provider.Refused("GitHub minted a token that differs from the request, and it was revoked. The operator of ebb must check names, ids and permissions.", wrong)
}

// whyNot looks up repositories again whose ids GitHub refused. It distinguishes a deleted
// repository from one whose name now belongs to another.
func (d *Driver) whyNot(ctx context.Context, a ask, refused error) (left secret.Secret, err error) {
	names := d.known.lookedUp(a.repositories)
	if len(names) == 0 {
		return secret.Secret{}, refused
	}
	if left, err := d.lookUp(ctx, a, names); err != nil {
		return left, err
	}
	return secret.Secret{}, refused
}

// Revoke revokes a token with the token itself.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	token, dead, err := tokenOf(t)
	if dead || err != nil {
		return err
	}
	return d.revoke(ctx, token)
}

// revoke succeeds when GitHub has revoked the token, or no longer knows it. A suspended
// installation answers 403, and its tokens are valid again when the suspension ends, so that
// is an error.
func (d *Driver) revoke(ctx context.Context, token secret.Secret) error {
	ans, err := d.call(ctx, http.MethodDelete, "/installation/token", token, nil)
	if err != nil {
		return fmt.Errorf("github: revoking: %w", err)
	}
	if ans.status == http.StatusNoContent || ans.unknown() {
		return nil
	}
	if busy := ans.busy(); busy != nil {
		return busy
	}
	if ans.fromGitHub() && ans.status < 500 && ans.status != http.StatusUnauthorized {
		// A refusal, not a failure: GitHub is available.
		return provider.Refused("GitHub does not revoke the token at present; the installation may be suspended.", ans.error())
	}
	return fmt.Errorf("revoking: %w", ans.error())
}

// takeBack revokes a token that was never issued, also if the caller's context has ended.
func (d *Driver) takeBack(ctx context.Context, token secret.Secret) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(d.cfg.TimeoutSeconds)*time.Second)
	defer cancel()
	return d.revoke(ctx, token)
}

// Probe uses a token for a call that every installation token may make. Without a token its
// error wraps errors.ErrUnsupported.
func (d *Driver) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	token, dead, err := tokenOf(t)
	if dead {
		err = fmt.Errorf("%w: there is no token to probe", errors.ErrUnsupported)
	}
	if err != nil {
		return false, err
	}
	ans, err := d.call(ctx, http.MethodGet, "/installation/repositories?per_page=1", token, nil)
	if err != nil {
		return false, fmt.Errorf("github: probing: %w", err)
	}
	switch {
	case ans.status == http.StatusOK:
		return true, nil
	case ans.unknown():
		return false, nil
	}
	if busy := ans.busy(); busy != nil {
		return false, busy
	}
	return false, fmt.Errorf("probing: %w", ans.error())
}

// known records the id that a name had when it was first looked up. A name can be assigned
// to another repository, an id cannot. Its size is bounded by the repositories that the App
// can reach, and it is not needed after a restart.
type known struct {
	pinned map[string]int64

	mu  sync.Mutex
	ids map[string]int64
}

func newKnown(pinned map[string]int64) *known {
	return &known{pinned: pinned, ids: map[string]int64{}}
}

// of returns the known ids, and the names that must be looked up.
func (k *known) of(names []string) (ids map[string]int64, unknown []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids = map[string]int64{}
	for _, name := range names {
		id := k.pinned[name]
		if id == 0 {
			id = k.ids[name]
		}
		if id == 0 {
			unknown = append(unknown, name)
			continue
		}
		ids[name] = id
	}
	return ids, unknown
}

// lookedUp returns those names that are not pinned.
func (k *known) lookedUp(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return k.pinned[n] != 0 })
}

// learn stores the ids of a look-up. If a name had another id before, it returns an error and
// keeps the first id: the approver of the name meant that repository.
func (k *known) learn(m minted) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range m.Repositories {
		if had := k.ids[r.Name]; had != 0 && had != r.ID {
			return &movedError{name: r.Name, from: had, to: r.ID}
		}
	}
	for _, r := range m.Repositories {
		k.ids[r.Name] = r.ID
	}
	return nil
}

// movedError means that a name belongs to another repository than before.
type movedError struct {
	name     string
	from, to int64
}

func (e *movedError) Error() string {
	return fmt.Sprintf("%s was repository %d and is %d now: find out why, and pin the right one under repositories", e.name, e.from, e.to)
}

// lookUp asks GitHub for the ids of some of an ask's names. An App can do this only with a
// token, so lookUp mints one with metadata:read and revokes it at once. left is a token
// whose revocation failed.
func (d *Driver) lookUp(ctx context.Context, a ask, names []string) (left secret.Secret, err error) {
	look := ask{owner: a.owner, repositories: names, permissions: map[string]string{metadata: readLevel}, words: a.words}
	body := request{Permissions: look.permissions}
	for _, full := range names {
		_, name, _ := strings.Cut(full, "/")
		body.Repositories = append(body.Repositories, name)
	}
	m, _, err := d.post(ctx, look, body)
	if err != nil {
		return secret.Secret{}, err
	}
	token := secret.New(m.Token)
	if err := d.takeBack(ctx, token); err != nil {
		// Not wrapped: a rate limit of this call does not mean that no token was made.
		return token, fmt.Errorf("revoking the token of a look-up: %v", err)
	}
	if err := m.differs(look, nil); err != nil {
		return secret.Secret{}, provider.Refused("GitHub knows a repository of the request under another name. Spell owner and repository as GitHub does.", err)
	}
	if err := d.known.learn(m); err != nil {
		d.cfg.Logger.ErrorContext(ctx, "a repository's name belongs to another repository now", "error", err)
		return secret.Secret{}, provider.Refused("The name of a repository belongs to another repository than before. The operator of ebb must pin the right one.", err)
	}
	return secret.Secret{}, nil
}
