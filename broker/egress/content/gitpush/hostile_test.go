package gitpush_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// target is a server's repository with main = B, x = A, the tag v1 = A, where A is B's parent.
type target struct {
	*bed
	a, b, tree string
	fresh      string // a copy of the repository, as it was at first
}

func newTarget(t *testing.T) *target {
	t.Helper()
	b := newBed(t)
	first := filepath.Join(b.home, "first")
	b.run("", "init", "-q", "-b", "main", first)
	h := &target{bed: b, a: b.commit(first, "a"), fresh: filepath.Join(b.home, "fresh")}
	b.run(first, "tag", "v1")
	b.run(first, "push", "-q", b.server, "main:x", "v1")
	h.b = b.commit(first, "b")
	b.run(first, "push", "-q", b.server, "main")
	h.tree = b.run(first, "rev-parse", "HEAD^{tree}")
	if err := os.CopyFS(h.fresh, os.DirFS(b.server)); err != nil {
		t.Fatal(err)
	}
	return h
}

// request returns a push over HTTP.
func request(text string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/o/r.git/git-receive-pack", strings.NewReader(text))
	r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	return r
}

// land judges a push and, if it is not refused, lets it act on a fresh copy of the repository. Each
// change there must be one that the facts state.
func (h *target) land(t *testing.T, r *http.Request) (ops []string, landed int, err error) {
	t.Helper()
	facts, err := h.judge(r)
	if err != nil {
		if refusal := (*content.Error)(nil); !errors.As(err, &refusal) {
			t.Errorf("the error is no refusal: %v", err)
		}
		return nil, 0, err
	}
	if err := errors.Join(os.RemoveAll(h.server), os.CopyFS(h.server, os.DirFS(h.fresh))); err != nil {
		t.Fatal(err)
	}
	before := h.refs()
	h.backend(httptest.NewRecorder(), r)
	now := h.refs()
	stated := map[string]content.Operation{}
	for _, op := range facts.Operations {
		if _, twice := stated[op.Object]; twice {
			t.Errorf("two operations on %s", op.Object)
		}
		stated[op.Object] = op
		ops = append(ops, strings.TrimSpace(fmt.Sprint(op.Action, " ", op.Object, " ", op.Details["commits"], op.Details["why"])))
	}
	names := maps.Clone(before)
	maps.Copy(names, now)
	for name := range names {
		if before[name] == now[name] {
			continue
		}
		landed++
		op := stated[name]
		if op.Object != name || op.Action != "delete" && op.Details["old"] != before[name] || op.Details["new"] != now[name] {
			t.Errorf("%s changed from %q to %q, the facts say %+v", name, before[name], now[name], op)
		}
		if is := map[bool]string{before[name] == "": "create", now[name] == "": "delete"}[true]; is != "" && op.Action != is {
			t.Errorf("%s: %s, the facts say %s", name, is, op.Action)
		}
		if op.Action == "update" {
			if out, err := h.try(h.server, "merge-base", "--is-ancestor", before[name], now[name]); err != nil {
				t.Errorf("%s is no fast-forward: %v %s", name, err, out)
			}
		}
	}
	return ops, landed, nil
}

// hostile is a push that git would not send.
type hostile struct {
	name    string
	body    string
	headers []string
	want    string // a part of the refusal, or the operations with "; " between
	landed  int    // how many refs change; -1 = as many as operations
}

// TestHostilePushes: each body is refused, or acts as its facts say.
func TestHostilePushes(t *testing.T) {
	t.Parallel()
	h := newTarget(t)
	cases := slices.Concat(h.frames(), h.commands(), h.names(), h.certificates(), h.shallows(), h.packs(), h.ancestries(), h.encodings())
	t.Logf("%d cases", len(cases))
	seen := map[string]bool{}
	for _, tt := range cases {
		if seen[tt.name] {
			t.Errorf("two cases are named %q", tt.name)
		}
		seen[tt.name] = true
		t.Run(tt.name, func(t *testing.T) { // one after the other: they share the repository
			ops, landed, err := h.land(t, request(tt.body, tt.headers...))
			got := strings.Join(ops, "; ")
			want := tt.landed
			if want < 0 {
				want = len(ops)
			}
			if err != nil {
				if got, want = err.Error(), 0; !strings.Contains(got, tt.want) || tt.landed != 0 {
					t.Errorf("refused: %s; want %q", got, tt.want)
				}
				return
			}
			if got != tt.want || landed != want {
				t.Errorf("%q, and %d refs changed; want %q and %d", got, landed, tt.want, want)
			}
		})
	}
}

