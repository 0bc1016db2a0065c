package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

const (
	// bound is the revocation bound. The API server caches for 10 s that a token was valid;
	// measured were 10.0 to 10.8 s from the deletion of the Secret to the first refusal.
	bound = 15 * time.Second
	// floor is the shortest expirationSeconds that the API server accepts.
	floor = 10 * time.Minute
	// spare is the time for which a token may work after its exp: the API server allows a minute
	// of clock difference and caches tokens.
	spare = time.Minute + bound
	// dropTime bounds the clean-up after a failed Mint.
	dropTime = 5 * time.Second
)

// Labels of the Secrets, for people and for listing. The owner of a Secret follows from its
// name, not from its labels.
const (
	labelManaged  = "app.kubernetes.io/managed-by"
	labelInstance = "ebb/instance"
	labelLease    = "ebb/lease"
)

// Driver mints tokens of one API server.
type Driver struct {
	cfg Config
	api *api
}

var (
	_ provider.Driver  = (*Driver)(nil)
	_ provider.Prober  = (*Driver)(nil)
	_ provider.Lister  = (*Driver)(nil)
	_ provider.Checker = (*Driver)(nil)
)

// New returns a driver for the provider of this name. It makes no connections. now may be
// nil.
func New(name string, c Config, now func() time.Time) (*Driver, error) {
	if now == nil {
		now = time.Now
	}
	if err := c.check(name); err != nil {
		return nil, err
	}
	a, err := newAPI(c, now)
	if err != nil {
		return nil, err
	}
	return &Driver{cfg: c, api: a}, nil
}

// Traits implements provider.Driver. The server accepts a revoked token for some seconds,
// and issues none for less than ten minutes.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassEventual, Bound: bound}, ThirdParty: true, Floor: floor}
}

// Check accepts exactly one configured scope, because a token belongs to one service
// account.
func (d *Driver) Check(s scopes.Set) error {
	_, err := d.cfg.Grants.One(s)
	return err
}

// handle is the namespace and the identity of the Secret of a lease.
type handle struct {
	Namespace string `json:"namespace"`
	UID       string `json:"uid,omitempty"`
}

func (h handle) secret() (secret.Secret, error) {
	b, err := json.Marshal(h)
	return secret.New(string(b)), err
}

// Mint saves the namespace, makes the Secret, and then requests a token that is bound to it.
// After a failure it deletes the Secret at once. If that fails too, the broker finds the
// Secret later by its name, in the namespace that was saved.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	acc, err := d.cfg.Grants.One(g.Scopes)
	if err != nil {
		return provider.Credential{}, provider.Inexact(err)
	}
	name, err := g.SavedName()
	if err != nil {
		return provider.Credential{}, err
	}
	hs, err := handle{Namespace: acc.Namespace}.secret()
	if err != nil {
		return provider.Credential{}, err
	}
	if err := g.Save(ctx, hs); err != nil {
		return provider.Credential{Handle: hs}, fmt.Errorf("kubernetes: the namespace of the lease could not be saved: %w", err)
	}
	h, err := d.create(ctx, g, acc, name)
	if err != nil {
		return provider.Credential{Handle: hs}, judged(err)
	}
	if hs, err = h.secret(); err != nil {
		return provider.Credential{}, err
	}
	c, err := d.request(ctx, g, acc, name, h)
	if err != nil {
		if !d.drop(ctx, name, h) {
			// Not ErrRefused: the Secret exists and has to be deleted, at any response to the
			// second call.
			return provider.Credential{Handle: hs}, fmt.Errorf("%w; and its Secret could not be deleted at once", err)
		}
		return provider.Credential{Handle: hs}, judged(err)
	}
	c.Handle = hs
	return c, nil
}

// uidForm is the accepted form of a uid, which is used in a precondition and compared with the
// token.
var uidForm = lazyregexp.New(`^[!-~]{1,128}$`)

