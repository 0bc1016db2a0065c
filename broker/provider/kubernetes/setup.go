package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/provider"
)

// attributes are those of a SelfSubjectAccessReview's question.
type attributes struct {
	Namespace   string `json:"namespace,omitempty"`
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
}

// may asks the API server whether the broker may do something.
func (d *Driver) may(ctx context.Context, a attributes) (bool, error) {
	type spec struct {
		ResourceAttributes attributes `json:"resourceAttributes"`
	}
	type review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       spec   `json:"spec"`
	}
	var out struct {
		Kind   string `json:"kind"`
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err := d.api.call(ctx, request{
		method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		body: review{"authorization.k8s.io/v1", "SelfSubjectAccessReview", spec{a}},
	}, &out)
	if err == nil && out.Kind != "SelfSubjectAccessReview" {
		err = errors.New("the answer is about something else")
	}
	return out.Status.Allowed, err
}

// errFound ends a list whose first entry says enough.
var errFound = errors.New("found")

// CheckSetup implements provider.Checker: every right that is missing, and what the
// broker may do beyond its own Secrets and service accounts.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	var out []provider.Finding
	all, err := d.may(ctx, attributes{Verb: "*", Group: "*", Resource: "*"})
	if err != nil {
		remedy := "Check server, ca_file and the broker's login."
		if reason(err) == "Unauthorized" {
			remedy = "The token or certificate of the broker is not accepted: check that its file is the one that is renewed."
		}
		return []provider.Finding{{Fatal: true, What: fmt.Sprintf("The API server cannot be reached, or refuses the broker's login (%v).", err), Remedy: remedy}}
	}
	if all {
		out = append(out, provider.Finding{What: "The broker may do everything in the cluster.", Remedy: "Bind it to the Role of docs/providers/kubernetes.md alone."})
	}
	accounts := map[string]map[string]bool{}
	for _, actions := range d.cfg.Grants {
		for _, a := range actions {
			if accounts[a.Namespace] == nil {
				accounts[a.Namespace] = map[string]bool{}
			}
			accounts[a.Namespace][a.ServiceAccount] = true
		}
	}
	for _, ns := range d.cfg.namespaces() {
		found, err := d.checkNamespace(ctx, ns, slices.Sorted(maps.Keys(accounts[ns])), all)
		out = append(out, found...)
		if err != nil {
			return append(out, provider.Finding{Fatal: true, What: fmt.Sprintf("The broker's rights in namespace %s could not be looked at (%v).", ns, err), Remedy: "Try again."})
		}
	}
	return out
}

func (d *Driver) checkNamespace(ctx context.Context, ns string, accounts []string, all bool) (out []provider.Finding, err error) {
	fatal := func(what, verbs, resource string) {
		out = append(out, provider.Finding{Fatal: true, What: what, Remedy: fmt.Sprintf(
			"kubectl -n %s create role ebb-%s --verb=%s --resource=%s; then bind it to the broker with kubectl -n %s create rolebinding.",
			ns, strings.NewReplacer("/", "-", " --resource-name=", "-").Replace(resource), verbs, resource, ns)})
	}
	var missing []string
	for _, verb := range []string{"create", "get", "list", "delete"} {
		ok, err := d.may(ctx, attributes{Namespace: ns, Verb: verb, Resource: "secrets"})
		if err != nil {
			return out, err
		}
		if !ok {
			missing = append(missing, verb)
		}
	}
	if len(missing) > 0 {
		fatal("The broker may not "+strings.Join(missing, ", ")+" Secrets in namespace "+ns+".", strings.Join(missing, ","), "secrets")
	}
	for _, name := range accounts {
		ok, err := d.may(ctx, attributes{Namespace: ns, Verb: "create", Resource: "serviceaccounts", Subresource: "token", Name: name})
		if err != nil {
			return out, err
		}
		if !ok {
			fatal("The broker may not make tokens of service account "+ns+"/"+name+".", "create", "serviceaccounts/token --resource-name="+name)
		}
	}
	if all {
		return out, nil
	}
	every, err := d.may(ctx, attributes{Namespace: ns, Verb: "create", Resource: "serviceaccounts", Subresource: "token"})
	if err != nil {
		return out, err
	}
	if every {
		out = append(out, provider.Finding{
			What:   "The broker may make tokens of every service account in namespace " + ns + ".",
			Remedy: "Give its Role for serviceaccounts/token resourceNames: " + strings.Join(accounts, ", ") + ".",
		})
	}
	if slices.Contains(missing, "list") {
		return out, nil
	}
	err = d.list(ctx, ns, url.Values{"labelSelector": {labelManaged + "!=ebb"}}, 1, func(meta) error { return errFound })
	if err != nil && !errors.Is(err, errFound) {
		return out, err
	}
	if err != nil {
		out = append(out, provider.Finding{
			What:   "Namespace " + ns + " holds Secrets that are not of ebb: the broker can read and delete them.",
			Remedy: "Move the service accounts of agents into a namespace of their own; RoleBindings elsewhere may name them.",
		})
	}
	return out, nil
}
