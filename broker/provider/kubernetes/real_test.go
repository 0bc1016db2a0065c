package kubernetes_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/kubetest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/kubernetes"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/secret"
)

func TestRealConformance(t *testing.T) {
	t.Parallel()
	c := kubetest.Real(t)
	providertest.Run(t, providertest.Subject{
		Driver: documented(t, c), Grant: func() provider.Grant { return grant("deploy", time.Minute) }, Unsupported: "kube:shop:drop",
		Alive: func(_ context.Context, cred provider.Credential) (bool, error) {
			_, status := c.Used(cred.Token.Reveal())
			return status == http.StatusCreated, nil
		},
	})
}

// TestRealRightsOfThePageSuffice: the objects of the documentation page are sufficient for
// every call of the driver, and CheckSetup has no finding with them.
func TestRealRightsOfThePageSuffice(t *testing.T) {
	t.Parallel()
	c := kubetest.Real(t)
	d := documented(t, c)
	if found := d.CheckSetup(t.Context()); len(found) != 0 {
		t.Errorf("CheckSetup: %+v", found)
	}
	_, config := blocks(t)
	for _, line := range []string{"kind: kubernetes", "deploy: {namespace: agents, service_account: shop-deployer}"} {
		if !strings.Contains(config, line) {
			t.Errorf("the page's configuration has no %q", line)
		}
	}
	g := grant("deploy", time.Minute)
	cred := mint(t, d, g)
	if alive, err := d.Probe(t.Context(), targetOf(g, cred.Handle)); err != nil || !alive {
		t.Errorf("Probe: %v %v", alive, err)
	}
	if !slices.Contains(listed(t, d, instance), g.LeaseID) {
		t.Error("List does not show the lease")
	}
	if err := d.Revoke(t.Context(), targetOf(g, cred.Handle)); err != nil {
		t.Error(err)
	}
	// The token has the rights that RBAC gives its service account, which here are none.
	if status, _ := c.As(mint(t, d, grant("deploy", time.Minute)).Token.Reveal(), http.MethodGet, "/api/v1/namespaces/agents/secrets", "", ""); status != http.StatusForbidden {
		t.Errorf("the agent's token reads Secrets: %d", status)
	}
}

