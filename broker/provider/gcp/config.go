package gcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Config is the provider's part of the configuration.
type Config struct {
	// KeyFile is the JSON key of the broker's own service account, mode 0600.
	KeyFile string `json:"key_file,omitempty"`
	// Metadata means that the broker uses the service account of the machine or pod it runs
	// on. Exactly one of KeyFile and Metadata is required.
	Metadata bool `json:"metadata,omitempty"`
	// Buckets maps buckets of Cloud Storage to their allowed requests. The resource of a scope is
	// <bucket>/<object>, <bucket>/<prefix>/** or <bucket>/**.
	Buckets map[string]Bucket `json:"buckets,omitempty"`
	// Grants maps other resources to their actions. Such a token is not narrowed: it has all
	// permissions of its account within its OAuth scopes.
	Grants provider.Grants[Account] `json:"grants,omitempty"`
	// MaxLifetime of a token: 1m to 12h, whole seconds; "" means 1h, Google's maximum
	// without an organization policy.
	MaxLifetime string `json:"max_lifetime,omitempty"`
	// Endpoints replace Google's endpoints, for Private Service Connect.
	Endpoints Endpoints `json:"endpoints"`
	// Timeout is the timeout of one call; 0 means 10 s.
	Timeout time.Duration `json:"-"`
}

// Bucket has the settings for tokens for one bucket.
type Bucket struct {
	ServiceAccount string            `json:"service_account"`
	Actions        map[string]Action `json:"actions"`
}

// Action is the maximum permission of a token on objects.
type Action struct {
	Role string `json:"role"` // the role with the maximum permissions, such as roles/storage.objectViewer
	// List also allows listing the requested prefix, if the role does.
	List bool `json:"list,omitempty"`
}

// Account is a service account and the OAuth scopes of its tokens.
type Account struct {
	ServiceAccount string   `json:"service_account"`
	Scopes         []string `json:"scopes"`
}

// Endpoints are base URLs without a path.
type Endpoints struct {
	OAuth          string `json:"oauth,omitempty"`          // https://oauth2.googleapis.com
	IAMCredentials string `json:"iamcredentials,omitempty"` // https://iamcredentials.googleapis.com
	STS            string `json:"sts,omitempty"`            // https://sts.googleapis.com
	IAM            string `json:"iam,omitempty"`            // https://iam.googleapis.com
	Metadata       string `json:"metadata,omitempty"`       // http://metadata.google.internal
}

var (
	// accountForm matches one path segment: an email address, or the numeric id.
	accountForm = lazyregexp.New(`^([0-9]{5,32}|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?@[a-z0-9.-]{1,128}\.gserviceaccount\.com)$`)
	bucketForm  = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$`)
	roleForm    = lazyregexp.New(`^((projects|organizations)/[A-Za-z0-9:._-]{1,64}/)?roles/[A-Za-z0-9_.]{1,64}$`)
	oauthForm   = lazyregexp.New(`^https://www\.googleapis\.com/auth/[a-z0-9._-]{1,100}$`)
)

const maxOAuthScopes = 20

// check fills in the defaults and returns all problems joined; name is the name of the
// provider.
func (c *Config) check(name string) (maxLife time.Duration, err error) {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if (c.KeyFile != "") == c.Metadata {
		bad("key_file or metadata: name the broker's own login, and only one")
	}
	if c.KeyFile != "" {
		if _, err := readKey(c.KeyFile); err != nil {
			bad("key_file: %w", err)
		}
	}
	maxLife = time.Hour
	if c.MaxLifetime != "" {
		if maxLife, err = time.ParseDuration(c.MaxLifetime); err != nil || maxLife < time.Minute || maxLife > 12*time.Hour || maxLife%time.Second != 0 {
			bad("max_lifetime: %q is not 1m to 12h in whole seconds", c.MaxLifetime)
		}
	}
	if len(c.Buckets)+len(c.Grants) == 0 {
		bad("buckets, grants: name at least one resource and its actions")
	}
	c.checkBuckets(name, bad)
	c.checkGrants(name, bad)
	c.Endpoints.check(bad)
	return maxLife, errors.Join(errs...)
}

