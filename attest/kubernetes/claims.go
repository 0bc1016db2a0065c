package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// ref is the name and UID of an object in a token.
type ref struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// token has the claims of a service account token. It may be unverified; the mode
// verifies it.
type token struct {
	namespace string
	account   ref
	pod       ref // zero when the token is not bound to a pod
	node      ref // the UID may be absent; before Kubernetes 1.29 all of it
	id        string
	digest    string
	expiry    time.Time
}

// username returns the service account's user name at the API server.
func (t token) username() string {
	return "system:serviceaccount:" + t.namespace + ":" + t.account.Name
}

// subject returns the Subject. It is unique within the cluster and the same for every
// token of one pod.
func (t token) subject() string {
	if t.pod.Name == "" {
		return "serviceaccount:" + t.namespace + "/" + t.account.Name + "/" + t.account.UID
	}
	return "pod:" + t.namespace + "/" + t.pod.Name + "/" + t.pod.UID
}

const maxSubdomain = 253

// uidForm matches UIDs. A UID is opaque; observed values are UUIDs, and hashes for
// static pods.
var uidForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

func subdomain(s string) bool { return len(s) <= maxSubdomain && subdomainForm.MatchString(s) }

// wellFormed reports whether r can be a pod or a service account. The name becomes part
// of a request's path.
func (r ref) wellFormed() bool { return subdomain(r.Name) && uidForm.MatchString(r.UID) }

var errClaims = errors.New("the claim kubernetes.io does not have the documented form")

// readToken parses the claims of a service account token.
func (g *gate) readToken(c *jose.Claims) (token, error) {
	var k struct {
		Namespace string `json:"namespace"`
		Account   ref    `json:"serviceaccount"`
		Pod       *ref   `json:"pod"`
		Node      *ref   `json:"node"`
	}
	const notOurs = "the token is none of a Kubernetes service account"
	if err := c.DecodeClaim("kubernetes.io", &k); err != nil {
		return token{}, attest.Reject(attest.ReasonClaims, notOurs, err)
	}
	t := token{namespace: k.Namespace, account: k.Account, id: c.ID, digest: c.Digest(), expiry: c.Expiry}
	if !labelForm.MatchString(k.Namespace) || !k.Account.wellFormed() || c.Subject != t.username() {
		return token{}, attest.Reject(attest.ReasonClaims, notOurs, errClaims)
	}
	if c.Has("cnf") { // no code here would verify the binding
		return token{}, attest.Reject(attest.ReasonKeyBinding, "the token is bound to a key (cnf), but service account tokens never are", nil)
	}
	if len(g.cfg.Namespaces) > 0 && !slices.Contains(g.cfg.Namespaces, t.namespace) {
		return token{}, attest.Reject(attest.ReasonClaims, "the namespace of the pod is not one that is configured for this attestor", nil)
	}
	if k.Node != nil {
		t.node = *k.Node
		if !subdomain(t.node.Name) || t.node.UID != "" && !uidForm.MatchString(t.node.UID) {
			return token{}, attest.Reject(attest.ReasonClaims, notOurs, fmt.Errorf("node: %w", errClaims))
		}
	}
	switch {
	case k.Pod != nil && !k.Pod.wellFormed():
		return token{}, attest.Reject(attest.ReasonClaims, notOurs, fmt.Errorf("pod: %w", errClaims))
	case k.Pod != nil:
		t.pod = *k.Pod
	case !g.cfg.AllowUnbound:
		return token{}, attest.Reject(attest.ReasonClaims, "the token is not bound to a pod; mount one with a projected volume", nil)
	}
	return t, nil
}

// signed is the attestor for ModeJWKS.
type signed struct {
	gate
	keys *jose.KeyCache
}

func newSigned(g gate) (attest.Attestor, error) {
	g.cfg.Logger.Warn("mode jwks: that a pod was deleted is not seen; its token is accepted until it expires, and the task does not end with the pod",
		"attestor", g.cfg.Name, "max_lifetime", g.cfg.MaxLifetime)
	if len(g.cfg.JWKS) == 0 {
		roots, err := g.cfg.roots()
		if err != nil {
			return nil, err
		}
		g.cfg.Fetch.RootCAs = roots
	}
	keys, err := jose.NewKeyCache(g.cfg.keys())
	if err != nil {
		return nil, err
	}
	return &signed{gate: g, keys: keys}, nil
}