// cmd returns a command.
func cmd(before, after, ref string) string { return before + " " + after + " " + ref }

const empty = "PACK\x00\x00\x00\x02\x00\x00\x00\x00\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e"

func (h *target) frames() []hostile {
	create := cmd(zero, h.b, "refs/heads/y")
	good := body(empty, create)
	del := cmd(h.a, zero, "refs/heads/x")
	return []hostile{
		{name: "frame/baseline", body: good, want: "create refs/heads/y", landed: 1},
		{name: "frame/final newlines", body: body(empty, create+"\x00"+caps+"\n", del+"\n"), want: "create refs/heads/y; delete refs/heads/x", landed: 2},
		{name: "frame/probe", body: "0000"},
		{name: "frame/no body", want: "ends too early"},
		{name: "frame/half a flush", body: "000", want: "ends too early"},
		{name: "frame/probe and data", body: "0000" + good, want: "data follows"},
		{name: "frame/two flushes", body: "00000000", want: "data follows"},
		{name: "frame/delimiter", body: "0001", want: "length from 1 to 4"},
		{name: "frame/response end", body: "0002", want: "length from 1 to 4"},
		{name: "frame/0003", body: "0003", want: "length from 1 to 4"},
		{name: "frame/empty line", body: "0004" + good, want: "length from 1 to 4"},
		{name: "frame/newline only", body: "0005\n" + good, want: "does not consist"},
		{name: "frame/delimiter instead of a flush", body: strings.Replace(good, "0000PACK", "0001PACK", 1), want: "length from 1 to 4"},
		{name: "frame/upper-case length", body: strings.Replace(body("", create), pkt(create + "\x00" + caps)[:4], strings.ToUpper(pkt(create + "\x00" + caps)[:4]), 1) + "x", want: "four digits"},
		{name: "frame/signed length", body: "+07a" + good[4:], want: "four digits"},
		{name: "frame/spaces in a length", body: " 7a " + good[4:], want: "four digits"},
		{name: "frame/0x", body: "0x7a" + good[4:], want: "four digits"},
		{name: "frame/longest line", body: "fff0" + strings.Repeat("a", 70_000), want: "longer than 2048"},
		{name: "frame/line beyond the body", body: "07ff" + good, want: "ends too early"},
		{name: "frame/no flush", body: pkt(create + "\x00" + caps), want: "ends too early"},
		{name: "frame/error packet", body: pkt("ERR no") + good, want: "does not consist"},
		{name: "frame/version 2 request", body: pkt("command=push") + "0000", want: "does not consist"},
		{name: "frame/want line", body: pkt("want "+h.a) + "0000", want: "does not consist"},
		{name: "frame/sideband around the pack", body: body(pkt("\x01"+empty)+"0000", create), want: "not followed by a pack"},
		{name: "frame/data after a delete", body: body(empty, del), want: "data follows"},
		{name: "frame/a byte after a delete", body: body("\n", del), want: "data follows"},
		{name: "frame/delete hidden after the flush", body: body("", del) + pkt(cmd(h.b, zero, "refs/heads/main")) + "0000", want: "data follows"},
		{name: "frame/delete hidden after the pack", body: good + pkt(cmd(h.b, zero, "refs/heads/main")) + "0000", want: "data follows"},
		{name: "frame/second pack", body: good + empty, want: "data follows"},
		{name: "frame/second push", body: good + good, want: "data follows"},
		{name: "frame/commands after a flush", body: pkt(create+"\x00"+caps) + "0000" + pkt(del) + "0000" + empty, want: "not followed by a pack"},
		{name: "frame/PACK in a name", body: body(empty, cmd(zero, h.b, "refs/heads/PACK")), want: "create refs/heads/PACK", landed: 1},
		{name: "frame/PACK in an agent", body: body(empty, create+"\x00agent=PACK"), want: "create refs/heads/y", landed: 1},
	}
}