// create makes the Secret of a lease. It is empty and immutable.
func (d *Driver) create(ctx context.Context, g provider.Grant, acc Account, name string) (handle, error) {
	type newSecret struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   meta   `json:"metadata"`
		Type       string `json:"type"`
		Immutable  bool   `json:"immutable"`
	}
	labels := map[string]string{labelManaged: "ebb", labelInstance: g.Instance, labelLease: g.LeaseID}
	var made struct {
		Kind     string `json:"kind"`
		Metadata meta   `json:"metadata"`
	}
	err := d.api.call(ctx, request{
		method: http.MethodPost, path: secretsPath(acc.Namespace),
		body: newSecret{"v1", "Secret", meta{Name: name, Namespace: acc.Namespace, Labels: labels}, "Opaque", true},
	}, &made)
	if err != nil {
		return handle{}, fmt.Errorf("kubernetes: making the Secret of a lease: %w", err)
	}
	m := made.Metadata
	if made.Kind != "Secret" || m.Name != name || m.Namespace != acc.Namespace || !uidForm.MatchString(m.UID) {
		return handle{}, errors.New("kubernetes: making the Secret of a lease: the response is for another request")
	}
	return handle{Namespace: acc.Namespace, UID: m.UID}, nil
}

type tokenSpec struct {
	Audiences         []string  `json:"audiences,omitempty"`
	ExpirationSeconds int64     `json:"expirationSeconds"`
	BoundObjectRef    objectRef `json:"boundObjectRef"`
}

type objectRef struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// request requests the token and checks that it equals the request.
func (d *Driver) request(ctx context.Context, g provider.Grant, acc Account, name string, h handle) (provider.Credential, error) {
	type tokenRequest struct {
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		Spec       tokenSpec `json:"spec"`
	}
	seconds := int64(math.Ceil(max(g.ExpiresAt.Sub(g.IssuedAt), floor).Seconds()))
	var made struct {
		Kind string `json:"kind"`
		Spec struct {
			Audiences []string `json:"audiences"`
		} `json:"spec"`
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	err := d.api.call(ctx, request{
		method: http.MethodPost, path: tokenPath(acc),
		body: tokenRequest{"authentication.k8s.io/v1", "TokenRequest", tokenSpec{
			Audiences: acc.Audiences, ExpirationSeconds: seconds, BoundObjectRef: objectRef{"Secret", "v1", name, h.UID},
		}},
	}, &made)
	if err != nil {
		return provider.Credential{}, fmt.Errorf("kubernetes: requesting a token: %w", err)
	}
	if made.Kind != "TokenRequest" {
		return provider.Credential{}, errors.New("kubernetes: requesting a token: the response is for another request")
	}
	want := acc.Audiences
	if len(want) == 0 {
		want = slices.Sorted(slices.Values(made.Spec.Audiences)) // the API server returns its own audiences
	}
	expiry, err := accept(made.Status.Token, acc, want, name, h.UID)
	if err != nil {
		return provider.Credential{}, err
	}
	if !expiry.After(g.IssuedAt) {
		return provider.Credential{}, errors.New("kubernetes: the token has already expired: compare the clocks of the API server and of ebb")
	}
	c := provider.Credential{Token: secret.New(made.Status.Token), Type: "Bearer", ExpiresAt: g.ExpiresAt, DiesAt: expiry.Add(spare)}
	if expiry.Before(c.ExpiresAt) {
		c.ExpiresAt = expiry // the server has a maximum lifetime
	}
	return c, nil
}

func secretsPath(namespace string) string { return "/api/v1/namespaces/" + namespace + "/secrets" }

func tokenPath(a Account) string {
	return "/api/v1/namespaces/" + a.Namespace + "/serviceaccounts/" + a.ServiceAccount + "/token"
}

// judged returns a refusal for those errors which mean that no token was made.
func judged(err error) error {
	switch reason(err) {
	case "Unauthorized", "Forbidden", "NotFound", "Invalid", "BadRequest":
		return provider.Refused("The cluster does not allow this. Tell the operator of the broker: ebb providers check lists what is missing.", err)
	default:
		return err // including *provider.BusyError
	}
}

// Describe implements provider.Describer. The effects come from the operator's Words.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, known := d.cfg.Grants.Of(s); !known {
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	}
	return provider.ByAction(s), nil
}
