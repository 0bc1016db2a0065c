package kubernetes_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/ebb-broker/ebb/attest/kubetest"
	"github.com/ebb-broker/ebb/broker/provider/kubernetes"
)

// blocks are the YAML blocks of the page that operators read.
func blocks(t *testing.T) (objects, config string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/providers/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(found) != 2 {
		t.Fatalf("the page has %d blocks of YAML, not the objects and the configuration", len(found))
	}
	return string(found[0][1]), string(found[1][1])
}

// documented is a driver whose rights are those of the page, and nothing else.
func documented(t *testing.T, c *kubetest.Cluster) *kubernetes.Driver {
	t.Helper()
	objects, _ := blocks(t)
	c.Apply(objects)
	return driver(t, kubernetes.Config{
		Server: c.Server, CAFile: c.CAFile, TokenFile: kubetest.File(t, c.Login("ebb", "ebb")),
		Grants: map[string]map[string]kubernetes.Account{"shop": {
			"deploy": {Namespace: "agents", ServiceAccount: "shop-deployer"},
			"call":   {Namespace: "agents", ServiceAccount: "shop-deployer", Audiences: []string{"https://shop.example.com"}},
		}},
	})
}

// inside is a driver for one namespace.
func inside(t *testing.T, c *kubetest.Cluster, ns string) *kubernetes.Driver {
	t.Helper()
	return driver(t, kubernetes.Config{
		Server: c.Server, CAFile: c.CAFile, TokenFile: kubetest.File(t, c.Login(ns, "ebb")),
		Grants: map[string]map[string]kubernetes.Account{"shop": {"deploy": {Namespace: ns, ServiceAccount: "worker"}}},
	})
}
