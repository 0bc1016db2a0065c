package main

import (
	"crypto/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/kubetest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

const kustomizeBase = "../../docs/deploy/kubernetes"

// manifestKinds are the objects of the base, in the order of kubectl.
var manifestKinds = []string{"ServiceAccount", "ConfigMap", "Service", "PersistentVolumeClaim", "Deployment", "PodDisruptionBudget", "NetworkPolicy"}

// TestManifests builds the base as `kubectl apply -k` does.
func TestManifests(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(counterpart.Program(t, "kubectl"), "kustomize", kustomizeBase).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var kinds []string
	for _, m := range regexp.MustCompile(`(?m)^kind: (.*)$`).FindAllStringSubmatch(string(out), -1) {
		kinds = append(kinds, m[1])
	}
	if !slices.Equal(kinds, manifestKinds) {
		t.Errorf("kinds %v, want %v", kinds, manifestKinds)
	}
	for _, line := range []string{"replicas: 2", "enableServiceLinks: false", "automountServiceAccountToken: false", "readOnlyRootFilesystem: true", "defaultMode: 288"} {
		if !strings.Contains(string(out), line+"\n") {
			t.Errorf("no %s in\n%s", line, out)
		}
	}
	if !regexp.MustCompile(`(?m)^  podSelector:\n    matchLabels:\n      app.kubernetes.io/name: ebb$`).Match(out) {
		t.Error("the NetworkPolicy also selects pods that are not of ebb")
	}
	if strings.Contains(string(out), "secretKeyRef") {
		t.Error("a secret is in a variable and not in a file")
	}
}

// TestRealManifests applies the base to a real API server, in a namespace that
// enforces the restricted Pod Security Standard and warns of each departure
// from it. No node runs the pods. The test leaves the namespace behind, because that
// server has no controller to delete it.
func TestRealManifests(t *testing.T) {
	t.Parallel()
	c := kubetest.Real(t)
	namespace := "ebb-" + strings.ToLower(rand.Text()[:10])
	c.Do(http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace, "labels": map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted",
	}}})
	token, err := os.ReadFile(filepath.Join(os.Getenv("EBB_TEST_KUBE"), "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	config := kubetest.File(t, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: `+namespace+`}}],
clusters: [{name: c, cluster: {server: "`+c.Server+`", certificate-authority: "`+c.CAFile+`"}}], users: [{name: u, user: {token: "`+strings.TrimSpace(string(token))+`"}}]}`)
	apply := func(stdin string, args ...string) string {
		cmd := exec.Command(counterpart.Program(t, "kubectl"), append([]string{"--kubeconfig", config, "apply", "--validate=strict"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	out := apply("", "-k", kustomizeBase)
	if got := strings.Count(out, " created\n"); got != len(manifestKinds) || strings.Contains(out, "Warning") {
		t.Errorf("%d objects, want %d without a warning:\n%s", got, len(manifestKinds), out)
	}
	lax := `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "lax"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}`
	if out := apply(lax, "-f", "-"); !strings.Contains(out, "Warning: would violate PodSecurity") {
		t.Errorf("the server does not warn:\n%s", out)
	}
}
