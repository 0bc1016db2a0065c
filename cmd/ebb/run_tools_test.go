package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// wheel is a Python package, and module an npm package, of one file each.
var (
	wheel = func() []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, f := range [][2]string{
			{"shopkit.py", "print('shopkit is here')\n"}, {"shopkit-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: shopkit\nVersion: 1.0\n"},
			{"shopkit-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}, {"shopkit-1.0.dist-info/RECORD", "shopkit.py,,\nshopkit-1.0.dist-info/METADATA,,\nshopkit-1.0.dist-info/WHEEL,,\nshopkit-1.0.dist-info/RECORD,,\n"},
		} {
			w, _ := z.Create(f[0])
			_, _ = w.Write([]byte(f[1]))
		}
		_ = z.Close()
		return b.Bytes()
	}()
	module = func() []byte {
		var b bytes.Buffer
		g := gzip.NewWriter(&b)
		w := tar.NewWriter(g)
		for _, f := range [][2]string{{"package/package.json", `{"name":"@acme/tool","version":"1.2.3","main":"index.js"}`}, {"package/index.js", "module.exports = 'tool is here'\n"}} {
			_ = w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))})
			_, _ = w.Write([]byte(f[1]))
		}
		_, _ = w.Close(), g.Close()
		return b.Bytes()
	}()
)

// registry serves an npm registry, a Python package index and a Kubernetes API,
// all of which require the secret.
func registry(w http.ResponseWriter, r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	bearer := r.Header.Get("Authorization") == "Bearer "+runCanary
	kind, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if kind != "pypi" {
		w.Header().Set("Content-Type", "application/json")
	}
	switch {
	case kind == "npm" && !bearer, kind == "api" && !bearer, kind == "apis" && !bearer, kind == "pypi" && password != runCanary:
		w.WriteHeader(http.StatusUnauthorized)
	case kind == "npm" && strings.EqualFold(rest, "@acme%2ftool"):
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "@acme/tool", "dist-tags": map[string]string{"latest": "1.2.3"}, "versions": map[string]any{
			"1.2.3": map[string]any{"name": "@acme/tool", "version": "1.2.3", "dist": map[string]any{"tarball": "https://" + r.Host + "/npm/@acme/tool/-/tool-1.2.3.tgz"}},
		}})
	case kind == "npm" && strings.HasSuffix(rest, ".tgz"):
		_, _ = w.Write(module)
	case kind == "pypi" && rest == "simple/shopkit/":
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="/pypi/shopkit-1.0-py3-none-any.whl#sha256=%x">shopkit-1.0-py3-none-any.whl</a></body></html>`, sha256.Sum256(wheel))
	case kind == "pypi" && strings.HasSuffix(rest, ".whl"):
		_, _ = w.Write(wheel)
	case kind == "api" && rest == "":
		_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case kind == "apis" && rest == "":
		_, _ = fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case kind == "api" && rest == "v1":
		_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"]}]}`)
	case kind == "api" && rest == "v1/namespaces/shop/pods":
		_, _ = fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","namespace":"shop"}}]}`)
	default:
		w.Header().Del("Content-Type")
		return false
	}
	return true
}

