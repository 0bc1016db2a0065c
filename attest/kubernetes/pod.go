package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// pod has the members of a Pod (core/v1) that are used.
type pod struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string     `json:"name"`
		Namespace   string     `json:"namespace"`
		UID         string     `json:"uid"`
		Version     string     `json:"resourceVersion"`
		Deleted     *time.Time `json:"deletionTimestamp"`
		GraceSecond int64      `json:"deletionGracePeriodSeconds"`
		Owners      []owner    `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		ServiceAccountName string     `json:"serviceAccountName"`
		NodeName           string     `json:"nodeName"`
		Containers         []named    `json:"containers"`
		InitContainers     []struct{} `json:"initContainers"`
		Ephemeral          []struct{} `json:"ephemeralContainers"`
	} `json:"spec"`
	Status struct {
		Phase      string  `json:"phase"`
		Containers []named `json:"containerStatuses"`
	} `json:"status"`
}

// named is a container or the status of one.
type named struct {
	Name    string `json:"name"`
	ImageID string `json:"imageID"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// group returns the API group of apiVersion, "" for core.
func (o owner) group() string {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// errNoPod means that the API server answered that the pod does not exist.
var errNoPod = errors.New("the pod has been removed")

func pods(namespace string) []string { return []string{"api", "v1", "namespaces", namespace, "pods"} }

// news sends a watch request and returns after the first change of the pod since
// version, or after about long. It does not parse the change; the caller reads the pod.
func (a *api) news(ctx context.Context, namespace, name, version string, long time.Duration) error {
	q := fetch.Request{Below: pods(namespace), Query: url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + name}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(int(long / time.Second))},
	}}
	if _, err := a.login(&q); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, long+newsGrace)
	defer cancel()
	return a.place.Await(ctx, q)
}

// newsGrace is how much longer than requested a watch may take to end.
const newsGrace = 5 * time.Second

// pod reads a pod with a quorum read of etcd, and never from an API server's cache,
// which could be stale.
func (a *api) pod(ctx context.Context, namespace, name string) (pod, error) {
	var p pod
	err := a.call(ctx, fetch.Request{Below: append(pods(namespace), name)}, nil, &p)
	if e, ok := errors.AsType[*statusError](err); ok {
		// Only a NotFound for this pod means that it has been removed. A 404 can also
		// come from a proxy, or from a server that does not know the path.
		if e.Code == http.StatusNotFound && e.Reason == "NotFound" && e.Kind == "pods" && e.Name == name {
			return pod{}, errNoPod
		}
		return pod{}, err
	}
	if err != nil {
		return pod{}, err
	}
	if p.APIVersion != "v1" || p.Kind != "Pod" || p.Metadata.Name != name || p.Metadata.Namespace != namespace || p.Metadata.UID == "" {
		return pod{}, errForm
	}
	return p, nil
}

// The values of attest.Exit.How.
const (
	howDeleted     = "pod_deleted"
	howReplaced    = "pod_replaced"
	howSucceeded   = "pod_succeeded"
	howFailed      = "pod_failed"
	howTerminating = "pod_terminating"
)

var errPhase = errors.New("the phase of the pod does not tell whether it is alive")

// end returns how the pod with this UID ended, "" while it is alive.
func (p pod) end(uid string, untilRemoved bool) (how string, err error) {
	switch {
	case p.Metadata.UID != uid:
		return howReplaced, nil
	case p.Status.Phase == "Succeeded":
		return howSucceeded, nil
	case p.Status.Phase == "Failed":
		return howFailed, nil
	case p.Metadata.Deleted != nil && !untilRemoved:
		return howTerminating, nil
	case p.Status.Phase == "Pending" || p.Status.Phase == "Running":
		return "", nil
	}
	return "", errPhase // such as Unknown: the node does not respond
}

// asked returns when the deletion of a pod was requested; zero for a pod that is not
// being deleted. deletionTimestamp is later by the grace period.
func (p pod) asked() time.Time {
	if p.Metadata.Deleted == nil || p.Metadata.GraceSecond < 0 || p.Metadata.GraceSecond > int64(maxGrace/time.Second) {
		return time.Time{}
	}
	return p.Metadata.Deleted.Add(-time.Duration(p.Metadata.GraceSecond) * time.Second)
}

const maxGrace = 365 * 24 * time.Hour

