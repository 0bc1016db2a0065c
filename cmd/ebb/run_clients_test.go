package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// clientsBed is an ebb with providers for a forge, an image registry and two
// models.
func clientsBed(t *testing.T) *outBed {
	t.Helper()
	b := newOutBed(t)
	b.also = clients
	var text strings.Builder
	for name, how := range map[string]string{
		"forge":  `inject: {header: Authorization, prefix: "Bearer "}, grants: {shop: {read: {methods: [GET], paths: ["/api/v3/**"]}}}`,
		"images": `inject: {basic: {user: ebb}}, grants: {shop: {read: {methods: [GET, HEAD], paths: ["/v2/", "/v2/**"]}}}`,
		"claude": `inject: {header: X-Api-Key}, grants: {messages: {read: {methods: [POST], paths: ["/v1/messages"]}}}`,
		"codex":  `inject: {header: Authorization, prefix: "Bearer "}, grants: {responses: {read: {methods: [POST], paths: ["/v1/responses"]}}}`,
	} {
		fmt.Fprintf(&text, "  - {name: %s, kind: static, resource: \"https://%s/%[1]s\", config: {secret: key, hosts: [\"%[2]s\"], %[3]s}}\n", name, b.host, how)
	}
	b.more(text.String())
	b.serve()
	b.put()
	return b
}

// An image without layers.
const (
	imageConfig = `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]},"config":{"Labels":{"says":"the image is here"}}}`
	manifest    = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%x","size":%d},"layers":[]}`
)

// Responses of two models, as events (text/event-stream).
const (
	claudeSays = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"the model is here"}}
{"type":"content_block_stop","index":0}
{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":4}}
{"type":"message_stop"}`
	codexSays = `{"type":"response.created","response":{"id":"resp_1"}}
{"type":"response.output_item.done","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"the model is here"}]}}
{"type":"response.completed","response":{"id":"resp_1","usage":{"input_tokens":1,"input_tokens_details":null,"output_tokens":4,"output_tokens_details":null,"total_tokens":5}}}`
)

// clients serves a forge, an image registry and two models, all of which
// require the secret and no other credential.
func clients(w http.ResponseWriter, r *http.Request) {
	_, password, _ := r.BasicAuth()
	bearer, key := r.Header.Get("Authorization") == "Bearer "+runCanary, r.Header.Get("X-Api-Key") == runCanary
	_, _ = io.Copy(io.Discard, r.Body)
	switch path := r.URL.Path; {
	case path == "/v1/messages" && key && r.Header.Get("Authorization") == "":
		events(w, claudeSays)
	case path == "/v1/responses" && bearer:
		events(w, codexSays)
	case path == "/api/v3/repos/shop/app" && bearer:
		_, _ = io.WriteString(w, `{"full_name":"the forge is here"}`)
	case strings.HasPrefix(path, "/v2/") && password != runCanary:
		w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
		w.WriteHeader(http.StatusUnauthorized)
	case path == "/v2/":
	case path == "/v2/shop/app/manifests/1":
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		_, _ = fmt.Fprintf(w, manifest, sha256.Sum256([]byte(imageConfig)), len(imageConfig))
	case strings.HasPrefix(path, "/v2/shop/app/blobs/"):
		_, _ = io.WriteString(w, imageConfig)
	default:
		http.NotFound(w, r)
	}
}

// events sends one event per line, named by its type.
func events(w http.ResponseWriter, lines string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for line := range strings.SplitSeq(lines, "\n") {
		_, name, _ := strings.Cut(line, `"type":"`)
		name, _, _ = strings.Cut(name, `"`)
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, line)
		_ = http.NewResponseController(w).Flush()
	}
}

// agents is a directory of the machine in which npm has installed claude, codex
// and a node that reads proxy variables.
func agents(t *testing.T) (dir string, programs map[string]string) {
	t.Helper()
	dir = filepath.Join(counterpart.Need(t, "EBB_TEST_AGENTS"), "node_modules")
	programs = map[string]string{}
	for _, pattern := range []string{"@anthropic-ai/claude-code-linux-*/claude", "@openai/codex-linux-*/vendor/*/bin/codex", "node-linux-*/bin/node"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s is not installed in %s", pattern, dir)
		}
		programs[filepath.Base(pattern)] = found[0]
	}
	return dir, programs
}

