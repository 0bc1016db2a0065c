package gitpush_test

import (
	"crypto/rand"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress/content"
)

// workflow is what a person does with git. Each begins with a clone of a repository that has one
// commit on main.
type workflow struct {
	name string
	init []string // of the server
	ask  bool
	do   func(b *bed, dir string)
	want []string // the operations, in order
}

var workflows = []workflow{
	{name: "fast-forward", do: func(b *bed, dir string) {
		b.commit(dir, "b")
		b.run(dir, "push", "-q")
		b.commit(dir, "c")
		b.commit(dir, "d")
		b.run(dir, "push", "-q")
	}, want: []string{"update refs/heads/main 1", "update refs/heads/main 2"}},
	{name: "new branch with a slash", do: func(b *bed, dir string) {
		b.run(dir, "switch", "-q", "-c", "feature/a/b")
		b.commit(dir, "b")
		b.run(dir, "push", "-q", "-u", "origin", "HEAD")
	}, want: []string{"create refs/heads/feature/a/b"}},
	{name: "merge", do: func(b *bed, dir string) {
		b.run(dir, "switch", "-q", "-c", "side")
		b.commit(dir, "b")
		b.run(dir, "switch", "-q", "main")
		b.commit(dir, "c")
		b.run(dir, "merge", "-q", "-m", "merge", "side")
		b.run(dir, "push", "-q", "origin", "main")
	}, want: []string{"update refs/heads/main 3"}},
	{name: "octopus merge", do: func(b *bed, dir string) {
		for _, side := range []string{"s1", "s2", "s3"} {
			b.run(dir, "switch", "-q", "-c", side, "main")
			b.commit(dir, side)
		}
		b.run(dir, "switch", "-q", "main")
		b.run(dir, "merge", "-q", "-m", "merge", "s1", "s2", "s3")
		b.run(dir, "push", "-q", "origin", "main")
	}, want: []string{"update refs/heads/main 4"}},
	{name: "amend", do: func(b *bed, dir string) {
		b.run(dir, "commit", "-q", "--amend", "-m", "other")
		b.run(dir, "push", "-q", "--force-with-lease")
	}, want: []string{"force refs/heads/main not-proven"}},
	{name: "amend at an asked server", ask: true, do: func(b *bed, dir string) {
		b.commit(dir, "b")
		b.run(dir, "push", "-q")
		b.run(dir, "commit", "-q", "--amend", "-m", "other")
		b.run(dir, "push", "-q", "--force")
	}, want: []string{"update refs/heads/main 1", "force refs/heads/main not-proven"}},
	{name: "reset to an older commit", do: func(b *bed, dir string) {
		b.commit(dir, "b")
		b.run(dir, "push", "-q")
		b.run(dir, "push", "-q", "-f", "origin", "HEAD~:main")
	}, want: []string{"update refs/heads/main 1", "force refs/heads/main commits-not-in-pack"}},
	{name: "tags", do: func(b *bed, dir string) {
		b.run(dir, "tag", "v1")
		b.run(dir, "tag", "-a", "-m", "two", "v2")
		b.run(dir, "push", "-q", "--tags")
		b.run(dir, "tag", "-f", "-a", "-m", "two", "v2", b.commit(dir, "b"))
		b.run(dir, "push", "-q", "-f", "origin", "v2")
		b.run(dir, "push", "-q", "--delete", "origin", "v1")
	}, want: []string{"create refs/tags/v1", "create refs/tags/v2", "force refs/tags/v2 tag-moved", "delete refs/tags/v1"}},
	{name: "delete", do: func(b *bed, dir string) {
		b.run(dir, "push", "-q", "origin", "HEAD:refs/heads/x")
		b.run(dir, "push", "-q", "origin", ":x")
	}, want: []string{"create refs/heads/x", "delete refs/heads/x"}},
	{name: "many refs at once", do: func(b *bed, dir string) {
		args := []string{"push", "-q", "origin"}
		for i := range content.MaxOperations {
			args = append(args, "HEAD:refs/heads/b"+strconv.Itoa(100+i))
		}
		b.run(dir, args...)
	}, want: func() (all []string) {
		for i := range content.MaxOperations {
			all = append(all, "create refs/heads/b"+strconv.Itoa(100+i))
		}
		return all
	}()},
	{name: "atomic", do: func(b *bed, dir string) {
		b.run(dir, "push", "-q", "origin", "HEAD:refs/heads/old")
		b.commit(dir, "b")
		b.run(dir, "push", "-q", "--atomic", "origin", "main", "HEAD:refs/heads/new", ":old")
	}, want: []string{"create refs/heads/old", "update refs/heads/main 1", "delete refs/heads/old", "create refs/heads/new"}},
	{name: "rename", do: func(b *bed, dir string) {
		b.run(dir, "push", "-q", "origin", "HEAD:refs/heads/a")
		b.run(dir, "push", "-q", "origin", "HEAD:refs/heads/b", ":a")
	}, want: []string{"create refs/heads/a", "delete refs/heads/a", "create refs/heads/b"}},
	{name: "notes", do: func(b *bed, dir string) {
		b.run(dir, "notes", "add", "-m", "a note")
		b.run(dir, "push", "-q", "origin", "refs/notes/*")
		b.run(dir, "notes", "append", "-m", "more")
		b.run(dir, "push", "-q", "origin", "refs/notes/*")
	}, want: []string{"create refs/notes/commits 1", "update refs/notes/commits 1"}},
	{name: "empty commit", do: func(b *bed, dir string) {
		b.run(dir, "commit", "-q", "--allow-empty", "-m", "nothing")
		b.run(dir, "push", "-q")
	}, want: []string{"update refs/heads/main 1"}},
	{name: "commits that the server has", do: func(b *bed, dir string) {
		b.commit(dir, "b")
		b.run(dir, "push", "-q", "origin", "HEAD:refs/heads/x")
		b.run(dir, "push", "-q")
	}, want: []string{"create refs/heads/x", "force refs/heads/main commits-not-in-pack"}},
	{name: "commits that the asked server has", ask: true, do: func(b *bed, dir string) {
		b.commit(dir, "b")
		b.run(dir, "push", "-q", "origin", "HEAD:refs/heads/x")
		b.run(dir, "push", "-q")
	}, want: []string{"create refs/heads/x", "update refs/heads/main"}},
	{name: "shallow clone", do: func(b *bed, dir string) {
		b.commit(dir, "b")
		b.run(dir, "push", "-q")
		shallow := b.clone("--depth=1")
		b.commit(shallow, "c")
		b.run(shallow, "push", "-q")
		b.run(shallow, "push", "-q", "origin", "HEAD:refs/heads/x")
	}, want: []string{"update refs/heads/main 1", "update refs/heads/main 1", "create refs/heads/x"}},
	{name: "pack beyond http.postBuffer", do: func(b *bed, dir string) {
		data := make([]byte, 3<<20)
		_, _ = rand.Read(data)
		if err := os.WriteFile(filepath.Join(dir, "large"), data, 0o600); err != nil {
			b.t.Fatal(err)
		}
		b.commit(dir, "b")
		b.run(dir, "push", "-q")
		b.commit(dir, "c")
		b.run(dir, "-c", "http.postBuffer=1", "push", "-q")
	}, want: []string{"update refs/heads/main 1", "update refs/heads/main 1"}},
	{name: "SHA-256", init: []string{"--object-format=sha256"}, do: func(b *bed, dir string) {
		b.commit(dir, "b")
		b.run(dir, "push", "-q")
		b.run(dir, "tag", "-a", "-m", "one", "v1")
		b.run(dir, "push", "-q", "origin", "v1", ":refs/heads/x")
		b.run(dir, "commit", "-q", "--amend", "-m", "other")
		b.run(dir, "push", "-q", "-f")
	}, want: []string{"update refs/heads/main 1", "delete refs/heads/x", "create refs/tags/v1", "force refs/heads/main not-proven"}},
	{name: "protocol versions", do: func(b *bed, dir string) {
		for _, version := range []string{"0", "1", "2"} {
			b.commit(dir, version)
			b.run(dir, "-c", "protocol.version="+version, "push", "-q")
		}
	}, want: []string{"update refs/heads/main 1", "update refs/heads/main 1", "update refs/heads/main 1"}},
	{name: "session id", do: func(b *bed, dir string) {
		b.run(b.server, "config", "transfer.advertiseSID", "true")
		b.commit(dir, "b")
		b.run(dir, "-c", "transfer.advertiseSID=true", "push", "-q")
	}, want: []string{"update refs/heads/main 1"}},
	{name: "many similar commits, some as deltas", do: func(b *bed, dir string) {
		long, err := os.ReadFile("pack.go")
		if err != nil {
			b.t.Fatal(err)
		}
		for i := range 30 {
			b.run(dir, "commit", "-q", "--allow-empty", "-m", string(long[:3000])+strconv.Itoa(i))
		}
		b.run(dir, "push", "-q")
	}, want: []string{"update refs/heads/main 30"}},
	{name: "mirror", do: func(b *bed, dir string) {
		bare := filepath.Join(b.home, "bare")
		b.run("", "clone", "-q", "--mirror", b.url, bare)
		b.run(bare, "branch", "x")
		b.run(bare, "push", "-q", "--mirror")
		b.run(bare, "branch", "-D", "x")
		b.run(bare, "push", "-q", "--mirror")
	}, want: []string{"create refs/heads/x", "delete refs/heads/x"}},
	{name: "signed push", do: func(b *bed, dir string) {
		key := filepath.Join(b.home, "key")
		b.keygen(key)
		b.commit(dir, "b")
		b.run(dir, "-c", "gpg.format=ssh", "-c", "user.signingKey="+key, "push", "-q", "--signed", "origin", "main", "HEAD:refs/heads/x")
	}, want: []string{"update refs/heads/main 1", "create refs/heads/x"}},
}

// TestHonestPushes: each workflow of git lands untouched, and the facts say what lands.
func TestHonestPushes(t *testing.T) {
	t.Parallel()
	counterpart.Program(t, "git")
	for _, w := range workflows {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, w.init...)
			b.ask = w.ask
			first := filepath.Join(b.home, "first")
			b.run("", append([]string{"init", "-q", "-b", "main", first}, w.init...)...)
			b.commit(first, "a")
			b.run(first, "push", "-q", b.url, "main")
			if w.name == "SHA-256" {
				b.run(first, "push", "-q", b.url, "main:refs/heads/x")
			}
			b.taken()
			before, dir := b.refs(), b.clone()
			w.do(b, dir)
			got, facts := b.taken()
			if !slices.Equal(got, w.want) {
				t.Errorf("facts\n%q, want\n%q", got, w.want)
			}
			if want, err := after(before, facts...); err != nil || !maps.Equal(want, b.refs()) {
				t.Errorf("the server has %v, the facts say %v, %v", b.refs(), want, err)
			}
		})
	}
}
