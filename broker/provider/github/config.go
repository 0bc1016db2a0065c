package github

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// Config configures one GitHub App at one GitHub. The members with a JSON name are the
// options of the provider.
type Config struct {
	// ClientID is the client id of the App, or its numeric id: the iss of its JWT. Required.
	ClientID string `json:"client_id"`
	// PrivateKeyFile is a PEM file with an RSA key of the App. Required. It is read
	// again for every JWT, so that a rotated key needs no restart.
	PrivateKeyFile string `json:"private_key_file"`
	// Installations maps owners, spelled as GitHub spells them, to the id of the
	// App's installation there. Required.
	Installations map[string]int64 `json:"installations"`
	// Permissions are the maximum permissions of tokens: permission to level. Required.
	Permissions map[string]string `json:"permissions"`

	// Repositories pins owner/name to an id. Other repositories are looked up by name.
	Repositories map[string]int64 `json:"repositories"`
	// PinnedOnly refuses repositories that are not pinned.
	PinnedOnly bool `json:"pinned_only"`
	// Groups maps <owner>/@<group> or <owner>/* to names of that owner's repositories.
	Groups map[string][]string `json:"groups"`

	// APIURL, default https://api.github.com; for Enterprise Server https://HOST/api/v3.
	APIURL string `json:"api_url"`
	// GitURL is the base URL of git repositories. Default https://github.com, or the host of
	// APIURL.
	GitURL string `json:"git_url"`
	// APIVersion is X-GitHub-Api-Version, default 2022-11-28.
	APIVersion string `json:"api_version"`
	// CAFile is a PEM bundle to trust in place of the system's.
	CAFile string `json:"ca_file"`
	// TokenFormat requests a token format, opaque or stateless; empty means GitHub's
	// default.
	TokenFormat string `json:"token_format"`
	// TimeoutSeconds bounds one call of the API, default 10.
	TimeoutSeconds int `json:"timeout_seconds"`

	// Now is the clock. Logger gets messages for operators. Both are required.
	Now    func() time.Time `json:"-"`
	Logger *slog.Logger     `json:"-"`
}

const (
	defaultAPI     = "https://api.github.com"
	defaultGit     = "https://github.com"
	defaultVersion = "2022-11-28"

	formatOpaque    = "opaque"
	formatStateless = "stateless"
)

// Forms of GitHub's names that are safe in a path and in a JSON string.
var (
	ownerForm = lazyregexp.New(`^[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62})$`)
	repoForm  = lazyregexp.New(`^[A-Za-z0-9._-]{1,100}$`)
	groupForm = lazyregexp.New(`^(?:\*|@[a-z0-9][a-z0-9._-]{0,62})$`)
	dateForm  = lazyregexp.New(`^\d{4}-\d{2}-\d{2}$`)
)

// validRepo reports whether a repository can have this name.
func validRepo(name string) bool { return repoForm.MatchString(name) && name != "." && name != ".." }

// setDefaults sets the defaults of absent members.
func (c *Config) setDefaults() {
	if c.APIURL == "" {
		c.APIURL = defaultAPI
	}
	c.APIURL = strings.TrimSuffix(c.APIURL, "/")
	if c.GitURL == "" {
		c.GitURL = defaultGit
		if u, err := url.Parse(c.APIURL); err == nil && c.APIURL != defaultAPI {
			c.GitURL = u.Scheme + "://" + u.Host
		}
	}
	c.GitURL = strings.TrimSuffix(c.GitURL, "/")
	if c.APIVersion == "" {
		c.APIVersion = defaultVersion
	}
	if c.TimeoutSeconds == 0 {
		c.TimeoutSeconds = 10
	}
	// GitHub adds metadata:read to any other permission, so it cannot be left out.
	if len(c.Permissions) > 0 && c.Permissions[metadata] == "" {
		c.Permissions = maps.Clone(c.Permissions)
		c.Permissions[metadata] = readLevel
	}
}