// Attest implements attest.Attestor.
func (s *signed) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, s.failure(err)
	}
	c, err := jose.Verify(string(e.Document), s.profile, func(h jose.Header) (jose.Key, error) { return s.keys.Key(ctx, h) }, s.cfg.Now())
	if err != nil {
		return attest.Identity{}, s.failure(err)
	}
	t, err := s.readToken(c)
	if err != nil {
		return attest.Identity{}, err
	}
	attest.Passed(ctx, "signature", c.Header.KID)
	s.tell(ctx, t)
	id := s.identity(t)
	id.MadeAt = c.Made() // the token may be old, and the pod was not read
	return id, nil
}

// SelectorNames implements attest.Selecting.
func (s *signed) SelectorNames() []string {
	return []string{"namespace", "service_account", "service_account_uid", "pod", "pod_uid", "node"}
}

// reviewed is the attestor for ModeReview.
type reviewed struct {
	gate
	api *api
	// looks limits how many pods Watch reads concurrently. After a start every sandbox
	// is read, and an API server rejects too many requests at once (429).
	looks chan struct{}
	// unwatched is the time until which no watch request is sent, in nanoseconds since
	// 1970.
	unwatched atomic.Int64
}

var _ attest.Watcher = (*reviewed)(nil)

const maxLooks = 8

func newReviewed(g gate) (attest.Attestor, error) {
	a, err := newAPI(g.cfg)
	if err != nil {
		return nil, err
	}
	return &reviewed{gate: g, api: a, looks: make(chan struct{}, maxLooks)}, nil
}

// Attest implements attest.Attestor. All checks that need no API server come first, so
// that invalid tokens cause no requests.
func (r *reviewed) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, r.failure(err)
	}
	u, err := jose.Parse(string(e.Document), r.profile.Limits)
	if err != nil {
		return attest.Identity{}, r.failure(err)
	}
	c, err := u.Check(r.profile, r.cfg.Now())
	if err != nil {
		return attest.Identity{}, r.failure(err)
	}
	t, err := r.readToken(c)
	if err != nil {
		return attest.Identity{}, err
	}
	r.tell(ctx, t)
	leave, err := attest.Costly(ctx)
	if err != nil {
		return attest.Identity{}, r.failure(err)
	}
	defer leave()
	if err := r.review(ctx, string(e.Document), t); err != nil {
		return attest.Identity{}, r.failure(err)
	}
	attest.Passed(ctx, "token review", t.username())
	id := r.identity(t)
	if t.pod.Name == "" {
		return id, nil
	}
	// The pod is read after the review. The API server caches a successful review for
	// ten seconds, which would otherwise hide that the pod has been deleted.
	p, err := r.api.pod(ctx, t.namespace, t.pod.Name)
	if err != nil && !errors.Is(err, errNoPod) {
		return attest.Identity{}, r.failure(err)
	}
	how := howDeleted
	if err == nil {
		if how, err = p.end(t.pod.UID, r.cfg.UntilRemoved); err != nil {
			return attest.Identity{}, r.failure(err)
		}
	}
	if how != "" {
		return attest.Identity{}, attest.Reject(attest.ReasonExited, "the pod of the token has been removed, has ended or is being deleted", errors.New(how))
	}
	attest.Passed(ctx, "pod", p.Status.Phase)
	if err := r.fits(ctx, t, p); err != nil {
		return attest.Identity{}, err
	}
	p.describe(id.Selectors)
	return id, nil
}

// fits returns a rejection unless the pod has the service account, the node and the
// owner that the token and the configuration name.
func (r *reviewed) fits(ctx context.Context, t token, p pod) error {
	if p.Spec.ServiceAccountName != t.account.Name || t.node.Name != "" && p.Spec.NodeName != t.node.Name {
		return attest.Reject(attest.ReasonClaims, "the service account or the node of the pod differs from that in the token", nil)
	}
	if r.cfg.Owner == nil {
		return nil
	}
	if o, found := p.controller(); !found || o.group() != r.cfg.Owner.Group || o.Kind != r.cfg.Owner.Kind {
		return attest.Reject(attest.ReasonClaims, "the pod is not controlled by an object of the configured owner kind", nil)
	}
	attest.Passed(ctx, "owner", r.cfg.Owner.Kind)
	return nil
}