func (h *target) commands() []hostile {
	create := cmd(zero, h.b, "refs/heads/y")
	main := cmd(h.b, zero, "refs/heads/main")
	all := []hostile{
		{name: "command/delete hidden behind an update", body: body(empty, create, main), want: "create refs/heads/y; delete refs/heads/main", landed: 2},
		{name: "command/no capabilities", body: pkt(create) + "0000" + empty, want: "create refs/heads/y", landed: 1},
		{name: "command/NUL and no capabilities", body: body(empty, create+"\x00"), want: "create refs/heads/y", landed: 1},
		{name: "command/delete hidden behind a NUL", body: body(empty, create+"\x00"+caps+"\x00"+main), want: "do not print"},
		{name: "command/newline in a name", body: body(empty, create+"\n"+main), want: "a ref's name"},
		{name: "command/two newlines", body: body(empty, create+"\n\n"), want: "a ref's name"},
		{name: "command/newline in capabilities", body: body(empty, create+"\x00"+caps+"\n"+main), want: "do not print"},
		{name: "command/second list", body: body(empty, create, main+"\x00"+caps), want: "a NUL byte"},
		{name: "command/second list with another format", body: body(empty, create, main+"\x00 object-format=sha256"), want: "a NUL byte"},
		{name: "command/list instead of a command", body: body(empty, create, "\x00"+caps), want: "a NUL byte"},
		{name: "command/NUL in a name", body: body(empty, create, cmd(zero, h.b, "refs/heads/z\x00y")), want: "a NUL byte"},
		{name: "command/same ref twice", body: body(empty, create, create), want: "changes a ref twice"},
		{name: "command/created and deleted", body: body(empty, create, cmd(h.b, zero, "refs/heads/y")), want: "changes a ref twice"},
		{name: "command/both zero", body: body("", cmd(zero, zero, "refs/heads/y")), want: "same id before and after"},
		{name: "command/no change", body: body(empty, cmd(h.b, h.b, "refs/heads/main")), want: "same id before and after"},
		{name: "command/upper-case id", body: body(empty, cmd(zero, strings.ToUpper(h.b), "refs/heads/y")), want: "does not consist"},
		{name: "command/short id", body: body(empty, cmd(zero, h.b[:39], "refs/heads/y")), want: "does not consist"},
		{name: "command/long id", body: body(empty, cmd(zero, h.b+"0", "refs/heads/y")), want: "does not consist"},
		{name: "command/SHA-256 ids", body: body(empty, cmd(zero+zero[:24], strings.Repeat("a", 64), "refs/heads/y")), want: "does not consist"},
		{name: "command/ids of two lengths", body: body(empty, cmd(zero, strings.Repeat("a", 64), "refs/heads/y")), want: "does not consist"},
		{name: "command/second of another length", body: body(empty, create, cmd(zero+zero[:24], strings.Repeat("a", 64), "refs/heads/z")), want: "does not consist"},
		{name: "command/two spaces", body: body(empty, cmd(zero, h.b, " refs/heads/y")), want: "refs/KIND/NAME"},
		{name: "command/tab", body: body(empty, zero+"\t"+h.b+"\trefs/heads/y"), want: "does not consist"},
		{name: "command/no name", body: body(empty, cmd(zero, h.b, "")), want: "refs/KIND/NAME"},
		{name: "command/stale", body: body(empty, cmd(h.a, h.b, "refs/heads/main")), want: "force refs/heads/main commits-not-in-pack"},
		{name: "command/create of a ref that exists", body: body(empty, cmd(zero, h.b, "refs/heads/x")), want: "create refs/heads/x"},
		{name: "command/delete of a stale ref", body: body("", cmd(h.b, zero, "refs/heads/x")), want: "delete refs/heads/x"},
		{name: "command/delete that states an unknown object", body: body("", cmd(strings.Repeat("3", 40), zero, "refs/heads/x")), want: "delete refs/heads/x", landed: 1},
		{name: "command/force to a commit of the server", body: body(empty, cmd(h.b, h.a, "refs/heads/main")), want: "force refs/heads/main commits-not-in-pack", landed: 1},
		{name: "command/moved tag", body: body(empty, cmd(h.a, h.b, "refs/tags/v1")), want: "force refs/tags/v1 tag-moved", landed: 1},
		{name: "command/one and the folder", body: body(empty, create, cmd(zero, h.b, "refs/heads/y/z")), want: "create refs/heads/y; create refs/heads/y/z", landed: 1},
	}
	for name, list := range map[string]string{
		"unknown": "frotz", "value": "atomic=1", "empty value": "atomic=", "push options": "push-options", "push options with a value": "push-options=1",
		"twice": "atomic atomic", "two formats": "object-format=sha1 object-format=sha256", "same format twice": "object-format=sha1 object-format=sha1",
		"MD5": "object-format=md5", "upper-case format": "object-format=SHA1", "no format": "object-format", "empty format": "object-format=", "format and more": "object-format=sha1,sha256",
		"upper-case": "Atomic", "tab": "agent=x\tpush-options", "carriage return": "agent=x\rpush-options", "unprintable": "agent=\x1b[2J", "not ASCII": "agent=ä", "DEL": "agent=\x7f",
		"SHA-256 with short ids": "object-format=sha256", "certificate": "push-cert=x", "side band": "side-band",
	} {
		all = append(all, hostile{name: "capability/" + name, body: body(empty, create+"\x00"+list), want: "the body is refused"})
	}
	for name, list := range map[string]string{"none": "", "spaces": "   atomic   ", "no space": "atomic report-status", "agent": "agent=atomic=push-options", "JGit": " report-status delete-refs ofs-delta side-band-64k agent=JGit/7"} {
		all = append(all, hostile{name: "capability/fine: " + name, body: body(empty, create+"\x00"+list), want: "create refs/heads/y", landed: 1})
	}
	for _, n := range []int{101, 340, 12000} {
		many := []string{}
		for i := range n {
			many = append(many, cmd(zero, h.b, fmt.Sprint("refs/heads/n", i)))
		}
		want := fmt.Sprint("it changes ", n, " refs")
		if n == 12000 {
			want = "exceed 1 MiB"
		}
		all = append(all, hostile{name: fmt.Sprint("command/", n), body: body(empty, many...), want: want})
	}
	return all
}

