package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Config is the provider's part of the configuration.
type Config struct {
	// Server is the URL of the API server, with the path of a proxy if there is one:
	// https://10.0.0.1:6443, https://rancher.example/k8s/clusters/c-1.
	Server string `json:"server"`
	CAFile string `json:"ca_file,omitempty"` // PEM; "" = the system's
	// TokenFile is the file with the broker's own token. It is read for each call, because a
	// pod's token is replaced every hour.
	TokenFile string `json:"token_file,omitempty"`
	// CertificateFile and KeyFile are the broker's own client certificate in PEM, instead of
	// a token. They are read for each handshake.
	CertificateFile string `json:"certificate_file,omitempty"`
	KeyFile         string `json:"key_file,omitempty"`
	// Grants maps the resource of a scope to its actions:
	// {shop: {deploy: {namespace: agents, service_account: shop-deployer}}}.
	Grants provider.Grants[Account] `json:"grants"`
	// Timeout is the timeout of one call; 0 means 10 s.
	Timeout time.Duration `json:"-"`
}

// Account is the service account of an action.
type Account struct {
	Namespace      string `json:"namespace"` // namespace of the service account and of the Secrets
	ServiceAccount string `json:"service_account"`
	// Audiences of the token; empty means the API server's own.
	Audiences []string `json:"audiences,omitempty"`
}

const maxAudiences = 8

var (
	// DNS labels and subdomains of RFC 1123, as the API server checks names.
	labelForm     = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	subdomainForm = lazyregexp.New(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	audienceForm  = lazyregexp.New(`^[!-~]{1,256}$`)
)

// check returns all problems joined; name is the provider's.
func (c Config) check(name string) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, err := c.base(); err != nil {
		errs = append(errs, err)
	}
	certificate := c.CertificateFile != "" || c.KeyFile != ""
	switch {
	case certificate == (c.TokenFile != ""):
		bad("token_file, or certificate_file and key_file: name the broker's own login, and only one")
	case certificate && (c.CertificateFile == "" || c.KeyFile == ""):
		bad("certificate_file and key_file belong together")
	case certificate && strings.HasPrefix(c.Server, "http:"):
		bad("certificate_file needs a server with https")
	case certificate:
		if _, err := c.certificate(); err != nil {
			errs = append(errs, err)
		}
	default:
		if _, err := secret.Read(c.TokenFile); err != nil {
			bad("token_file: %w", err)
		}
	}
	if len(c.Grants) == 0 {
		bad("grants: name at least one resource, its actions and their service accounts")
	}
	c.Grants.Check(name, bad, func(at string, a Account) { a.check(at, bad) })
	return errors.Join(errs...)
}

func (a Account) check(at string, bad func(string, ...any)) {
	if !labelForm.MatchString(a.Namespace) {
		bad("%s.namespace: %q is not the name of a namespace", at, a.Namespace)
	}
	if !subdomainForm.MatchString(a.ServiceAccount) || strings.Contains(a.ServiceAccount, "..") {
		bad("%s.service_account: %q is not the name of a service account", at, a.ServiceAccount)
	}
	if len(a.Audiences) > maxAudiences || slices.ContainsFunc(a.Audiences, func(s string) bool { return !audienceForm.MatchString(s) }) {
		bad("%s.audiences: at most %d of printable ASCII without spaces", at, maxAudiences)
	}
	if sorted := slices.Sorted(slices.Values(a.Audiences)); len(slices.Compact(sorted)) != len(a.Audiences) {
		bad("%s.audiences: one is named twice", at)
	}
}

// base returns the URL that paths are appended to, without a slash at its end.
func (c Config) base() (string, error) {
	u, err := url.Parse(c.Server)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return "", errors.New("server: the text does not have the form https://host:port") // err may contain parts of it
	case !fetch.Secure(u):
		return "", errors.New("server: only https, or http on loopback")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// certificate reads the broker's own client certificate.
func (c Config) certificate() (*tls.Certificate, error) {
	public, err := os.ReadFile(c.CertificateFile)
	if err != nil {
		return nil, fmt.Errorf("certificate_file: %w", err)
	}
	private, err := secret.Read(c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	pair, err := tls.X509KeyPair(public, []byte(private.Reveal()))
	if err != nil {
		return nil, errors.New("certificate_file and key_file: the files do not contain a certificate and its key in PEM")
	}
	return &pair, nil
}

// namespaces returns the namespaces that may contain Secrets of leases.
func (c Config) namespaces() []string {
	set := map[string]bool{}
	for _, actions := range c.Grants {
		for _, a := range actions {
			set[a.Namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// attributes are those of a SelfSubjectAccessReview.
type attributes struct {
	Namespace   string `json:"namespace,omitempty"`
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
}

// may asks the API server whether the broker has a permission.
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
		err = errors.New("the response is for another request")
	}
	return out.Status.Allowed, err
}

// errFound ends a list at its first entry, when that is sufficient.
var errFound = errors.New("found")

// CheckSetup implements provider.Checker. It reports every missing permission, and
// permissions beyond the broker's own Secrets and service accounts.
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
