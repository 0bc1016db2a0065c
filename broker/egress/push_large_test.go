package egress_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// commitFile commits a file of n random bytes, which does not compress, and returns the commit's id.
func (p *pushBed) commitFile(t *testing.T, n int) string {
	t.Helper()
	content := make([]byte, n)
	_, _ = rand.Read(content) // never fails (crypto/rand)
	if err := os.WriteFile(filepath.Join(p.work, "file"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	p.must(t, "add", "file")
	return p.commit(t, "a large file")
}

// A push above git's http.postBuffer of 1 MiB is sent in chunks, after a request of a flush packet by
// which git learns whether it may push. A lease with scopes for refs serves both requests, and so does
// a lease that is limited to this push. git shows why another large push is refused: it reads the
// answer only after it has sent everything.
func TestPushLarge(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, asksForAgents)
	p.auth = p.placeholder(t, "gh:acme/web/refs/heads/large:create gh:acme/web/refs/heads/large:update")
	first := p.commitFile(t, 8<<20)
	p.must(t, "push", "-q", "origin", "main:large")
	want := "refs/heads/large " + first + "\n"
	if got := p.landed(t); got != want {
		t.Fatalf("landed:\n%s\nwant:\n%s", got, want)
	}

	p.sandbox = p.b.boxFor(t, "gh:**:*") // without the lease above, which would serve the first request
	p.proxied(t)
	second := p.commitFile(t, 8<<20)
	id := p.refusedBy(t, "gh:acme/web/refs/heads/none:create", func(placeholder string) (string, error) {
		p.auth = placeholder
		out, err := p.run(t, "push", "origin", "main:agent/x")
		if !strings.Contains(out, "remote: POST ") || !strings.Contains(out, "[remote rejected]") {
			t.Errorf("refused: %v\n%s", err, out)
		}
		return out, err
	})
	p.auth = p.approved(t, "gh:acme/web/refs/heads/agent/**:*", id, "refs/heads/agent/x")
	for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
		if out, err := p.run(t, "-c", "http.version="+version, "push", "origin", "main:agent/y"); err == nil || !strings.Contains(out, "remote: POST ") || !strings.Contains(out, "[remote rejected]") {
			t.Errorf("another large push by %s: %v\n%s", version, err, out)
		}
	}
	p.must(t, "push", "-q", "origin", "main:agent/x")
	if got := p.landed(t); got != "refs/heads/agent/x "+second+"\n"+want {
		t.Errorf("landed:\n%s", got)
	}
}

// A push whose facts do not fit into one audit log entry is refused, although the lease covers it: it
// would be sent without them.
func TestPushFitsItsEntry(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, `@id("all") @why("all") permit (principal, action, resource);`)
	auth := p.placeholder(t, "gh:acme/web/contents:write")
	push := func(refs int) (int, string) {
		body, list := "", "\x00 report-status delete-refs"
		for i := range refs {
			line := fmt.Sprintf("%s %s refs/heads/%s%03d%s", strings.Repeat("1", 40), strings.Repeat("0", 40), strings.Repeat("x/", 190), i, list)
			body, list = body+fmt.Sprintf("%04x%s", len(line)+4, line), ""
		}
		res, text := send(t, p.client(t, true), "POST", p.at+"/acme/web.git/git-receive-pack", body+"0000", "Content-Type", "application/x-git-receive-pack-request", "Authorization", "Bearer "+auth)
		return res.StatusCode, text
	}
	if status, text := push(1); status != http.StatusOK || !strings.Contains(text, "unpack ok") || strings.Contains(text, "ebb") {
		t.Errorf("one ref: %d %.300s", status, text)
	}
	if status, text := push(100); status != http.StatusBadRequest || refused(t, text).Reason != "bad_content" || !strings.Contains(text, "too much for one audit log entry") {
		t.Errorf("100 refs: %d %.300s", status, text)
	}
}
