package github

import "slices"

// place is where a permission counts.
type place uint8

const (
	inRepository   place = iota + 1
	inOrganization       // of the whole organization, whatever the token's repositories are
	elsewhere            // of a user or an enterprise: an installation token does not act there
)

// permission is a row of the table.
type permission struct {
	where  place
	levels []string // from less to more; each includes those before it
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

// metadata:read comes with every permission of a repository, asked for or not.
const (
	metadata  = "metadata"
	readLevel = "read"
)

// atLeast reports whether level have includes level want. Unknown levels include
// nothing.
func atLeast(have, want string) bool {
	h, w := slices.Index(readWriteAdmin, have), slices.Index(readWriteAdmin, want)
	return w >= 0 && h >= w
}

// lacking lists, sorted, what of want is not in have, as "permission:level".
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