func (c *Config) checkBuckets(name string, bad func(string, ...any)) {
	for _, bucket := range slices.Sorted(maps.Keys(c.Buckets)) {
		b, at := c.Buckets[bucket], "buckets."+bucket
		if _, err := scopes.New(name, bucket, "x"); err != nil || !bucketForm.MatchString(bucket) {
			bad("buckets: %q is not the name of a bucket", bucket)
		}
		if !accountForm.MatchString(b.ServiceAccount) {
			bad("%s.service_account: %q is not the address of a service account", at, b.ServiceAccount)
		}
		if len(b.Actions) == 0 {
			bad("%s.actions: name at least one action and its role", at)
		}
		for _, action := range slices.Sorted(maps.Keys(b.Actions)) {
			if !provider.ValidAction(action) {
				bad("%s.actions: %q is not an action", at, action)
			}
			if role := b.Actions[action].Role; !roleForm.MatchString(role) {
				bad("%s.actions.%s.role: %q is not a role, such as roles/storage.objectViewer", at, action, role)
			}
		}
	}
}

func (c *Config) checkGrants(name string, bad func(string, ...any)) {
	for _, res := range slices.Sorted(maps.Keys(c.Grants)) {
		first, _, _ := strings.Cut(res, "/")
		if _, both := c.Buckets[first]; both {
			bad("grants.%s: %q is a bucket, and its tokens are narrowed", res, first)
		}
	}
	c.Grants.Check(name, bad, func(at string, a Account) {
		if !accountForm.MatchString(a.ServiceAccount) {
			bad("%s.service_account: %q is not the address of a service account", at, a.ServiceAccount)
		}
		if len(a.Scopes) == 0 || len(a.Scopes) > maxOAuthScopes || slices.ContainsFunc(a.Scopes, func(s string) bool { return !oauthForm.MatchString(s) }) {
			bad("%s.scopes: list 1 to %d OAuth scopes, such as https://www.googleapis.com/auth/bigquery.readonly", at, maxOAuthScopes)
		}
	})
}

func (e *Endpoints) check(bad func(string, ...any)) {
	for _, x := range []struct {
		name, standard string
		at             *string
	}{
		{"oauth", "https://oauth2.googleapis.com", &e.OAuth}, {"iamcredentials", "https://iamcredentials.googleapis.com", &e.IAMCredentials},
		{"sts", "https://sts.googleapis.com", &e.STS}, {"iam", "https://iam.googleapis.com", &e.IAM}, {"metadata", "http://metadata.google.internal", &e.Metadata},
	} {
		if *x.at == "" {
			*x.at = x.standard
		}
		u, err := url.Parse(*x.at)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
			bad("endpoints.%s: the text does not have the form https://host", x.name)
			continue
		}
		// The metadata server has no certificate, and is on the machine's own link.
		onLink := x.name == "metadata" && u.Scheme == "http" && (u.Hostname() == "metadata.google.internal" || u.Hostname() == "169.254.169.254")
		if !fetch.Secure(u) && !onLink {
			bad("endpoints.%s: only https, or http on loopback", x.name)
		}
		*x.at = strings.TrimRight(*x.at, "/")
	}
}

// accounts returns all service accounts, sorted.
func (c *Config) accounts() []string {
	set := map[string]bool{}
	for _, b := range c.Buckets {
		set[b.ServiceAccount] = true
	}
	for _, actions := range c.Grants {
		for _, a := range actions {
			set[a.ServiceAccount] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// CheckSetup implements provider.Checker.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	me, err := d.me(ctx, secret.Secret{})
	if err != nil {
		return []provider.Finding{{Fatal: true, What: fmt.Sprintf("The broker cannot log in (%v).", err), Remedy: "Check key_file, or that the machine has a service account; and that the endpoints can be reached."}}
	}
	const right = "iam.serviceAccounts.getAccessToken"
	var out []provider.Finding
	for _, account := range d.cfg.accounts() {
		var answer struct {
			Permissions []string `json:"permissions"`
		}
		to := d.cfg.Endpoints.IAM + "/v1/projects/-/serviceAccounts/" + url.PathEscape(account) + ":testIamPermissions"
		err := d.postJSON(ctx, to, me, map[string][]string{"permissions": {right}}, &answer)
		switch {
		case err != nil:
			out = append(out, provider.Finding{
				What:   fmt.Sprintf("Whether the broker may make tokens of %s could not be looked at (%v).", account, err),
				Remedy: "Does the account exist? gcloud services enable iam.googleapis.com iamcredentials.googleapis.com sts.googleapis.com",
			})
		case !slices.Contains(answer.Permissions, right):
			out = append(out, provider.Finding{
				Fatal: true, What: "The broker may not make tokens of " + account + ".",
				Remedy: "gcloud iam service-accounts add-iam-policy-binding " + account + " --member=serviceAccount:EBB --role=roles/iam.serviceAccountTokenCreator",
			})
		}
	}
	return out
}
