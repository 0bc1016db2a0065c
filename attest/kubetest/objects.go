package kubetest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
)

var kindLine = regexp.MustCompile(`(?m)^kind: (\w+)$`)

// Apply makes the objects of a YAML text. Objects that exist already are left
// unchanged, because they were made from the same text.
func (c *Cluster) Apply(yaml string) {
	c.t.Helper()
	const core, rbac = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
	for _, object := range strings.Split(yaml, "\n---\n") {
		kind := kindLine.FindStringSubmatch(object)
		if kind == nil {
			c.t.Fatalf("no kind in %q", object)
		}
		namespace := ""
		if m := regexp.MustCompile(`(?m)^metadata: .*namespace: ([a-z0-9-]+)`).FindStringSubmatch(object); m != nil {
			namespace = m[1]
		}
		path := map[string]string{
			"Namespace": core + "/namespaces", "ServiceAccount": core + "/namespaces/" + namespace + "/serviceaccounts",
			"Role": rbac + "/namespaces/" + namespace + "/roles", "RoleBinding": rbac + "/namespaces/" + namespace + "/rolebindings",
			"ClusterRole": rbac + "/clusterroles", "ClusterRoleBinding": rbac + "/clusterrolebindings",
		}[kind[1]]
		if path == "" {
			c.t.Fatalf("the page makes a %s, which nobody applies here", kind[1])
		}
		status, out := c.As(c.admin, http.MethodPost, path, "application/yaml", object)
		if status != http.StatusCreated && status != http.StatusConflict {
			c.t.Fatalf("%s: %d %v", path, status, out["message"])
		}
	}
}

// Login returns a token of a service account for the API server, as a pod has one.
func (c *Cluster) Login(namespace, account string) string {
	c.t.Helper()
	return c.token(namespace, account, map[string]any{"expirationSeconds": 3600})
}

func (c *Cluster) token(namespace, account string, spec map[string]any) string {
	c.t.Helper()
	out := c.Do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
	})
	status, _ := out["status"].(map[string]any)
	token, _ := status["token"].(string)
	return token
}

// Review asks the API server about a token, as a resource server does.
func (c *Cluster) Review(token string, audiences ...string) (authenticated bool, status map[string]any) {
	c.t.Helper()
	out := c.Do(http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": map[string]any{"token": token, "audiences": audiences},
	})
	status, _ = out["status"].(map[string]any)
	authenticated, _ = status["authenticated"].(bool)
	return authenticated, status
}

// Used asks the API server for the user of a token, which every holder of a token may
// do.
func (c *Cluster) Used(token string) (who string, status int) {
	c.t.Helper()
	status, out := c.As(token, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "application/json",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if status != http.StatusCreated {
		return "", status
	}
	raw, _ := json.Marshal(out["status"])
	var s struct{ UserInfo struct{ Username string } }
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&s); err != nil {
		c.t.Fatal(err)
	}
	return s.UserInfo.Username, status
}

// Namespace makes a namespace for this test, with a service account for the broker and
// one for agents.
func (c *Cluster) Namespace() string {
	c.t.Helper()
	name := "t-" + strings.ToLower(rand.Text()[:10])
	c.Apply(fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ebb, namespace: %[1]s}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: worker, namespace: %[1]s}`, name))
	return name
}

// Grants gives the broker's service account of a namespace the permissions in rules, in
// YAML.
func (c *Cluster) Grants(ns, rules string) {
	c.t.Helper()
	c.Apply(fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: ebb, namespace: %[1]s}
rules: %[2]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ebb, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ebb}
subjects: [{kind: ServiceAccount, name: ebb, namespace: %[1]s}]`, ns, rules))
}

// Pod makes a pod with additional metadata and spec, and returns its UID. It never
// runs, because there is no kubelet.
func (c *Cluster) Pod(namespace, name, account string, metadata, spec map[string]any) (uid string) {
	c.t.Helper()
	meta := map[string]any{"name": name}
	maps.Copy(meta, metadata)
	body := map[string]any{"serviceAccountName": account, "containers": []any{map[string]any{"name": "tool", "image": "registry.example/tool"}}}
	maps.Copy(body, spec)
	out := c.Do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods", map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body})
	made, _ := out["metadata"].(map[string]any)
	uid, _ = made["uid"].(string)
	return uid
}

// DeletePod deletes a pod with a grace period in seconds. Without a kubelet the whole
// period passes.
func (c *Cluster) DeletePod(namespace, name string, grace int) {
	c.t.Helper()
	c.Do(http.MethodDelete, "/api/v1/namespaces/"+namespace+"/pods/"+name, map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace})
}

// Token returns a token of a service account for an audience, bound to a pod unless uid
// is "".
func (c *Cluster) Token(namespace, account, audience, pod, uid string) string {
	c.t.Helper()
	spec := map[string]any{"audiences": []string{audience}, "expirationSeconds": 600}
	if uid != "" {
		spec["boundObjectRef"] = map[string]any{"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
	}
	return c.token(namespace, account, spec)
}
