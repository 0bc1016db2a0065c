package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

const (
	// bound: the API server remembers for 10 s that a token was good; 10.0 to 10.8 s
	// were measured from the end of the Secret to the first refusal.
	bound = 15 * time.Second
	// floor is the shortest expirationSeconds that the API server accepts.
	floor = 10 * time.Minute
	// spare is the time for which a token may work after its exp: the API server allows a minute
	// of clock difference and caches tokens.
	spare = time.Minute + bound
	// dropTime bounds taking back what a failed Mint had made.
	dropTime = 5 * time.Second
)

// Labels of the Secrets. They are for people and for listing; whose a Secret is,
// its name says.
const (
	labelManaged  = "app.kubernetes.io/managed-by"
	labelInstance = "ebb/instance"
	labelLease    = "ebb/lease"
)

// Driver mints at one API server.
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

// New makes a driver of a provider. It does not connect. now may be nil.
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

// Traits: the server forgets within seconds that a token was good, and makes none
// for less than ten minutes.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassEventual, Bound: bound}, ThirdParty: true, Floor: floor}
}

// Check accepts exactly one configured scope: a token is of one service account.
func (d *Driver) Check(s scopes.Set) error {
	_, err := d.cfg.Grants.One(s)
	return err
}

// handle is where the Secret of a lease is, and which one of that name it is.
type handle struct {
	Namespace string `json:"namespace"`
	UID       string `json:"uid,omitempty"`
}

func (h handle) secret() (secret.Secret, error) {
	b, err := json.Marshal(h)
	return secret.New(string(b)), err
}

// Mint saves the namespace, makes the Secret, and then a token that hangs on it. What
// failed halfway is taken back at once; if that fails, too, the broker finds the
// Secret by its name, in the namespace of the day it was made.
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
			return provider.Credential{Handle: hs}, fmt.Errorf("%w; and its Secret could not be taken back at once", err)
		}
		return provider.Credential{Handle: hs}, judged(err)
	}
	c.Handle = hs
	return c, nil
}

// uidForm is the accepted form of a uid, which is used in a precondition and compared with the
// token.
var uidForm = regexp.MustCompile(`^[!-~]{1,128}$`)

// create makes the Secret of a lease. It holds nothing and can never hold anything.
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
		return handle{}, errors.New("kubernetes: making the Secret of a lease: the answer is about something else")
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
		return provider.Credential{}, fmt.Errorf("kubernetes: asking for a token: %w", err)
	}
	if made.Kind != "TokenRequest" {
		return provider.Credential{}, errors.New("kubernetes: asking for a token: the answer is about something else")
	}
	want := acc.Audiences
	if len(want) == 0 {
		want = slices.Sorted(slices.Values(made.Spec.Audiences)) // the API server says which its own are
	}
	expiry, err := accept(made.Status.Token, acc, want, name, h.UID)
	if err != nil {
		return provider.Credential{}, err
	}
	if !expiry.After(g.IssuedAt) {
		return provider.Credential{}, errors.New("kubernetes: the token is already over: compare the clocks of the API server and of ebb")
	}
	c := provider.Credential{Token: secret.New(made.Status.Token), Type: "Bearer", ExpiresAt: g.ExpiresAt, DiesAt: expiry.Add(spare)}
	if expiry.Before(c.ExpiresAt) {
		c.ExpiresAt = expiry // the server has a maximum
	}
	return c, nil
}

func secretsPath(namespace string) string { return "/api/v1/namespaces/" + namespace + "/secrets" }

func tokenPath(a Account) string {
	return "/api/v1/namespaces/" + a.Namespace + "/serviceaccounts/" + a.ServiceAccount + "/token"
}

// judged says which answers mean that nothing was made.
func judged(err error) error {
	switch reason(err) {
	case "Unauthorized", "Forbidden", "NotFound", "Invalid", "BadRequest":
		return provider.Refused("The cluster does not allow this. Tell the operator of the broker: ebb providers check says what is missing.", err)
	default:
		return err // *provider.BusyError among them
	}
}

// Describe implements provider.Describer: actions are words of the operator's.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, known := d.cfg.Grants.Of(s); !known {
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	}
	return provider.ByAction(s), nil
}