func listed(t *testing.T, d *kubernetes.Driver, of string) (leases []string) {
	t.Helper()
	if err := d.List(t.Context(), of, func(x provider.Target) error {
		leases = append(leases, x.LeaseID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return leases
}

// TestRealTokenIsWhatWasAsked: the claims of the token, the API server's review of it, and the
// driver's result agree.
func TestRealTokenIsWhatWasAsked(t *testing.T) {
	t.Parallel()
	c := kubetest.Real(t)
	d := documented(t, c)
	const own, shop, who = "https://kubernetes.default.svc", "https://shop.example.com", "system:serviceaccount:agents:shop-deployer"
	for _, tt := range []struct {
		action, aud string
		life, lives time.Duration
	}{
		{"deploy", own, time.Minute, 10 * time.Minute}, {"call", shop, 30 * time.Minute, 30 * time.Minute},
	} {
		g := grant(tt.action, tt.life)
		cred := mint(t, d, g)
		token := cred.Token.Reveal()
		raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		var claims struct {
			Aud []string `json:"aud"`
			Exp int64    `json:"exp"`
			K8s struct {
				Secret struct{ Name string } `json:"secret"`
			} `json:"kubernetes.io"`
		}
		if err := json.Unmarshal(raw, &claims); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(claims.Aud, []string{tt.aud}) || claims.K8s.Secret.Name != provider.Name(instance, g.LeaseID) {
			t.Errorf("%s: the token says %+v", tt.action, claims)
		}
		exp := time.Unix(claims.Exp, 0)
		if off := exp.Sub(g.IssuedAt) - tt.lives; off.Abs() > 10*time.Second || cred.ExpiresAt.After(g.ExpiresAt) || g.ExpiresAt.Sub(cred.ExpiresAt) > time.Second || cred.DiesAt.Before(exp) || cred.DiesAt.After(exp.Add(2*time.Minute)) {
			t.Errorf("%s: exp %s, lease %s, dies %s", tt.action, exp.Sub(g.IssuedAt), cred.ExpiresAt.Sub(g.IssuedAt), cred.DiesAt.Sub(g.IssuedAt))
		}
		if ok, status := c.Review(token, tt.aud); !ok || fmt.Sprint(status["audiences"]) != "["+tt.aud+"]" {
			t.Errorf("%s: TokenReview for %s: %v", tt.action, tt.aud, status)
		}
		if ok, status := c.Review(token, "https://another.example.com"); ok {
			t.Errorf("%s: TokenReview for another audience: %v", tt.action, status)
		}
		user, status := c.Used(token)
		if usable := tt.aud == own; usable != (status == http.StatusCreated) || usable && user != who {
			t.Errorf("%s: at the API server it is %q (%d)", tt.action, user, status)
		}
	}
}

// TestRealRevocationIsWithinTheBound: the server refuses a recently used token within the
// bound, but not at once. Until the bound has passed, the driver does not report the token as
// dead.
func TestRealRevocationIsWithinTheBound(t *testing.T) {
	t.Parallel()
	c := kubetest.Real(t)
	d := documented(t, c)
	g, other := grant("deploy", time.Hour), grant("deploy", time.Hour)
	cred, stays := mint(t, d, g), mint(t, d, other)
	token := cred.Token.Reveal()
	if _, status := c.Used(token); status != http.StatusCreated {
		t.Fatalf("a new token: %d", status)
	}
	if ok, why := c.Review(token); !ok {
		t.Fatalf("a new token: %v", why)
	}
	x := targetOf(g, cred.Handle)
	if err := d.Revoke(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	x.AcceptedAt = time.Now()
	x.Now = x.AcceptedAt
	if alive, err := d.Probe(t.Context(), x); !alive || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a probe right after says %v, %v", alive, err)
	}
	bound := d.Traits().Revocability.Bound
	refused := func(what string, accepted func() bool) {
		for accepted() {
			if time.Since(x.AcceptedAt) > bound {
				t.Fatalf("%s is still accepted %s after its Secret was deleted; the driver claims %s", what, time.Since(x.AcceptedAt), bound)
			}
			time.Sleep(100 * time.Millisecond) // what is awaited is a cache of a real server
		}
		t.Logf("%s refused %s after its Secret was deleted", what, time.Since(x.AcceptedAt).Round(100*time.Millisecond))
	}
	refused("the token in use", func() bool { _, status := c.Used(token); return status != http.StatusUnauthorized })
	refused("TokenReview", func() bool { ok, _ := c.Review(token); return ok })
	x.Now = x.AcceptedAt.Add(bound)
	if alive, err := d.Probe(t.Context(), x); alive || err != nil {
		t.Errorf("a probe after the bound says %v, %v", alive, err)
	}
	if _, status := c.Used(stays.Token.Reveal()); status != http.StatusCreated {
		t.Errorf("the token of another lease: %d", status)
	}
	if err := d.Revoke(t.Context(), x); err != nil {
		t.Errorf("a second revocation: %v", err)
	}
}

// TestRealSweep: the sweep finds Secrets that a crash left by name and by list, and only those
// of this instance.
func TestRealSweep(t *testing.T) {
	t.Parallel()
	c := kubetest.Real(t)
	ns := c.Namespace()
	c.Grants(ns, `[{apiGroups: [""], resources: [secrets], verbs: [create, get, list, delete]}, {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [worker], verbs: [create]}]`)
	d := inside(t, c, ns)
	const elsewhere = "ffffffff"
	var mine []string
	for range 3 {
		g := grant("deploy", time.Minute)
		mint(t, d, g)
		mine = append(mine, g.LeaseID)
	}
	theirs := grant("deploy", time.Minute)
	theirs.Instance = elsewhere
	mint(t, d, theirs)
	// A Secret that another client made with ebb's labels does not belong to a lease.
	c.Do(http.MethodPost, "/api/v1/namespaces/"+ns+"/secrets", map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
		"name": "somebody", "labels": map[string]string{"app.kubernetes.io/managed-by": "ebb", "ebb/instance": instance}}})
	got := listed(t, d, instance)
	slices.Sort(got)
	slices.Sort(mine)
	if !slices.Equal(got, mine) {
		t.Errorf("List = %v, want %v", got, mine)
	}
	// An intent has no handle: the name alone finds it.
	x := targetOf(grant("deploy", time.Minute), secret.Secret{})
	x.LeaseID = mine[0]
	if err := d.Revoke(t.Context(), x); err != nil {
		t.Error(err)
	}
	err := d.List(t.Context(), instance, func(x provider.Target) error { return d.Revoke(t.Context(), x) })
	if err != nil || len(listed(t, d, instance)) != 0 || len(listed(t, d, elsewhere)) != 1 {
		t.Errorf("after the sweep: %v, mine %v, theirs %v", err, listed(t, d, instance), listed(t, d, elsewhere))
	}
}

// TestRealSecretsThatAreInTheWay: a finalizer keeps the Secret, and so the token, so the
// revocation fails. ebb does not delete another Secret of the same name.
func TestRealSecretsThatAreInTheWay(t *testing.T) {
	t.Parallel()
	c := kubetest.Real(t)
	ns := c.Namespace()
	c.Grants(ns, `[{apiGroups: [""], resources: [secrets], verbs: [create, get, list, delete]}, {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [worker], verbs: [create]}]`)
	d := inside(t, c, ns)
	g := grant("deploy", time.Minute)
	cred := mint(t, d, g)
	path := "/api/v1/namespaces/" + ns + "/secrets/" + provider.Name(instance, g.LeaseID)
	hold := func(by ...string) {
		c.Do(http.MethodPatch, path, map[string]any{"metadata": map[string]any{"finalizers": by}})
	}
	hold("example.com/hold")
	if err := d.Revoke(t.Context(), targetOf(g, cred.Handle)); err == nil || !strings.Contains(err.Error(), "finalizer") {
		t.Errorf("Revoke with a finalizer: %v", err)
	}
	if alive, err := d.Probe(t.Context(), revoked(targetOf(g, cred.Handle))); err != nil || !alive {
		t.Errorf("Probe with a finalizer: %v %v", alive, err)
	}
	hold()
	if err := d.Revoke(t.Context(), targetOf(g, cred.Handle)); err != nil {
		t.Errorf("Revoke without it: %v", err)
	}
	c.Do(http.MethodPost, "/api/v1/namespaces/"+ns+"/secrets", map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": provider.Name(instance, g.LeaseID)}})
	if err := d.Revoke(t.Context(), targetOf(g, cred.Handle)); err != nil {
		t.Errorf("Revoke where another Secret has the name: %v", err)
	}
	c.Do(http.MethodGet, path, nil) // it is still there
}

// TestRealAccountIsGone: an administrator deletes the service account. The driver then mints
// no token and leaves no Secret.
func TestRealAccountIsGone(t *testing.T) {
	t.Parallel()
	c := kubetest.Real(t)
	ns := c.Namespace()
	c.Grants(ns, `[{apiGroups: [""], resources: [secrets], verbs: [create, get, list, delete]}, {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [worker], verbs: [create]}]`)
	d := inside(t, c, ns)
	c.Do(http.MethodDelete, "/api/v1/namespaces/"+ns+"/serviceaccounts/worker", nil)
	if _, err := d.Mint(t.Context(), grant("deploy", time.Minute)); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("Mint: %v", err)
	}
	if left := listed(t, d, instance); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestRealFindings: each missing or excessive permission gives a finding with a remedy. A mint
// that fails for a missing permission leaves no Secret.
func TestRealFindings(t *testing.T) {
	t.Parallel()
	c := kubetest.Real(t)
	const secrets, tokens = `{apiGroups: [""], resources: [secrets], verbs: [%s]}`, `{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [worker], verbs: [create]}`
	all := fmt.Sprintf(secrets, "create, get, list, delete")
	for name, tt := range map[string]struct {
		rules string
		fatal bool
		says  []string
		mints bool
	}{
		"nothing":       {"[]", true, []string{"create, get, list, delete Secrets", "make tokens of service account"}, false},
		"no tokens":     {"[" + all + "]", true, []string{"make tokens of service account", "--resource-name=worker"}, false},
		"no delete":     {"[" + fmt.Sprintf(secrets, "create, get, list") + ", " + tokens + "]", true, []string{"may not delete Secrets"}, true},
		"no list":       {"[" + fmt.Sprintf(secrets, "create, get, delete") + ", " + tokens + "]", true, []string{"may not list Secrets"}, true},
		"no secrets":    {"[" + tokens + "]", true, []string{"create, get, list, delete Secrets"}, false},
		"every account": {"[" + all + `, {apiGroups: [""], resources: [serviceaccounts/token], verbs: [create]}]`, false, []string{"every service account", "resourceNames: worker"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := c.For(t)
			ns := c.Namespace()
			c.Grants(ns, tt.rules)
			d := inside(t, c, ns)
			found := d.CheckSetup(t.Context())
			text, fatal := "", false
			for _, f := range found {
				text, fatal = text+f.What+" "+f.Remedy+"\n", fatal || f.Fatal
			}
			for _, want := range tt.says {
				if !strings.Contains(text, want) {
					t.Errorf("no finding says %q:\n%s", want, text)
				}
			}
			if fatal != tt.fatal {
				t.Errorf("fatal = %v:\n%s", fatal, text)
			}
			_, err := d.Mint(t.Context(), grant("deploy", time.Minute))
			if tt.mints != (err == nil) || err != nil && !errors.Is(err, provider.ErrRefused) {
				t.Errorf("Mint: %v", err)
			}
			if out := c.Do(http.MethodGet, "/api/v1/namespaces/"+ns+"/secrets", nil); !tt.mints && len(out["items"].([]any)) != 0 { //nolint:forcetypeassert // a list
				t.Errorf("left behind: %v", out["items"])
			}
		})
	}
}