// controller returns the owner reference of the object that manages the pod.
func (p pod) controller() (owner, bool) {
	var found []owner
	for _, o := range p.Metadata.Owners {
		if o.Controller {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		return owner{}, false
	}
	return found[0], true
}

// imageForm matches the digest of an image in a registry. An imageID without the @ is
// the digest of an image configuration.
var imageForm = lazyregexp.New(`@(sha256:[0-9a-f]{64})$`)

// image returns the digest of the only image in the pod, "" when the pod has several
// images or the digest is not known yet.
func (p pod) image() string {
	if len(p.Spec.Containers) != 1 || len(p.Spec.InitContainers)+len(p.Spec.Ephemeral) > 0 ||
		len(p.Status.Containers) != 1 || p.Status.Containers[0].Name != p.Spec.Containers[0].Name {
		return ""
	}
	if m := imageForm.FindStringSubmatch(p.Status.Containers[0].ImageID); m != nil {
		return m[1]
	}
	return ""
}

const maxFact = 2048

// describe adds the facts of the pod to the selectors. A fact that is absent or not
// plain text is left out, so that no registration of it matches.
func (p pod) describe(selectors map[string]string) {
	add := func(name, value string) {
		if value != "" && len(value) <= maxFact && jose.Plain(value) {
			selectors[name] = value
		}
	}
	add("node", p.Spec.NodeName)
	add("image_digest", p.image())
	if o, found := p.controller(); found {
		add("owner_group", o.group())
		add("owner_kind", o.Kind)
		add("owner_name", o.Name)
		add("owner_uid", o.UID)
	}
}

const (
	// quietPolls is the timeout of a watch request, in polls. A watch whose connection
	// broke without notice delays the detection of an exit by that much at most.
	quietPolls = 6
	// minLook is the minimum time between two reads of a pod that changes all the time.
	minLook = 500 * time.Millisecond
	// noWatch is how long no watch request is sent after one has failed.
	noWatch = time.Minute
)

// Watch implements attest.Watcher. It reads the pod, waits for a change, and reads the
// pod again. When watch requests fail, for example because ebb has no permission, it
// reads the pod every Poll, minus a random part so that not all pods are read at once.
// Only the pod as read decides. Every response that is not about this pod is an error,
// and the sandbox counts as running.
func (r *reviewed) Watch(ctx context.Context, id attest.Identity) (attest.Exit, error) {
	namespace, name, uid := id.Selectors["namespace"], id.Selectors["pod"], id.Selectors["pod_uid"]
	if id.Attestor != r.cfg.Name || !labelForm.MatchString(namespace) || !(ref{name, uid}).wellFormed() {
		return attest.Exit{}, attest.ErrElsewhere // the token was not bound to a pod (allow_unbound)
	}
	for {
		start := time.Now()
		p, err := r.look(ctx, namespace, name)
		var exit attest.Exit
		switch {
		case errors.Is(err, errNoPod):
			return attest.Exit{How: howDeleted}, nil
		case err == nil:
			exit, err = r.exit(p, uid)
		}
		if ctx.Err() != nil {
			return attest.Exit{}, ctx.Err()
		}
		if err != nil {
			return attest.Exit{}, fmt.Errorf("attest/kubernetes %q: cannot tell whether the pod is alive: %w", r.cfg.Name, err)
		}
		if exit.How != "" {
			return exit, nil
		}
		pause := r.cfg.Poll - rand.N(r.cfg.Poll/4)
		if r.news(ctx, p) {
			pause = minLook - time.Since(start)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return attest.Exit{}, ctx.Err()
		case <-t.C:
		}
	}
}

// look reads a pod once fewer than cap(looks) reads are in progress.
func (r *reviewed) look(ctx context.Context, namespace, name string) (pod, error) {
	select {
	case r.looks <- struct{}{}:
		defer func() { <-r.looks }()
		return r.api.pod(ctx, namespace, name)
	case <-ctx.Done():
		return pod{}, ctx.Err()
	}
}

// exit returns the Exit of a pod as read. How is "" while the pod is alive.
func (r *reviewed) exit(p pod, uid string) (attest.Exit, error) {
	how, err := p.end(uid, r.cfg.UntilRemoved)
	d := attest.Exit{How: how}
	if how == howTerminating && !p.asked().After(r.cfg.Now()) {
		d.At = p.asked()
	}
	return d, err
}

// news waits for a change of the pod and reports whether the watch request succeeded.
// After a failure for any sandbox, no watch request is sent for noWatch, and pods are
// polled.
func (r *reviewed) news(ctx context.Context, p pod) bool {
	if p.Metadata.Version == "" || len(p.Metadata.Version) > maxVersion || time.Now().UnixNano() < r.unwatched.Load() {
		return false
	}
	long := quietPolls * (r.cfg.Poll - rand.N(r.cfg.Poll/4))
	if err := r.api.news(ctx, p.Metadata.Namespace, p.Metadata.Name, p.Metadata.Version, long); err != nil {
		was, now := r.unwatched.Load(), time.Now()
		if ctx.Err() == nil && now.UnixNano() >= was && r.unwatched.CompareAndSwap(was, now.Add(noWatch).UnixNano()) {
			r.cfg.Logger.Warn("pods are not watched for a minute but read every poll", "attestor", r.cfg.Name, "poll", r.cfg.Poll, "error", err)
		}
		return false
	}
	return true
}

// maxVersion is the maximum length of a resourceVersion that is sent back in a request.
const maxVersion = 128
