package github_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
)

// judged is a driver with a real clock, whose GitHub other people's clients judge.
func judged(t *testing.T) (r *rig, job func(limited bool) string) {
	t.Helper()
	r = newRig(t, func(c *github.Config) { c.Now = time.Now })
	r.clock.Set(time.Now())
	key, err := os.ReadFile(r.config.PrivateKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return r, func(limited bool) string {
		_, c := r.mint(t, "gh:acme/web/contents:read gh:acme/web/issues:read")
		b, err := json.Marshal(map[string]any{
			"url": r.hub.URL, "clientId": r.config.ClientID, "appId": 4711, "key": string(key), "installation": acme, "token": c.Token.Reveal(), "limited": limited,
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

func run(t *testing.T, cmd *exec.Cmd, env ...string) {
	t.Helper()
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "done") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// TestOctokit lets GitHub's own @octokit/auth-app judge the simulator and the
// driver's tokens.
func TestOctokit(t *testing.T) {
	t.Parallel()
	dir := counterpart.Need(t, "EBB_TEST_NODE_OCTOKIT")
	r, job := judged(t)
	run(t, exec.CommandContext(t.Context(), "node", "testdata/judge/judge.mjs"), "JUDGE="+job(false), "JUDGE_MODULES="+dir, "NODE_EXTRA_CA_CERTS="+r.config.CAFile)
}

// TestGoClients lets go-github and ghinstallation judge them.
func TestGoClients(t *testing.T) {
	t.Parallel()
	program := counterpart.Need(t, "EBB_TEST_GITHUB_CLIENTS")
	r, job := judged(t)
	for _, format := range []string{githubtest.Opaque, githubtest.Stateless} {
		r.hub.Format(format, 0)
		run(t, exec.CommandContext(t.Context(), program), "JUDGE="+job(false), "SSL_CERT_FILE="+r.config.CAFile, "SSL_CERT_DIR=/nonexistent")
	}
	limited := job(true)
	r.hub.Secondary(githubtest.Limit{Status: 403, RetryAfter: "45"})
	r.hub.Budget(1, r.clock.Now().Add(time.Hour))
	run(t, exec.CommandContext(t.Context(), program), "JUDGE="+limited, "SSL_CERT_FILE="+r.config.CAFile, "SSL_CERT_DIR=/nonexistent")
}
