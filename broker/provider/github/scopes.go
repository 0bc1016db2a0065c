package github

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// place is where a permission applies.
type place uint8

const (
	inRepository   place = iota + 1
	inOrganization       // to the whole organization, regardless of the token's repositories
	elsewhere            // to a user or an enterprise: installation tokens cannot use it
)

// permission is a row of the table.
type permission struct {
	where  place
	levels []string // in ascending order; each level includes those before it
}

var (
	readOnly       = []string{"read"}
	writeOnly      = []string{"write"}
	readWrite      = []string{"read", "write"}
	readWriteAdmin = []string{"read", "write", "admin"}
)

// permissions is the schema app-permissions of GitHub's OpenAPI description; a test compares the
// two. Permissions that are missing here are refused.
var permissions = map[string]permission{
	"actions":                      {inRepository, readWrite},
	"administration":               {inRepository, readWrite},
	"artifact_metadata":            {inRepository, readWrite},
	"attestations":                 {inRepository, readWrite},
	"checks":                       {inRepository, readWrite},
	"code_quality":                 {inRepository, readWrite},
	"codespaces":                   {inRepository, readWrite},
	"contents":                     {inRepository, readWrite},
	"dependabot_secrets":           {inRepository, readWrite},
	"deployments":                  {inRepository, readWrite},
	"discussions":                  {inRepository, readWrite},
	"environments":                 {inRepository, readWrite},
	"issues":                       {inRepository, readWrite},
	"merge_queues":                 {inRepository, readWrite},
	"metadata":                     {inRepository, readWrite},
	"packages":                     {inRepository, readWrite},
	"pages":                        {inRepository, readWrite},
	"pull_requests":                {inRepository, readWrite},
	"repository_custom_properties": {inRepository, readWrite},
	"repository_hooks":             {inRepository, readWrite},
	"repository_projects":          {inRepository, readWriteAdmin},
	"secret_scanning_alerts":       {inRepository, readWrite},
	"secrets":                      {inRepository, readWrite},
	"security_events":              {inRepository, readWrite},
	"single_file":                  {inRepository, readWrite},
	"statuses":                     {inRepository, readWrite},
	"vulnerability_alerts":         {inRepository, readWrite},
	"workflows":                    {inRepository, writeOnly},

	"custom_properties_for_organizations":         {inOrganization, readWrite},
	"members":                                     {inOrganization, readWrite},
	"organization_administration":                 {inOrganization, readWrite},
	"organization_announcement_banners":           {inOrganization, readWrite},
	"organization_copilot_agent_settings":         {inOrganization, readWrite},
	"organization_copilot_seat_management":        {inOrganization, readWrite},
	"organization_custom_org_roles":               {inOrganization, readWrite},
	"organization_custom_properties":              {inOrganization, readWriteAdmin},
	"organization_custom_roles":                   {inOrganization, readWrite},
	"organization_events":                         {inOrganization, readOnly},
	"organization_hooks":                          {inOrganization, readWrite},
	"organization_packages":                       {inOrganization, readWrite},
	"organization_personal_access_token_requests": {inOrganization, readWrite},
	"organization_personal_access_tokens":         {inOrganization, readWrite},
	"organization_plan":                           {inOrganization, readOnly},
	"organization_projects":                       {inOrganization, readWriteAdmin},
	"organization_secrets":                        {inOrganization, readWrite},
	"organization_self_hosted_runners":            {inOrganization, readWrite},
	"organization_user_blocking":                  {inOrganization, readWrite},

	"email_addresses":    {elsewhere, readWrite},
	"followers":          {elsewhere, readWrite},
	"git_ssh_keys":       {elsewhere, readWrite},
	"gpg_keys":           {elsewhere, readWrite},
	"interaction_limits": {elsewhere, readWrite},
	"profile":            {elsewhere, writeOnly},
	"starring":           {elsewhere, readWrite},
	"enterprise_custom_properties_for_organizations": {elsewhere, readWriteAdmin},
}

// metadata:read is added to every permission of a repository.
const (
	metadata   = "metadata"
	contents   = "contents"
	readLevel  = "read"
	writeLevel = "write"
)

// atLeast reports whether level have includes level want. Unknown levels include nothing.
func atLeast(have, want string) bool {
	h, w := slices.Index(readWriteAdmin, have), slices.Index(readWriteAdmin, want)
	return w >= 0 && h >= w
}

