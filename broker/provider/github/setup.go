package github

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/broker/provider"
)

// maxSkew is the difference between the clocks from which a finding reports it: half of
// GitHub's tolerance.
const maxSkew = 30 * time.Second

// installation has the members of GitHub's schema installation that are used.
type installation struct {
	ID      int64 `json:"id"`
	Account struct {
		Login string `json:"login"`
	} `json:"account"`
	Permissions map[string]string `json:"permissions"`
	SuspendedAt *string           `json:"suspended_at"`
}

func (i installation) suspended() bool { return i.SuspendedAt != nil }

// granted returns the possible permissions of tokens: metadata:read is added to any other.
func (i installation) granted() map[string]string {
	out := maps.Clone(i.Permissions)
	if len(out) > 0 && out[metadata] == "" {
		out[metadata] = readLevel
	}
	return out
}

// errAbsent means that GitHub has no such object for this App.
var errAbsent = errors.New("not found")

// get makes a call as the App and decodes a 200.
func (d *Driver) get(ctx context.Context, path string, into any) (answer, error) {
	ans, err := d.asApp(ctx, http.MethodGet, path, nil)
	switch {
	case err != nil:
		return ans, err
	case ans.status == http.StatusNotFound && ans.fromGitHub():
		return ans, errAbsent
	case ans.status != http.StatusOK:
		return ans, ans.error()
	}
	if err := json.Unmarshal(ans.body, into); err != nil {
		return ans, errors.New("the response is not the JSON that GitHub documents")
	}
	return ans, nil
}

func (d *Driver) installation(ctx context.Context, id int64) (installation, error) {
	var in installation
	_, err := d.get(ctx, fmt.Sprintf("/app/installations/%d", id), &in)
	return in, err
}

// CheckSetup queries the App, its installations and its repositories, and mints nothing.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	found, goOn := d.checkApp(ctx)
	if !goOn {
		return found
	}
	for _, owner := range slices.Sorted(maps.Keys(d.cfg.Installations)) {
		found = append(found, d.checkInstallation(ctx, owner)...)
	}
	for _, full := range slices.Sorted(maps.Keys(d.cfg.Repositories)) {
		found = append(found, d.checkRepository(ctx, full)...)
	}
	return found
}

// checkApp makes the first call. It checks that GitHub can be reached, that it accepts the
// key, and that the clocks agree.
func (d *Driver) checkApp(ctx context.Context) (found []provider.Finding, goOn bool) {
	if _, _, err := d.app.jwt(); err != nil {
		return []provider.Finding{{Fatal: true, What: fmt.Sprintf("The App's key cannot be used: %v.", err), Remedy: "put a private key of the App into " + d.cfg.PrivateKeyFile}}, false
	}
	var who struct {
		Slug string `json:"slug"`
	}
	ans, err := d.get(ctx, "/app", &who)
	if ans.status == 0 {
		return []provider.Finding{{Fatal: true, What: fmt.Sprintf("GitHub's API at %s gives no answer: %v.", d.cfg.APIURL, err),
			Remedy: "check api_url, ca_file, the proxy variables and the firewall"}}, false
	}
	if skew := ans.skew(); skew.Abs() > maxSkew {
		found = append(found, provider.Finding{Fatal: ans.status == http.StatusUnauthorized,
			What:   fmt.Sprintf("The clock here differs from GitHub's by %s.", skew.Round(time.Second)),
			Remedy: "let NTP set the clock: GitHub refuses the App's JWT when it is more than a minute ahead"})
	}
	switch {
	case err == nil:
		return found, true
	case ans.status == http.StatusUnauthorized || errors.Is(err, errAbsent):
		return append(found, provider.Finding{Fatal: true, What: fmt.Sprintf("GitHub does not accept the App %s or its key (%d: %s).", d.cfg.ClientID, ans.status, ans.message()),
			Remedy: "compare client_id with the App's settings, generate a new private key there and put it into " + d.cfg.PrivateKeyFile + "; is the App deleted?"}), false
	}
	return append(found, provider.Finding{Fatal: true, What: fmt.Sprintf("GitHub's API at %s answers %d to /app: %v.", d.cfg.APIURL, ans.status, err),
		Remedy: "check that api_url is the REST API, such as https://api.github.com or https://HOST/api/v3"}), false
}

func (d *Driver) checkInstallation(ctx context.Context, owner string) []provider.Finding {
	id := d.cfg.Installations[owner]
	in, err := d.installation(ctx, id)
	if errors.Is(err, errAbsent) {
		return []provider.Finding{{Fatal: true, What: fmt.Sprintf("This App has no installation %d.", id), Remedy: d.suggest(ctx, owner)}}
	}
	if err != nil {
		return []provider.Finding{{Fatal: true, What: fmt.Sprintf("GitHub does not say what the installation at %s is: %v.", owner, err), Remedy: "try again"}}
	}
	var found []provider.Finding
	if in.Account.Login != owner {
		found = append(found, provider.Finding{Fatal: true, What: fmt.Sprintf("Installation %d belongs to %.64q and not to %s.", id, in.Account.Login, owner), Remedy: d.suggest(ctx, owner)})
	}
	if in.suspended() {
		found = append(found, provider.Finding{Fatal: true, What: fmt.Sprintf("The installation at %s is suspended: nothing is minted, and tokens from before live on when it is unsuspended.", owner),
			Remedy: fmt.Sprintf("an owner of %s unsuspends it under Settings, GitHub Apps", owner)})
	}
	if missing := lacking(in.granted(), d.cfg.Permissions); len(missing) > 0 {
		found = append(found, provider.Finding{What: fmt.Sprintf("The installation at %s lacks %s: tokens with them are refused.", owner, strings.Join(missing, " ")),
			Remedy: "grant them in the App's settings and accept them at the installation, or take them out of permissions"})
	}
	if excess := lacking(d.cfg.Permissions, in.Permissions); len(excess) > 0 {
		found = append(found, provider.Finding{What: fmt.Sprintf("The App may do more at %s than ebb ever mints: %s.", owner, strings.Join(excess, " ")),
			Remedy: "take them from the App: whoever gets its key has them"})
	}
	return found
}

// suggest returns a hint about the installation that was probably meant.
func (d *Driver) suggest(ctx context.Context, owner string) string {
	var all []installation
	if _, err := d.get(ctx, "/app/installations?per_page=100", &all); err == nil {
		for _, in := range all {
			if in.Account.Login == owner {
				return fmt.Sprintf("write installations: { %s: %d }", owner, in.ID)
			}
		}
	}
	return fmt.Sprintf("install the App at %s and put the number at the end of the installation's URL under installations", owner)
}

func (d *Driver) checkRepository(ctx context.Context, full string) []provider.Finding {
	owner, name, _ := strings.Cut(full, "/")
	var in installation
	_, err := d.get(ctx, "/repos/"+url.PathEscape(owner)+"/"+url.PathEscape(name)+"/installation", &in)
	switch {
	case err != nil:
		return []provider.Finding{{What: fmt.Sprintf("The App cannot reach the pinned repository %s: %v.", full, err),
			Remedy: "add it to the installation, or correct its name under repositories"}}
	case in.ID != d.cfg.Installations[owner]:
		return []provider.Finding{{What: fmt.Sprintf("The pinned repository %s belongs to installation %d.", full, in.ID), Remedy: "correct installations"}}
	}
	return nil
}
