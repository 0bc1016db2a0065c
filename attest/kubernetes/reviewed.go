package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
)

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
