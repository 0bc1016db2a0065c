package unixpeer

import (
	"strings"
	"testing"
)

const (
	hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	hexB  = "b123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	pod   = "pod0f1e2d3c-1111-2222-3333-444455556666"
)

func TestParseCgroup(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want cgroup
		bad  bool
	}{
		"v2":                       {"0::/user.slice/x\n", cgroup{"/user.slice/x", true}, false},
		"v2 wins over v1":          {"9:name=systemd:/docker/" + hexB + "\n0::/system.slice/docker-" + hex64 + ".scope\n", cgroup{"/system.slice/docker-" + hex64 + ".scope", true}, false},
		"hybrid, v2 unused":        {"9:name=systemd:/a\n8:pids:/a\n1:cpu:/\n0::/\n", cgroup{"/a", false}, false},
		"v1 lines disagree":        {"9:name=systemd:/a\n8:pids:/b\n0::/\n", cgroup{}, false},
		"v1 lines agree but apart": {"9:name=systemd:/a\n8:pids:/b\n7:cpu:/a\n", cgroup{}, false},
		"v1 alone":                 {"4:memory:/a\n3:cpu,cpuacct:/a\n", cgroup{"/a", false}, false},
		"root":                     {"0::/\n", cgroup{}, false},
		"no cgroups":               {"", cgroup{}, false},
		"colons in the path":       {"0::/a:b::c\n", cgroup{"/a:b::c", true}, false},
		"two v2 lines":             {"0::/a\n0::/b\n", cgroup{}, true},
		"v2 with controllers":      {"0:cpu:/a\n", cgroup{"/a", false}, false},
		"cut":                      {"0::/docker/abc", cgroup{}, true},
		"relative":                 {"0::a\n", cgroup{}, true},
		"no path":                  {"0::\n", cgroup{}, true},
		"no hierarchy":             {"x::/a\n", cgroup{}, true},
		"one colon":                {"0:/a\n", cgroup{}, true},
		"empty line":               {"\n", cgroup{}, true},
	} {
		got, err := parseCgroup(tc.text)
		if got != tc.want || (err != nil) != tc.bad {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestContainer(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/system.slice/docker-" + hex64 + ".scope": hex64,
		"/docker/" + hex64:                         hex64,
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-" + strings.ReplaceAll(pod, "-", "_") + ".slice/cri-containerd-" + hex64 + ".scope": hex64,
		"/kubepods.slice/kubepods-" + strings.ReplaceAll(pod, "-", "_") + ".slice/crio-" + hex64 + ".scope":                                              hex64,
		"/kubepods/besteffort/" + pod + "/" + hex64:                 hex64,
		"/machine.slice/libpod-" + hex64 + ".scope":                 hex64,
		"/machine.slice/libpod-" + hex64 + ".scope/container":       hex64,
		"/libpod_parent/libpod-" + hex64:                            hex64,
		"/user.slice/user-1000.slice/x/nerdctl-" + hex64 + ".scope": hex64,
		"/../docker-" + hex64 + ".scope":                            hex64,
		"/sandboxes/task-42":                                        "task-42",

		"":                             "",
		"/":                            "",
		"/system.slice/docker.service": "",
		"/machine.slice/libpod-conmon-" + hex64 + ".scope":          "",
		"/system.slice/docker-" + hex64[1:] + ".scope":              "", // 63 digits
		"/system.slice/docker-" + hex64 + "0.scope":                 "",
		"/system.slice/docker-" + strings.ToUpper(hex64) + ".scope": "",
		"/system.slice/xdocker-" + hex64 + ".scope":                 "",
		"/system.slice/docker-" + hex64 + ".scope.d":                "",
		"/system.slice/docker-" + hex64 + ".scope (deleted)":        "",
		"/" + hex64:       "", // the parent is not a known runtime
		"/evil/" + hex64:  "",
		"/poddy/" + hex64: "",
		"/system.slice/docker-" + hex64 + ".scope/init.scope": "", // not at the end
		"/system.slice/docker-" + hex64 + ".scope/container":  "",
		"/libpod-" + hex64 + ".scope/container/container":     "",
		"/sandboxes":               "",
		"/sandboxes/":              "",
		"/sandboxes/a/b":           "",
		"/sandboxes/..":            "",
		"/other/sandboxes/task-42": "",
		"/sandboxes2/task-42":      "",
		// A container that can write to its cgroups made one with another container's id.
		"/system.slice/docker-" + hex64 + ".scope/docker-" + hexB + ".scope": "",
		"/docker/" + hex64 + "/docker/" + hexB:                               "",
		"/sandboxes/task-42/docker-" + hexB + ".scope":                       "",
	} {
		c := Config{CgroupParents: []string{"/sandboxes"}}
		id, dir := c.container(path)
		if id != want || (id != "") != (dir != "") || !strings.HasPrefix(path, dir) {
			t.Errorf("%s: got %q in %q, want %q", path, id, dir, want)
		}
	}
	nested := Config{Nested: true, CgroupParents: []string{"/sandboxes"}}
	for path, want := range map[string]string{
		"/system.slice/docker-" + hex64 + ".scope/docker-" + hexB + ".scope": "/system.slice/docker-" + hex64 + ".scope",
		"/docker/" + hex64 + "/a/docker/" + hexB:                             "/docker/" + hex64,
		"/system.slice/docker-" + hex64 + ".scope/init.scope":                "/system.slice/docker-" + hex64 + ".scope",
		"/sandboxes/task-42/docker-" + hexB + ".scope":                       "/sandboxes/task-42",
	} {
		if id, dir := nested.container(path); dir != want || !strings.Contains(dir, id) || id == hexB {
			t.Errorf("%s: got %q in %q", path, id, dir)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	tail := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n"
	for name, want := range map[string]uint64{
		"1 (sh)": 4711, "1 (a b)": 4711, "1 ())": 4711, "1 () S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 666 1)": 4711, "1 (\n)": 4711,
	} {
		if parent, got, err := parseStat(name + tail); err != nil || got != want || parent != 1 {
			t.Errorf("%q: got %d, %d, %v", name, parent, got, err)
		}
	}
	for _, bad := range []string{"", "1 sh S 1", "1 (sh)", "1 (sh) S 1 2 3", "1 (sh)" + strings.Replace(tail, "4711", "-1", 1), "1 (sh)" + strings.Replace(tail, " S 1 ", " S -1 ", 1), "1 (sh)" + strings.Replace(tail, "4711", "99999999999999999999", 1)} {
		if _, _, err := parseStat(bad); err == nil {
			t.Errorf("%q: taken", bad)
		}
	}
}

func TestParseInner(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"Name:\tsh\nNSpid:\t4711\t2\t1\nNSpgid:\t4711\t2\n": 1, "NSpid:\t4711\n": 4711,
		"Name:\tNSpid:\t1\nNSpid:\t5\n": 5, "NSpid:\t\n": 0, "NSpid:\t1\t-1\n": 0, "NSpid: 1\n": 0, "": 0, "Pid:\t1\n": 0,
	} {
		if got := parseInner(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestParseMount(t *testing.T) {
	t.Parallel()
	const v1 = "33 31 0:30 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
	for text, want := range map[string]string{
		v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n":   "/sys/fs/cgroup/unified",
		"41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup rw\n": "/sys/fs/cgroup",
		"41 31 0:38 /a /mnt rw - cgroup2 cgroup rw\n":                                   "", // a part of it
		`41 31 0:38 / /mnt\040x rw - cgroup2 cgroup rw` + "\n":                          "",
		"41 31 0:38 / /cgroup2 rw - tmpfs cgroup2 rw\n":                                 "",
		v1: "", "": "", "- cgroup2\n": "", "a - cgroup2": "",
	} {
		if got := parseMount(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

func TestPopulated(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"populated 1\nfrozen 0\n": true, "populated 0\nfrozen 0\n": false, "frozen 0\npopulated 0\n": false} {
		if got, err := populated(text); got != want || err != nil {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "populated\n", "populated 2\n", "xpopulated 0\n", "populated 01\n"} {
		if _, err := populated(bad); err == nil {
			t.Errorf("%q: taken", bad)
		}
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add("0::/system.slice/docker-" + hex64 + ".scope\n")
	f.Add("9:name=systemd:/a\n8:pids:/b\n0::/\n")
	f.Add("0::/docker/" + hex64 + "/docker/" + hexB + "\n")
	strict, nested := Config{CgroupParents: []string{"/s"}}, Config{CgroupParents: []string{"/s"}, Nested: true}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := parseCgroup(text)
		if err != nil {
			return
		}
		if g.path != "" && (!strings.HasPrefix(g.path, "/") || !strings.Contains(text, ":"+g.path+"\n")) {
			t.Errorf("%q: a path %q that is no line's", text, g.path)
		}
		id, dir := strict.container(g.path)
		outer, odir := nested.container(g.path)
		if id != "" && (outer != id || odir != dir || !strings.Contains(dir, id) || !strings.HasPrefix(g.path, dir)) {
			t.Errorf("%q: strict %q, nested %q", g.path, dir, odir)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n")
	f.Add("1 () ) S 1")
	f.Fuzz(func(t *testing.T, text string) {
		_, start, err := parseStat(text)
		// The name that a program gives itself does not change the other fields.
		_, again, err2 := parseStat("1 (" + text + ") S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n")
		if err2 != nil || again != 4711 {
			t.Errorf("%q: named like this it started at %d, %v", text, again, err2)
		}
		if err == nil && !strings.Contains(text, ")") {
			t.Errorf("%q: started at %d", text, start)
		}
		if n, err := parseLink("net", text); err == nil && !strings.HasPrefix(text, "net:[") {
			t.Errorf("%q: inode %d", text, n)
		}
		if n := parseInner("Name:\t" + strings.ReplaceAll(text, "\n", `\n`) + "\nNSpid:\t7\t1\n"); n != 1 {
			t.Errorf("%q: inside it is %d", text, n)
		}
		_ = parseInner(text)
		_ = parseMount(text)
		_, _ = populated(text)
	})
}

func FuzzParseInspect(f *testing.F) {
	f.Add([]byte(`{"Id":"` + hex64 + `","Image":"sha256:` + hexB + `","State":{"Running":true},"Config":{"Image":"a:b","Labels":{"x":"y"}}}`))
	f.Add([]byte(`{"Id":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := parseInspect(body, hex64)
		if err == nil && (c.ID != hex64 || !c.State.Running || len(c.Image) != 71) {
			t.Errorf("%q: got %+v", body, c)
		}
	})
}
