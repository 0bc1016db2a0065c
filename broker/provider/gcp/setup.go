package gcp

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

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