// lacking returns what of want is not in have, as "permission:level", sorted.
func lacking(have, want map[string]string) []string {
	var out []string
	for name, level := range want {
		if !atLeast(have[name], level) {
			out = append(out, name+":"+level)
		}
	}
	slices.Sort(out)
	return out
}

// maxRepositories is GitHub's limit for the repositories of one token.
const maxRepositories = 500

// ask is the one token that can do what scopes allow. It can do exactly that, unless refs limits
// its pushes: then egress limits them (Judge).
type ask struct {
	owner        string
	repositories []string                     // owner/name, sorted, at least one
	permissions  map[string]string            // of the token: permission -> level, at least one
	allowed      map[string]map[string]string // of the scopes: owner/name -> permission -> level
	organization map[string]string            // of the scopes: permission of the organization -> level
	refs         map[string]bool              // owner/name of repositories with a scope for refs
	words        []string                     // repositories and groups as the scopes name them, which errors may show to the caller
}

// asking collects scopes for an ask.
type asking struct {
	cfg          *Config
	owner        string
	words        []string
	repositories map[string]map[string]string // owner/name -> permission -> level
	organization map[string]string            // permission -> level
	refs         map[string]bool              // owner/name
}

// read converts scopes to the one ask that expresses them exactly. Its errors wrap
// ErrUnsupported.
func (c *Config) read(set scopes.Set) (ask, error) {
	g := asking{cfg: c, repositories: map[string]map[string]string{}, organization: map[string]string{}, refs: map[string]bool{}}
	for _, s := range set.Scopes() {
		if err := g.add(s); err != nil {
			return ask{}, fmt.Errorf("%w: %s: %w", provider.ErrUnsupported, s, err)
		}
	}
	a, err := g.whole()
	if err != nil {
		return ask{}, fmt.Errorf("%w: %w", provider.ErrUnsupported, err)
	}
	return a, nil
}

func (g *asking) add(s scopes.Scope) error {
	at := s.Segments()
	owner, inside := strings.CutPrefix(at[0], "@")
	ref := !inside && isRef(at)
	where, permission, level := inRepository, at[len(at)-1], s.Action()
	switch {
	case ref:
		permission, level = contents, ""
		if err := checkRef(at[3:], s.Action()); err != nil {
			return err
		}
	case inside && len(at) == 2:
		where = inOrganization
	case inside || len(at) != 3:
		return errors.New("write <owner>/<repository>/<permission>, <owner>/<repository>/refs/heads/<branch>, or @<owner>/<permission> for one of an organization")
	}
	if g.cfg.Installations[owner] == 0 {
		return errors.New("there is no installation for this owner; owners are spelled as GitHub spells them")
	}
	if g.owner != "" && g.owner != owner {
		return fmt.Errorf("a token belongs to one owner: request those of %s and %s separately", g.owner, owner)
	}
	g.owner = owner
	if err := g.cfg.allows(where, permission, cmp.Or(level, writeLevel)); err != nil {
		return err
	}
	if where == inOrganization {
		raise(g.organization, permission, level)
		return nil
	}
	return g.addRepositories(owner, at[1], permission, level)
}

// addRepositories adds a permission, or with level "" a scope for refs, of the repositories that a
// segment stands for.
func (g *asking) addRepositories(owner, segment, permission, level string) error {
	if word := owner + "/" + segment; !slices.Contains(g.words, word) {
		g.words = append(g.words, word)
	}
	names, err := g.cfg.expand(owner, segment)
	if err != nil {
		return err
	}
	for _, name := range names {
		full := owner + "/" + name
		if g.cfg.PinnedOnly && g.cfg.Repositories[full] == 0 {
			return errors.New("the configuration allows only pinned repositories, and this one is not pinned")
		}
		if g.repositories[full] == nil {
			g.repositories[full] = map[string]string{}
		}
		if level == "" {
			g.refs[full] = true
		} else {
			raise(g.repositories[full], permission, level)
		}
	}
	return nil
}

// allows returns an error unless a permission exists there with this level and is within the
// configured ones.
func (c *Config) allows(where place, name, level string) error {
	p, known := permissions[name]
	switch {
	case !known:
		return errors.New("GitHub has no such permission")
	case p.where == elsewhere:
		return errors.New("the permission belongs to a user or an enterprise, where installation tokens do not act")
	case p.where == inOrganization && where != inOrganization:
		return fmt.Errorf("the permission is one of the organization: write @<owner>/%s", name)
	case p.where != where:
		return fmt.Errorf("the permission is one of a repository: write <owner>/<repository>/%s", name)
	case !slices.Contains(p.levels, level):
		return fmt.Errorf("the permission has the levels %s", strings.Join(p.levels, ", "))
	case !atLeast(c.Permissions[name], level):
		return errors.New("the configuration of ebb does not list this permission with this level")
	}
	return nil
}