// TestRunToolsOfForgesAndRegistries: gh and skopeo of Debian work with a
// placeholder as their credential.
func TestRunToolsOfForgesAndRegistries(t *testing.T) {
	t.Parallel()
	b := clientsBed(t)
	t.Run("gh", func(t *testing.T) {
		installed(t, "gh")
		b.says(t, "forge:shop:read", `GH_HOST=$HOST GH_ENTERPRISE_TOKEN=$CRED gh api repos/shop/app --jq .full_name`, "the forge is here")
	})
	t.Run("skopeo", func(t *testing.T) {
		installed(t, "skopeo")
		b.says(t, "images:shop:read", `mkdir ~/bin; export PATH=$PATH:$HOME/bin REGISTRY_AUTH_FILE=$HOME/auth.json
			printf '#!/bin/sh\nexec ebb credential docker --scope images:shop:read "$@"\n' >~/bin/docker-credential-ebb; chmod 755 ~/bin/docker-credential-ebb
			echo '{"credHelpers":{"'$HOST'":"ebb"}}' >$REGISTRY_AUTH_FILE
			skopeo copy -q --insecure-policy docker://$HOST/shop/app:1 dir:/tmp/image && cat /tmp/image/*`, "the image is here")
	})
}

// TestRunToolsOfAgents: unmodified agents get a response of a model, and
// Node.js one of a server, with a placeholder as the key.
func TestRunToolsOfAgents(t *testing.T) {
	t.Parallel()
	b := clientsBed(t)
	dir, programs := agents(t)
	for _, tool := range []struct{ name, scope, script, want string }{
		{"claude", "claude:messages:read", `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 ANTHROPIC_BASE_URL=https://$HOST ANTHROPIC_API_KEY=$CRED timeout 300 $PROGRAM -p hello </dev/null`, "the model is here"},
		{"codex", "codex:responses:read", `timeout 300 $PROGRAM exec --skip-git-repo-check -c model=m -c model_provider=p -c 'model_providers.p={name="p", base_url="https://'$HOST'/v1", env_key="CRED", wire_api="responses"}' hello </dev/null`, "the model is here"},
		{"node", "codex:responses:read", `$NODE -e 'fetch("https://" + process.env.HOST + "/v1/responses", {method: "POST", headers: {Authorization: "Bearer " + process.env.CRED}}).then(r => r.text()).then(t => console.log(t))'`, "the model is here"},
		{"SDK of Anthropic", "claude:messages:read", `$NODE -e 'const A = require("@anthropic-ai/sdk").default
			new A({apiKey: process.env.CRED, baseURL: "https://" + process.env.HOST}).messages.create({model: "m", max_tokens: 9, stream: true, messages: [{role: "user", content: "hello"}]})
				.then(async said => { for await (const e of said) if (e.delta && e.delta.text) console.log(e.delta.text) })'`, "the model is here"},
		{"SDK of OpenAI", "codex:responses:read", `$NODE -e 'const O = require("openai").default
			new O({apiKey: process.env.CRED, baseURL: "https://" + process.env.HOST + "/v1"}).responses.create({model: "m", input: "hello", stream: true})
				.then(async said => { for await (const e of said) if (e.item) console.log(e.item.content[0].text) })'`, "the model is here"},
	} {
		t.Run(tool.name, func(t *testing.T) {
			b.says(t, tool.scope, tool.script, tool.want, "--read", dir, "--env", "NODE_PATH="+dir, "--env", "NODE="+programs["node"], "--env", "PROGRAM="+programs[tool.name])
		})
	}
}

// says requires text in a script's output that a server sends only after it
// received the secret. run checks that the secret is never in the sandbox.
func (b *outBed) says(t *testing.T, scope, script, want string, flags ...string) {
	t.Helper()
	args := append([]string{"run", "--scope", scope, "--credential", "CRED=" + scope, "--env", "HOST=" + b.host}, flags...)
	cmd := b.ebb(append(args, "--", "sh", "-c", script)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v\n%s%s", err, out, errs.String())
	}
	if strings.Contains(string(out)+errs.String(), runCanary) {
		t.Errorf("the secret is in\n%s%s", out, errs.String())
	}
}
