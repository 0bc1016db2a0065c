package github

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/gitpush"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

var _ provider.ContentJudge = (*Driver)(nil)

// receivePack is the service of git that accepts a push (gitprotocol-http(5)).
const receivePack = "git-receive-pack"

// refActions are the actions of scopes for refs: those of a push, as package gitpush names them.
var refActions = []string{"create", "update", "force", "delete", scopes.Any}

// isRef reports whether these segments of a scope name refs: <owner>/<repository>/refs/...
func isRef(at []string) bool { return len(at) > 3 && at[2] == "refs" }

// commits are the requests of permissions other than contents that write commits to branches. The
// branch of a pull request can be one of another repository of the lease.
var commits = []route{
	{http.MethodPut, []string{"pulls", "*", "update-branch"}},
	{http.MethodPost, []string{"deployments"}}, // with auto_merge, which is GitHub's default
}

// limitsPushes reports whether the token can write to some repository, and scopes for refs limit that.
func (a ask) limitsPushes() bool {
	return slices.ContainsFunc(a.repositories, func(repository string) bool {
		return a.refs[repository] && !atLeast(a.allowed[repository][contents], writeLevel)
	})
}

// checkRef returns an error unless the segments below refs, and the action, can be those of a push.
func checkRef(below []string, action string) error {
	switch {
	case len(below) < 2 && below[0] != scopes.Rest:
		return errors.New("name a branch or tag, such as refs/heads/main, or all of them, such as refs/heads/**")
	case !slices.Contains(refActions, action):
		return errors.New("a ref has the actions create, update, force and delete")
	}
	return nil
}

// refEffect describes a change of a ref.
func refEffect(action string) provider.Effect {
	if action == "create" || action == "update" {
		return provider.Effect{Writes: provider.Yes, Reversible: provider.Yes, Sentence: "Pushed commits can be reverted; what leaked by them cannot."}
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.No, Sentence: "Commits that no other branch holds can be lost."}
}

// refsFor returns a scope for all branches if the request belongs to a push. Only the body of the
// push names the branches that it changes.
func (d *Driver) refsFor(name, repository string, at requested, r *http.Request) []scopes.Scope {
	s, err := scopes.New(name, repository+"/refs/heads/**", "create")
	if err != nil {
		return nil
	}
	set, err := scopes.NewSet(s)
	if a, wrong := d.cfg.read(set); errors.Join(err, wrong) != nil || at.of(r, a) != nil {
		return nil
	}
	return []scopes.Scope{s}
}

// Judged implements provider.ContentJudge. GitHub has no token for one branch.
func (d *Driver) Judged(set scopes.Set) bool {
	return slices.ContainsFunc(set.Scopes(), func(s scopes.Scope) bool { return isRef(s.Segments()) })
}

// Judge implements provider.ContentJudge for GraphQL and for pushes.
func (d *Driver) Judge(ctx context.Context, r *http.Request, t provider.Target) (facts content.Facts, reply provider.Reply, err error) {
	at, err := d.placeOf(r)
	if err != nil {
		return facts, nil, err
	}
	a, err := d.cfg.read(t.Scopes)
	switch {
	case err != nil:
		return facts, nil, provider.Elsewhere("its lease's scopes are not configured any more")
	case at.graphQL:
		facts, err = d.judgeGraphQL(r, t.Scopes, a)
		return facts, graphQLReply, err
	case !at.api && len(at.below) == 3 && at.below[2] == receivePack: // Inject accepts no method but POST
		return d.judgePush(ctx, r, t, a, at.below[0]+"/"+strings.TrimSuffix(at.below[1], ".git"))
	}
	return facts, nil, nil
}

// judgePush is Judge for a push to a repository. contents:write allows every push; without it each
// change of a ref needs a scope.
func (d *Driver) judgePush(ctx context.Context, r *http.Request, t provider.Target, a ask, repository string) (facts content.Facts, reply provider.Reply, err error) {
	push, err := gitpush.Read(ctx, r, d.ancestor(t.Handle, repository))
	if err != nil {
		return facts, nil, err
	}
	if push.Refusal("") != nil {
		reply = func(text string) (string, []byte) { return gitpush.ReplyType, push.Refusal(text) }
	}
	for _, o := range push.Operations { // a lease can have several, and an approval is for one
		o.Details["repository"] = repository
	}
	if atLeast(a.allowed[repository][contents], writeLevel) {
		return push.Facts, reply, nil
	}
	needed, why := d.coversPush(t.Scopes, repository, push.Facts)
	if why != "" {
		err = &provider.UncoveredError{Needed: needed, Why: why}
	}
	return push.Facts, reply, err
}

// coversPush returns a clause on why scopes do not cover each change of a push to a repository, and
// the scopes that the push needs; "" = the scopes cover it.
func (d *Driver) coversPush(have scopes.Set, repository string, facts content.Facts) (needed scopes.Set, why string) {
	owner, name, _ := strings.Cut(repository, "/")
	spelled := []string{repository}
	for group, names := range d.cfg.Groups {
		if strings.HasPrefix(group, owner+"/") && slices.Contains(names, name) {
			spelled = append(spelled, group)
		}
	}
	// A group can be named acme/*, which as a pattern would cover repositories outside of it.
	about := slices.DeleteFunc(have.Scopes(), func(s scopes.Scope) bool {
		at := s.Segments()
		return !isRef(at) || !slices.Contains(spelled, at[0]+"/"+at[1])
	})
	var all []scopes.Scope
	covered := true
	for _, o := range facts.Operations {
		s, err := scopes.New(have.Providers()[0], repository+"/"+o.Object, o.Action)
		if err != nil {
			return scopes.Set{}, "it changes a ref whose name fits into no scope: use letters, digits and ._~@+=,- in at most 13 parts after refs"
		}
		all = append(all, s)
		covered = covered && slices.ContainsFunc(spelled, func(repository string) bool {
			s, err := scopes.New(have.Providers()[0], repository+"/"+o.Object, o.Action)
			return err == nil && slices.ContainsFunc(about, func(have scopes.Scope) bool { return have.Covers(s) })
		})
	}
	if covered {
		return scopes.Set{}, ""
	}
	needed, _ = scopes.NewSet(all...) // empty if they are too many for one request
	return needed, "the scopes of its lease do not cover each change of the push"
}

// maxCompared bounds the calls of GitHub for one push. Updates beyond them count as forced.
const maxCompared = 8

// ancestor returns the function that asks GitHub about commits that a push does not contain, because
// GitHub has them already. It uses the token of the lease, whose permissions include contents:read.
func (d *Driver) ancestor(token secret.Secret, repository string) gitpush.Ancestor {
	left := maxCompared
	return func(ctx context.Context, old string, heads []string) (bool, error) {
		for _, head := range heads {
			if left--; left < 0 {
				return false, nil
			}
			// The second page has no files, which can be many (docs.github.com/rest/commits/commits#compare-two-commits).
			ans, err := d.call(ctx, http.MethodGet, "/repos/"+repository+"/compare/"+old+"..."+head+"?per_page=1&page=2", token, nil)
			var found struct {
				MergeBase struct {
					SHA string `json:"sha"`
				} `json:"merge_base_commit"`
			}
			switch {
			case err != nil:
				return false, err
			case ans.status == http.StatusNotFound: // GitHub does not have one of the two
			case ans.status != http.StatusOK:
				return false, ans.error()
			case json.Unmarshal(ans.body, &found) != nil:
				return false, errors.New("GitHub's comparison of two commits is not the JSON that it documents")
			case found.MergeBase.SHA == old:
				return true, nil
			}
		}
		return false, nil
	}
}
