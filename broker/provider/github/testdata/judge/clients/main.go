// Holds the conversations of a GitHub App with go-github and ghinstallation. Reads
// its instructions from JUDGE (JSON) and ends with "done" only if both accepted
// every answer. It is a module of its own: ebb has no use for these libraries.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v75/github"
	theirs "github.com/google/go-github/v88/github"
)

type job struct {
	URL          string `json:"url"`
	ClientID     string `json:"clientId"`
	AppID        int64  `json:"appId"`
	Key          string `json:"key"`
	Installation int64  `json:"installation"`
	Token        string `json:"token"`   // that the driver minted
	Limited      bool   `json:"limited"` // a secondary limit is next, then one call is left
}

func main() {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv("JUDGE")), &j); err != nil {
		panic(err)
	}
	steps := map[string]func(context.Context, job) error{"go-github": goGitHub, "ghinstallation": installation}
	if j.Limited {
		steps = map[string]func(context.Context, job) error{"limits": limits}
	}
	for name, step := range steps {
		if err := step(context.Background(), j); err != nil {
			fmt.Println(name+":", err)
			os.Exit(1)
		}
		fmt.Println("ok", name)
	}
	fmt.Println("done")
}

func client(j job, rt http.RoundTripper) *github.Client {
	c := github.NewClient(&http.Client{Transport: rt})
	c, err := c.WithEnterpriseURLs(j.URL+"/", j.URL+"/")
	if err != nil {
		panic(err)
	}
	// WithEnterpriseURLs adds /api/v3, which this server does not have.
	c.BaseURL.Path = strings.TrimSuffix(c.BaseURL.Path, "api/v3/")
	return c
}

func status(err error) int {
	var e *github.ErrorResponse
	if errors.As(err, &e) {
		return e.Response.StatusCode
	}
	return 0
}

// goGitHub uses and revokes the driver's token.
func goGitHub(ctx context.Context, j job) error {
	c := client(j, nil).WithAuthToken(j.Token)
	repo, _, err := c.Repositories.Get(ctx, "acme", "web")
	if err != nil || repo.GetID() != 1 {
		return fmt.Errorf("repository: %v %w", repo, err)
	}
	list, _, err := c.Apps.ListRepos(ctx, nil)
	if err != nil || list.GetTotalCount() != 1 {
		return fmt.Errorf("list: %v %w", list, err)
	}
	title := "x"
	if _, _, err := c.Issues.Create(ctx, "acme", "web", &github.IssueRequest{Title: &title}); status(err) != http.StatusForbidden {
		return fmt.Errorf("an issue was opened with a token that may not: %w", err)
	}
	if _, err := c.Apps.RevokeInstallationToken(ctx); err != nil {
		return fmt.Errorf("revoking: %w", err)
	}
	if _, _, err := c.Repositories.Get(ctx, "acme", "web"); status(err) != http.StatusUnauthorized {
		return fmt.Errorf("a revoked token is accepted: %w", err)
	}
	return nil
}

// installation is the App itself: JWT, cut-down token, use.
func installation(ctx context.Context, j job) error {
	rt, err := ghinstallation.New(http.DefaultTransport, j.AppID, j.Installation, []byte(j.Key))
	if err != nil {
		return err
	}
	rt.BaseURL = j.URL
	rt.InstallationTokenOptions = &theirs.InstallationTokenOptions{
		RepositoryIDs: []int64{2}, Permissions: &theirs.InstallationPermissions{Contents: theirs.Ptr("read")},
	}
	if _, err := rt.Token(ctx); err != nil {
		return fmt.Errorf("minting: %w", err)
	}
	p, err := rt.Permissions()
	if err != nil || p.GetContents() != "read" || p.GetMetadata() != "read" || p.GetIssues() != "" {
		return fmt.Errorf("permissions %v: %w", p, err)
	}
	c := client(j, rt)
	if repo, _, err := c.Repositories.Get(ctx, "acme", "api"); err != nil || repo.GetID() != 2 {
		return fmt.Errorf("repository: %v %w", repo, err)
	}
	if _, _, err := c.Repositories.Get(ctx, "acme", "web"); status(err) != http.StatusNotFound {
		return fmt.Errorf("another repository is reached: %w", err)
	}
	app, err := ghinstallation.NewAppsTransport(http.DefaultTransport, j.AppID, []byte(j.Key))
	if err != nil {
		return err
	}
	app.BaseURL = j.URL
	in, _, err := client(j, app).Apps.GetInstallation(ctx, j.Installation)
	if err != nil || in.GetAccount().GetLogin() != "acme" || in.SuspendedAt != nil {
		return fmt.Errorf("installation %v: %w", in, err)
	}
	return nil
}

// limits: go-github knows both kinds by their headers.
func limits(ctx context.Context, j job) error {
	c := client(j, nil).WithAuthToken(j.Token)
	_, _, err := c.Repositories.Get(ctx, "acme", "web")
	var second *github.AbuseRateLimitError
	if !errors.As(err, &second) || second.GetRetryAfter().Seconds() != 45 {
		return fmt.Errorf("no secondary limit: %w", err)
	}
	// One call is left. Clients of their own: go-github holds back what it knows to be refused.
	if _, _, err := client(j, nil).WithAuthToken(j.Token).Repositories.Get(ctx, "acme", "web"); err != nil {
		return fmt.Errorf("the last call: %w", err)
	}
	_, _, err = client(j, nil).WithAuthToken(j.Token).Repositories.Get(ctx, "acme", "web")
	var first *github.RateLimitError
	if !errors.As(err, &first) || first.Rate.Remaining != 0 {
		return fmt.Errorf("no primary limit: %w", err)
	}
	return nil
}