// check returns all problems joined, each with its remedy.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.ClientID == "" {
		bad("client_id is empty: copy the Client ID from the App's settings")
	}
	if c.PrivateKeyFile == "" {
		bad("private_key_file is empty: generate a private key in the App's settings and name the file")
	}
	for name, u := range map[string]string{"api_url": c.APIURL, "git_url": c.GitURL} {
		if _, err := scopes.ParseResource(u); err != nil || strings.ContainsAny(u, "?#") {
			bad("%s must be an https URL without a query, such as https://HOST/api/v3", name)
		}
	}
	if !dateForm.MatchString(c.APIVersion) {
		bad("api_version must be a date, such as %s", defaultVersion)
	}
	if c.TokenFormat != "" && c.TokenFormat != formatOpaque && c.TokenFormat != formatStateless {
		bad("token_format must be %s or %s, or be left out", formatOpaque, formatStateless)
	}
	if c.TimeoutSeconds < 1 || c.TimeoutSeconds > 60 {
		bad("timeout_seconds must be 1 to 60")
	}
	c.checkPermissions(bad)
	c.checkRepositories(bad)
	return errors.Join(errs...)
}

func (c *Config) checkPermissions(bad func(string, ...any)) {
	if len(c.Permissions) == 0 {
		bad("permissions is empty: list what the App was granted and ebb may mint, such as {contents: read}")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Permissions)) {
		p, known := permissions[name]
		switch {
		case !known:
			bad("permissions: GitHub has no permission %q", name)
		case p.where == elsewhere:
			bad("permissions: %s belongs to a user or an enterprise, where installation tokens do not act", name)
		case !slices.Contains(p.levels, c.Permissions[name]):
			bad("permissions: %s has the levels %s", name, strings.Join(p.levels, ", "))
		}
	}
}

func (c *Config) checkRepositories(bad func(string, ...any)) {
	if len(c.Installations) == 0 {
		bad("installations is empty: map each owner to the number at the end of its installation's URL")
	}
	for owner, id := range c.Installations {
		if !ownerForm.MatchString(owner) || id <= 0 {
			bad("installations: %q: %d is not an owner with the id of an installation", owner, id)
		}
	}
	names := map[int64]string{}
	for _, full := range slices.Sorted(maps.Keys(c.Repositories)) {
		id := c.Repositories[full]
		owner, name, _ := strings.Cut(full, "/")
		if c.Installations[owner] == 0 || !validRepo(name) || id <= 0 {
			bad("repositories: %q: %d is not <owner of an installation>/<name> with the id of a repository", full, id)
		}
		if names[id] != "" {
			bad("repositories: %s and %s have the same id", names[id], full)
		}
		names[id] = full
	}
	for _, group := range slices.Sorted(maps.Keys(c.Groups)) {
		owner, name, _ := strings.Cut(group, "/")
		if c.Installations[owner] == 0 || !groupForm.MatchString(name) {
			bad("groups: %q is not <owner of an installation>/@<name> or <owner>/*", group)
		}
		if len(c.Groups[group]) == 0 || len(c.Groups[group]) > maxRepositories {
			bad("groups: %s must list 1 to %d repositories", group, maxRepositories)
		}
		for _, repo := range c.Groups[group] {
			if !validRepo(repo) {
				bad("groups: %s: %q is not the name of a repository (without its owner)", group, repo)
			} else if c.PinnedOnly && c.Repositories[owner+"/"+repo] == 0 {
				bad("groups: %s: %s is not pinned in repositories, and pinned_only is set", group, repo)
			}
		}
	}
}

// client returns the configuration of the API client.
func (c *Config) client() (provider.HTTP, error) {
	roots, err := provider.Roots(c.CAFile)
	if err != nil {
		err = fmt.Errorf("ca_file: %w", err)
	}
	return provider.HTTP{Roots: roots, Timeout: time.Duration(c.TimeoutSeconds) * time.Second}, err
}