func (h *target) names() []hostile {
	var all []hostile
	for _, name := range []string{
		"HEAD", "main", "refs", "refs/", "refs/heads", "refs/heads/", "refs/stash", "/refs/heads/y", "refs//heads/y", "refs/heads//y", "refs/heads/y/", "REFS/heads/y", "heads/y", "../refs/heads/y",
		"refs/heads/HEAD", "refs/remotes/origin/HEAD", "refs/heads/head", "FETCH_HEAD", "refs/../HEAD", "refs/heads/../../HEAD", "refs/heads/..", "refs/heads/.", "refs/heads/.y", "refs/.heads/y", "refs/heads/y..z", "refs/heads/y.",
		"refs/heads/y./z", "refs/heads/y.lock", "refs/heads/y.lock/z", "refs/heads/-y", "refs/heads/--receive-pack=sh", "refs/-x/y", "refs/heads/y z", "refs/heads/y~1", "refs/heads/y^", "refs/heads/y^{}", "refs/heads/a:b", "refs/heads/y?",
		"refs/heads/*", "refs/heads/y*", "refs/heads/[y]", `refs/heads/y\z`, "refs/heads/y@{0}", "refs/heads/@{", "refs/heads/\xff", "refs/heads/y\x7f", "refs/heads/y\t", "refs/heads/y\r",
		"refs/heads/\u202ey",
		"refs/heads/\u200by", "refs/heads/y\u2028", "refs/heads/\ufeffy", "refs/heads/" + strings.Repeat(strings.Repeat("y", 60)+"/", 7) + "y", "refs/heads/" + strings.Repeat("y", 1000),
	} {
		for what, ids := range map[string][2]string{"create": {zero, h.b}, "delete": {h.b, zero}} {
			pack := map[string]string{"create": empty}[what]
			all = append(all, hostile{name: fmt.Sprintf("name/%s %q", what, name), body: body(pack, cmd(ids[0], ids[1], name)), want: "a ref"})
		}
	}
	for _, name := range []string{
		"refs/heads/@", "refs/heads/a+b=c,d@e_f-g.h", "refs/heads/" + strings.Repeat("y", 65), "refs/heads" + strings.Repeat("/y", 13), "refs/heads/y%z", "refs/for/main%submit", "refs/heads/ä", "refs/heads/$(id)", "refs/heads/`id`", "refs/heads/y;id", "refs/heads/y|id", "refs/heads/y&z", "refs/heads/'y'", `refs/heads/"y"`, "refs/heads/<y>", "refs/heads/(y)", "refs/heads/{y}", "refs/heads/y!", "refs/heads/y#z", "refs/for/main", "refs/replace/" + h.a, "refs/notes/commits", "refs/namespaces/n/refs/heads/main",
		"refs/heads/refs/heads/main", "refs/tags/main", "refs/heads/Main", "refs/meta/config", "refs/changes/01/1/1", "refs/pull/1/head/y",
	} {
		all = append(all, hostile{name: "name/fine " + name, body: body(empty, cmd(zero, h.b, name)), want: "create " + name, landed: 1})
	}
	return all
}
