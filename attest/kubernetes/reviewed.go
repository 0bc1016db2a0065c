package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"ebb/attest"
	"ebb/attest/fetch"
	"ebb/attest/jose"
)

// reviewed is the attestor of ModeReview.
type reviewed struct {
	gate
	api *api
	// looks bounds how many pods are read for Watch at once: after a start all are, and
	// an API server turns a flood away (429).
	looks chan struct{}
	// unwatched is until when no watch is tried, in nanoseconds since 1970.
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

// Attest implements attest.Attestor. What no API server need be asked for is
// judged first: it must not be one's to bother with garbage.
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
	// After the review, so that the ten seconds for which the API server remembers
	// a good token cannot hide that the pod is gone.
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
		return attest.Identity{}, attest.Reject(attest.ReasonDead, "the pod of the token is gone, has ended or is being deleted", errors.New(how))
	}
	attest.Passed(ctx, "pod", p.Status.Phase)
	if err := r.fits(ctx, t, p); err != nil {
		return attest.Identity{}, err
	}
	p.describe(id.Selectors)
	return id, nil
}

// fits compares a token that was vouched for with its pod.
func (r *reviewed) fits(ctx context.Context, t token, p pod) error {
	if p.Spec.ServiceAccountName != t.account.Name || t.node.Name != "" && p.Spec.NodeName != t.node.Name {
		return attest.Reject(attest.ReasonClaims, "the pod runs as another service account or on another node than the token says", nil)
	}
	if r.cfg.Owner == nil {
		return nil
	}
	if o, found := p.controller(); !found || o.group() != r.cfg.Owner.Group || o.Kind != r.cfg.Owner.Kind {
		return attest.Reject(attest.ReasonClaims, "the pod is not controlled by an object of the kind that is required", nil)
	}
	attest.Passed(ctx, "owner", r.cfg.Owner.Kind)
	return nil
}

// tokenReview is authentication.k8s.io/v1, TokenReview.
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

// review has the API server judge a token. Authenticated alone says little: the
// audience is the caller's to compare, and an API server knows more issuers than
// its own, whose tokens may claim anything under kubernetes.io.
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
		return errors.New("the API server authenticates the token and reports an error with it")
	case !slices.Contains(s.Audiences, r.cfg.Audience):
		return attest.Reject(attest.ReasonAudience, "the API server does not confirm that the token is meant for ebb", nil)
	}
	if what := s.differs(t); what != "" {
		return attest.Reject(attest.ReasonClaims, "the API server knows the token for somebody else than it says", errors.New(what))
	}
	return nil
}

// differs names what of a token the API server sees otherwise, "" for nothing.
func (s reviewStatus) differs(t token) string {
	const of = "authentication.kubernetes.io/"
	one := func(name, want string) bool {
		got, found := s.User.Extra[of+name]
		return !found && want == "" || len(got) == 1 && got[0] == want
	}
	id, told := s.User.Extra[of+"credential-id"] // since 1.30
	switch {
	case s.User.Username != t.username():
		return "username"
	case s.User.UID != t.account.UID:
		return "uid"
	case !one("pod-name", t.pod.Name):
		return "pod-name"
	case !one("pod-uid", t.pod.UID):
		return "pod-uid"
	case told && !slices.Equal(id, []string{"JTI=" + t.id}):
		return "credential-id"
	case len(s.User.Extra[of+"node-name"]) > 0 && !one("node-name", t.node.Name): // since 1.30
		return "node-name"
	}
	return ""
}

// notAuthenticated reads what the API server says of a token that it refuses: only
// whether something that it was bound to is gone.
func notAuthenticated(why string) error {
	gone := func(words string) bool { return strings.Contains(why, words) }
	if gone("has been invalidated") || gone("has been deleted") || gone("does not match") { // a UID
		return attest.Reject(attest.ReasonDead, "the API server does not accept the token: what it was bound to is gone", errors.New("review: invalidated"))
	}
	return attest.Reject(attest.ReasonSignature, "the API server does not accept the token: it is not of this cluster, altered, expired, or for another audience", errors.New("review: not authenticated"))
}

// SelectorNames implements attest.Selecting.
func (r *reviewed) SelectorNames() []string {
	return []string{"namespace", "service_account", "service_account_uid", "pod", "pod_uid", "node", "image_digest", "owner_group", "owner_kind", "owner_name", "owner_uid"}
}
