package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ebb/attest/fetch"
	"ebb/attest/jose"
)

// pod is what is read of a pod (core/v1, Pod).
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

// named is a container, or its status.
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

// group is that of apiVersion, "" for core.
func (o owner) group() string {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// errNoPod means that the API server says that there is no such pod.
var errNoPod = errors.New("the pod is gone")

func pods(namespace string) []string { return []string{"api", "v1", "namespaces", namespace, "pods"} }

// news waits until something has happened to a pod since a version of it, or about
// for long. What has happened is not read: whoever is told looks at the pod.
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

// newsGrace is how much longer than asked for a watch may take to end.
const newsGrace = 5 * time.Second

// pod reads one from etcd's majority, never from an API server's cache, which
// might be too old to have it.
func (a *api) pod(ctx context.Context, namespace, name string) (pod, error) {
	var p pod
	err := a.call(ctx, fetch.Request{Below: append(pods(namespace), name)}, nil, &p)
	if e, ok := errors.AsType[*statusError](err); ok {
		// A 404 of a proxy, or of a path that the server does not know, is no death:
		// only the words for this very pod are.
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

// How a pod ends.
const (
	howDeleted     = "pod_deleted"
	howReplaced    = "pod_replaced"
	howSucceeded   = "pod_succeeded"
	howFailed      = "pod_failed"
	howTerminating = "pod_terminating"
)

var errPhase = errors.New("the phase of the pod is none that says whether it lives")

// end says how the pod of a UID ended, "" while it lives.
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
	return "", errPhase // Unknown: its node does not answer
}

// asked is when a pod that is being deleted was asked to end; zero without that.
// deletionTimestamp is when its time is up.
func (p pod) asked() time.Time {
	if p.Metadata.Deleted == nil || p.Metadata.GraceSecond < 0 || p.Metadata.GraceSecond > int64(maxGrace/time.Second) {
		return time.Time{}
	}
	return p.Metadata.Deleted.Add(-time.Duration(p.Metadata.GraceSecond) * time.Second)
}

const maxGrace = 365 * 24 * time.Hour

// controller is the one object that manages the pod.
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

// A digest of what a registry gives; without the @ it is that of a configuration.
var imageForm = regexp.MustCompile(`@(sha256:[0-9a-f]{64})$`)

// image is the digest of the only image that runs in the pod, "" where there is
// more than one, or none is known yet.
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

// describe adds what the pod says to selectors. What is not there, or cannot be
// shown, is left out: then nothing matches it.
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
