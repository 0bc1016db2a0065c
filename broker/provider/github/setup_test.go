package github_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
)

func TestCheckSetup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config  func(*github.Config)
		arrange func(*rig)
		fatal   bool
		what    string // of one finding; "" = none at all
		remedy  string
	}{
		"all is well":      {},
		"nobody there":     {config: func(c *github.Config) { c.APIURL = "https://127.0.0.1:1" }, fatal: true, what: "gives no answer", remedy: "api_url"},
		"another path":     {config: func(c *github.Config) { c.APIURL += "/api/v3" }, fatal: true, what: "does not accept the App", remedy: "deleted"},
		"not trusted":      {config: func(c *github.Config) { c.CAFile = "" }, fatal: true, what: "certificate", remedy: "ca_file"},
		"key is gone":      {arrange: func(r *rig) { _ = os.Remove(r.config.PrivateKeyFile) }, fatal: true, what: "key cannot be used", remedy: "private key"},
		"key is revoked":   {arrange: func(r *rig) { r.hub.Trust() }, fatal: true, what: "does not accept the App", remedy: "generate a new private key"},
		"App is deleted":   {arrange: func(r *rig) { r.hub.Set(func(a *githubtest.App) { a.Deleted = true }) }, fatal: true, what: "does not accept the App", remedy: "deleted"},
		"clock is ahead":   {arrange: func(r *rig) { r.hub.Skew(-2 * time.Minute) }, fatal: true, what: "differs from GitHub's by 2m0s", remedy: "NTP"},
		"clock is a bit":   {arrange: func(r *rig) { r.hub.Skew(-40 * time.Second) }, what: "differs from GitHub's by 40s", remedy: "NTP"},
		"suspended":        {arrange: func(r *rig) { r.hub.Suspend(acme, true) }, fatal: true, what: "acme is suspended", remedy: "unsuspends"},
		"wrong number":     {config: func(c *github.Config) { c.Installations["acme"] = 99 }, fatal: true, what: "no installation 99", remedy: "installations: { acme: 11 }"},
		"not installed":    {arrange: func(r *rig) { r.hub.Uninstall(octo) }, fatal: true, what: "no installation 12", remedy: "install the App at octo"},
		"another's number": {config: func(c *github.Config) { c.Installations["octo"] = 11 }, fatal: true, what: `belongs to "acme" and not to octo`, remedy: "installations: { octo: 12 }"},
		"lacks": {config: func(c *github.Config) { c.Permissions["pages"] = "write"; c.Permissions["members"] = "write" },
			what: "acme lacks members:write pages:write", remedy: "grant them"},
		"may do more":             {config: func(c *github.Config) { delete(c.Permissions, "issues"); c.Permissions["contents"] = "read" }, what: "contents:write issues:write", remedy: "take them from the App"},
		"repository out of reach": {arrange: func(r *rig) { r.hub.Delete(1) }, what: "cannot reach the pinned repository acme/web", remedy: "add it"},
		"garbage":                 {arrange: func(r *rig) { r.hub.Break(githubtest.Fault{Method: "GET", Path: "/app", Kind: githubtest.Garbage}) }, fatal: true, what: "answers 200 to /app", remedy: "api_url"},
		"portal": {arrange: func(r *rig) {
			r.hub.Break(githubtest.Fault{Method: "GET", Path: "/app/installations/11", Kind: githubtest.Redirect})
		}, fatal: true, what: "does not say", remedy: "try again"},
		"hangs": {arrange: func(r *rig) { r.hub.Break(githubtest.Fault{Method: "GET", Path: "/app", Kind: githubtest.Hang}) }, fatal: true, what: "gives no answer", remedy: "firewall"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := []func(*github.Config){impatient}
			if tt.config != nil {
				change = append(change, tt.config)
			}
			r := newRig(t, change...)
			if tt.arrange != nil {
				tt.arrange(r)
			}
			found := r.CheckSetup(t.Context())
			if tt.what == "" && len(found) != 0 {
				t.Errorf("%+v", found)
			}
			hit := tt.what == ""
			for _, f := range found {
				if strings.Contains(f.What, tt.what) && strings.Contains(f.Remedy, tt.remedy) && f.Fatal == tt.fatal {
					hit = true
				}
				if strings.Contains(f.What+f.Remedy, "PRIVATE") || strings.Contains(f.What, "eyJ") {
					t.Errorf("a finding holds a secret: %+v", f)
				}
			}
			if !hit {
				t.Errorf("nothing says %q (fatal %v): %+v", tt.what, tt.fatal, found)
			}
			if len(r.mints()) != 0 {
				t.Error("a check minted")
			}
		})
	}
}