// TestRunPackages: unmodified tools fetch packages and objects with a
// placeholder as their credential.
func TestRunPackages(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.serve()
	b.put()
	for _, tool := range []struct{ name, program, scope, script, want, path string }{
		{
			"requests", "python3", "shop:orders:read", `/usr/bin/python3 -c 'import os, requests; print(requests.get("https://" + os.environ["HOST"] + "/v1/requests", headers={"Authorization": "Bearer " + os.environ["CRED"]}).text)'`,
			"/v1/requests by Bearer ", "/v1/requests",
		},
		{
			"httpx", "python3", "shop:orders:read", `/usr/bin/python3 -c 'import os, httpx; print(httpx.get("https://" + os.environ["HOST"] + "/v1/httpx", headers={"Authorization": "Bearer " + os.environ["CRED"]}).text)'`,
			"/v1/httpx by Bearer ", "/v1/httpx",
		},
		{
			"aiohttp", "python3", "shop:orders:read", `/usr/bin/python3 -c 'import os, asyncio, aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as s:
        async with s.get("https://" + os.environ["HOST"] + "/v1/aiohttp", headers={"Authorization": "Bearer " + os.environ["CRED"]}) as r:
            print(await r.text())
asyncio.run(main())'`,
			"/v1/aiohttp by Bearer ", "/v1/aiohttp",
		},
		{
			"pip", "pip3", "pypi:packages:read", `/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-deps --target /tmp/site --index-url https://__token__:$CRED@$HOST/pypi/simple shopkit && PYTHONPATH=/tmp/site /usr/bin/python3 -m shopkit`,
			"shopkit is here", "/pypi/shopkit-1.0-py3-none-any.whl",
		},
		{
			"npm", "npm", "npm:packages:read", `cd /tmp && echo "@acme:registry=https://$HOST/npm/
				//$HOST/npm/:_authToken=\${CRED}" | sed 's/^[ \t]*//' >.npmrc && npm view @acme/tool version && npm install --no-audit --no-fund --silent @acme/tool && node -p 'require("@acme/tool")'`,
			"tool is here", "/npm/@acme/tool/-/tool-1.2.3.tgz",
		},
		{
			"kubectl", "kubectl", "", `cat >/tmp/config <<-END
			apiVersion: v1
			kind: Config
			current-context: c
			contexts: [{name: c, context: {cluster: k, user: u, namespace: shop}}]
			clusters: [{name: k, cluster: {server: "https://$HOST"}}]
			users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ebb, args: [credential, kubectl, --scope, "kube:cluster:read"]}}}]
			END
			KUBECONFIG=/tmp/config kubectl get pods -o name`,
			"pod/web-0", "/api/v1/namespaces/shop/pods",
		},
	} {
		t.Run(tool.name, func(t *testing.T) {
			installed(t, tool.program)
			var flags []string
			if tool.scope != "" {
				flags = []string{"--credential", "CRED=" + tool.scope}
			}
			out, errs := b.run(tool.script, flags...)
			if !strings.Contains(out, tool.want) {
				t.Errorf("%s%s", out, errs)
			}
			got := b.authorizations(tool.path)
			if len(got) == 0 {
				t.Fatalf("nothing arrived: %s%s", out, errs)
			}
			for _, a := range got {
				if strings.Contains(a, "placeholder") {
					t.Errorf("arrived: %q", got)
				}
			}
		})
	}
}

// installed requires a program in a directory that a sandbox has.
func installed(t *testing.T, program string) {
	t.Helper()
	if info, err := os.Stat("/usr/bin/" + program); err != nil || info.IsDir() {
		counterpart.Missing(t, "tools", "install "+program+" in /usr/bin, which is what a sandbox has")
	}
}

// TestRunGo: a Go program without proxy support.
func TestRunGo(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.serve()
	b.put()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(`package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	req, err := http.NewRequest("GET", "https://"+os.Getenv("HOST")+"/v1/go", nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("KEY"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	io.Copy(os.Stdout, resp.Body)
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(b.work, "program"), filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	b.must(build)
	if out, errs := b.run(`./program`); !strings.Contains(out, "/v1/go by Bearer ") {
		t.Errorf("%s%s", out, errs)
	}
	if got := b.authorizations("/v1/go"); len(got) != 1 || got[0] != "Bearer "+runCanary {
		t.Errorf("arrived: %q", got)
	}
}

// TestRunDirect: a client that ignores proxies, such as fetch of Node 20,
// reaches a host named with --host. The proxy connects to no address of the
// sandbox.
func TestRunDirect(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.serve()
	b.put()
	installed(t, "node")
	out, errs := b.run(`env -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy -u NODE_USE_ENV_PROXY node -e '
		fetch("https://" + process.env.HOST + "/v1/node", {headers: {Authorization: "Bearer " + process.env.KEY}}).then(r => r.text()).then(t => console.log(t))'
		for at in 127.1.0.1:${HOST#*:} 127.1.0.1:443 127.0.0.1:3128 localhost:443; do curl -s --noproxy '' -o /dev/null -w '%{http_connect}\n' https://$at/; done; true`, "--host", b.host)
	if !strings.Contains(out, "/v1/node by Bearer ") {
		t.Errorf("%s%s", out, errs)
	}
	if strings.Contains(out, "\n200\n") || strings.Count(out, "\n40") != 4 {
		t.Errorf("the proxy says %s%s", out, errs)
	}
	if got := b.authorizations("/v1/node"); len(got) != 1 || got[0] != "Bearer "+runCanary {
		t.Errorf("arrived: %q", got)
	}
}