// expand returns the repository names that a segment stands for.
func (c *Config) expand(owner, segment string) ([]string, error) {
	if group, is := c.Groups[owner+"/"+segment]; is {
		return group, nil
	}
	switch {
	case strings.HasPrefix(segment, "@"):
		return nil, errors.New("no such group is configured")
	case segment == scopes.Any || segment == scopes.Rest:
		return nil, errors.New("name the repositories, or a configured group: GitHub has no token for all matches of a pattern")
	case !validRepo(segment):
		return nil, errors.New("a repository cannot have this name")
	}
	return []string{segment}, nil
}

// whole returns the ask, when one token can have all that was added and nothing else.
func (g *asking) whole() (ask, error) {
	names := slices.Sorted(maps.Keys(g.repositories))
	switch {
	case len(names) == 0 && len(g.organization) == 0:
		return ask{}, errors.New("no scope")
	case len(names) == 0:
		return ask{}, fmt.Errorf("a token without repositories is valid for all of them: request a repository too, such as %s/<repository>/metadata:read", g.owner)
	case len(names) > maxRepositories:
		return ask{}, fmt.Errorf("a token names at most %d repositories", maxRepositories)
	}
	first := g.token(names[0])
	for _, name := range names[1:] {
		if !maps.Equal(first, g.token(name)) {
			return ask{}, fmt.Errorf("a token has the same permissions for all of its repositories, and %s and %s differ: request them separately", names[0], name)
		}
	}
	maps.Copy(first, g.organization)
	return ask{owner: g.owner, repositories: names, permissions: first, allowed: g.repositories, organization: g.organization, refs: g.refs, words: g.words}, nil
}

// token returns the permissions that a token needs in a repository.
func (g *asking) token(name string) map[string]string {
	out := maps.Clone(g.repositories[name])
	if g.refs[name] {
		raise(out, contents, writeLevel)
	}
	return out
}

// raise sets a level unless the present one is higher.
func raise(to map[string]string, name, level string) {
	if !atLeast(to[name], level) {
		to[name] = level
	}
}

// undone holds the permissions whose effects are known to be reversible or irreversible. For
// others the answer is unknown.
var undone = map[string]provider.Effect{
	"contents":           {Writes: provider.Yes, Reversible: provider.Yes, Sentence: "Pushes can be reverted; what leaked by them cannot."},
	"statuses":           {Writes: provider.Yes, Reversible: provider.Yes, Sentence: "A status can be set again."},
	"checks":             {Writes: provider.Yes, Reversible: provider.Yes, Sentence: "A check can be run again."},
	"issues":             {Writes: provider.Yes, Reversible: provider.No, Sentence: "Edits can be undone; deleted comments cannot."},
	"pull_requests":      {Writes: provider.Yes, Reversible: provider.No, Sentence: "Edits can be undone; deleted comments cannot."},
	"workflows":          {Writes: provider.Yes, Reversible: provider.No, Sentence: "Workflows run code, which cannot be undone."},
	"actions":            {Writes: provider.Yes, Reversible: provider.No, Sentence: "Workflows run code, which cannot be undone."},
	"deployments":        {Writes: provider.Yes, Reversible: provider.No, Sentence: "What was deployed has run."},
	"administration":     {Writes: provider.Yes, Reversible: provider.No, Sentence: "A repository can be deleted with it."},
	"secrets":            {Writes: provider.Yes, Reversible: provider.No, Sentence: "Replaced secrets do not come back."},
	"dependabot_secrets": {Writes: provider.Yes, Reversible: provider.No, Sentence: "Replaced secrets do not come back."},
	"packages":           {Writes: provider.Yes, Reversible: provider.No, Sentence: "What was published may be in use already."},
}

// Describe implements provider.Describer.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	one, err := scopes.NewSet(s)
	if err != nil {
		return provider.Effect{}, err
	}
	if _, err := d.cfg.read(one); err != nil {
		return provider.Effect{}, err
	}
	if s.Action() == readLevel {
		return provider.Reading(), nil
	}
	at := s.Segments()
	if isRef(at) {
		return refEffect(s.Action()), nil
	}
	if e, known := undone[at[len(at)-1]]; known {
		return e, nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.Unknown, Sentence: "ebb does not know whether this can be undone."}, nil
}