// tokenReview is TokenReview of authentication.k8s.io/v1.
type tokenReview struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Spec       reviewSpec   `json:"spec"`
	Status     reviewStatus `json:"status,omitzero"`
}

type reviewSpec struct {
	Token     string   `json:"token"`
	Audiences []string `json:"audiences"`
}

type reviewStatus struct {
	Authenticated bool `json:"authenticated"`
	User          struct {
		Username string              `json:"username"`
		UID      string              `json:"uid"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
	Audiences []string `json:"audiences"`
	Error     string   `json:"error"`
}

const authentication = "authentication.k8s.io/v1"

// review asks the API server to verify a token. Authenticated alone is not sufficient.
// The caller has to compare the audience. And an API server can accept issuers other
// than its own, whose tokens may contain any claims under kubernetes.io, so review also
// compares the user in the response with the claims.
func (r *reviewed) review(ctx context.Context, document string, t token) error {
	in := tokenReview{APIVersion: authentication, Kind: "TokenReview", Spec: reviewSpec{document, []string{r.cfg.Audience}}}
	var out tokenReview
	q := fetch.Request{Method: http.MethodPost, Below: []string{"apis", "authentication.k8s.io", "v1", "tokenreviews"}}
	if err := r.api.call(ctx, q, in, &out, document); err != nil {
		return err
	}
	s := out.Status
	switch {
	case out.APIVersion != authentication || out.Kind != "TokenReview":
		return errForm
	case !s.Authenticated:
		return notAuthenticated(s.Error)
	case s.Error != "":
		return errors.New("the API server reports both that the token is authenticated and an error")
	case !slices.Contains(s.Audiences, r.cfg.Audience):
		return attest.Reject(attest.ReasonAudience, "the API server does not confirm that the token is meant for ebb", nil)
	}
	if what := s.differs(t); what != "" {
		return attest.Reject(attest.ReasonClaims, "the user that the API server reports for the token differs from the claims of the token", errors.New(what))
	}
	return nil
}

// differs returns the name of a fact that differs between the response and the token,
// "" when none does.
func (s reviewStatus) differs(t token) string {
	const of = "authentication.kubernetes.io/"
	one := func(name, want string) bool {
		got, found := s.User.Extra[of+name]
		return !found && want == "" || len(got) == 1 && got[0] == want
	}
	id, has := s.User.Extra[of+"credential-id"] // since 1.30
	switch {
	case s.User.Username != t.username():
		return "username"
	case s.User.UID != t.account.UID:
		return "uid"
	case !one("pod-name", t.pod.Name):
		return "pod-name"
	case !one("pod-uid", t.pod.UID):
		return "pod-uid"
	case has && !slices.Equal(id, []string{"JTI=" + t.id}):
		return "credential-id"
	case len(s.User.Extra[of+"node-name"]) > 0 && !one("node-name", t.node.Name): // since 1.30
		return "node-name"
	}
	return ""
}

// notAuthenticated returns the rejection for a token that the API server refuses. It
// distinguishes only whether an object that the token was bound to has been deleted.
func notAuthenticated(why string) error {
	gone := func(words string) bool { return strings.Contains(why, words) }
	if gone("has been invalidated") || gone("has been deleted") || gone("does not match") { // the UID
		return attest.Reject(attest.ReasonExited, "the API server does not accept the token: the pod or another object that it was bound to has been deleted", errors.New("review: invalidated"))
	}
	return attest.Reject(attest.ReasonSignature, "the API server does not accept the token: it is from another cluster, altered, expired, or for another audience", errors.New("review: not authenticated"))
}

// SelectorNames implements attest.Selecting.
func (r *reviewed) SelectorNames() []string {
	return []string{"namespace", "service_account", "service_account_uid", "pod", "pod_uid", "node", "image_digest", "owner_group", "owner_kind", "owner_name", "owner_uid"}
}
