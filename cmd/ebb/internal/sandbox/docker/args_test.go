//go:build linux

package docker

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// TestCheckImage: (E72, E119) an invalid image name is refused before docker
// gets it.
//
//ebb:invariant I6 An image name cannot act as a Docker option, and the declarations of an image cannot weaken the isolation of the sandbox
func TestCheckImage(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for _, name := range []string{"debian", "debian:12", "debian" + digest, "registry.example.com:5000/team/tools:v1" + digest, "sha256:" + strings.Repeat("0a", 32), "0a1b2c3d4e5f"} {
		if err := CheckImage(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "-v/:/x", "--privileged", "--", "-", "--net=host", "debian\n--privileged", "debian\n", "\ndebian", "debian --privileged", "debian\x00", " debian", "debian\t", "/debian", "./debian", "debian//x",
		"debian,readonly", "debian=x", "debian;id", "$(id)", "`id`", "déjà", "debian\u202e", "debian{{.}}", strings.Repeat("a", 513),
	} {
		if err := CheckImage(name); err == nil {
			t.Errorf("%q is an image", name)
		}
	}
}

func somePlan() *plan {
	return &plan{
		name: "ebb-sandbox-x", image: image{id: "sha256:" + strings.Repeat("0", 64), volumes: []string{"/data", "/tmp", sandbox.WorkDir}}, keep: "/keep", user: sandbox.Owner{UID: 7, GID: 8},
		limit: sandbox.Limits{Processes: 9, Temporary: 10, Memory: 11, CPU: 1500}, binds: []bind{{from: "/a", to: "/work", write: true}, {from: "/b", to: "/b"}},
	}
}

// TestArgs: (E119) the options that isolate a sandbox are present, and none
// that weakens it.
func TestArgs(t *testing.T) {
	t.Parallel()
	p := somePlan()
	args, err := p.args()
	if err != nil {
		t.Fatal(err)
	}
	line := " " + strings.Join(args, " ") + " "
	for _, want := range []string{
		"--rm", "--pull never", "--network none", "--ipc private", "--cgroupns private", "--read-only", "--cap-drop ALL", "--security-opt no-new-privileges", "--user 7:8", "--pids-limit 9",
		"--memory 11", "--memory-swap 11", "--cpus 1.500", "--no-healthcheck", "--log-driver none", "--entrypoint " + sandbox.Self, "type=tmpfs,dst=/data,tmpfs-mode=1777,tmpfs-size=10",
		"type=bind,src=/a,dst=/work", "type=bind,src=/b,dst=/b,readonly,bind-nonrecursive=true", "-- " + p.image.id + " shim --control " + sandbox.Dir + "/shim/socket",
	} {
		if !strings.Contains(line, " "+want+" ") {
			t.Errorf("%s is missing in %s", want, line)
		}
	}
	for _, not := range []string{"--privileged", "--cap-add", "--device", "--publish", "--volumes-from", "--env", "docker.sock", "=unconfined", "=host", "dst=/tmp"} {
		if strings.Contains(line, not) {
			t.Errorf("%s is in %s", not, line)
		}
	}
	if end := slices.Index(args, "--"); end < 0 || args[end+1] != p.image.id {
		t.Errorf("the image is not behind all options: %q", args)
	}
}

// FuzzMount: (E72) docker parses the record of every path as intended.
func FuzzMount(f *testing.F) {
	for _, path := range []string{"/a", "/a,readonly=false", `/a"b`, "/a,dst=/etc", "/a\n,b", "/a\r\nb", " /a", `/a\`, "/a=b"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		text, err := bind{from: path, to: "/b"}.mount()
		if err != nil {
			return
		}
		got, err := csv.NewReader(strings.NewReader(text)).Read() // like opts.MountOpt of Docker's client
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"type=bind", "src=" + path, "dst=/b", "readonly", "bind-nonrecursive=true"}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q", path, got)
		}
	})
}

// TestVolumes: an image cannot declare volumes at paths that the sandbox uses
// itself.
//
//ebb:invariant I6 An image is refused if it declares a volume at a path that the sandbox uses itself
func TestVolumes(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"/data", "/var/lib/postgresql/data", "/tmp", "/var/tmp", sandbox.Home, sandbox.WorkDir} {
		if err := checkVolume(v); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
	for _, v := range []string{"", "/", "data", "/data/", "/data/..", "/a/../etc", "/data:rw", "/data,dst=/etc", "/data\n", "/run", sandbox.Dir, sandbox.Dir + "/shim", sandbox.WorkDir + "/x", "/home", "/etc", "/etc/ssl", "/proc", "/sys/fs", "/dev/shm", "/var", "/tmp/x"} {
		if err := checkVolume(v); err == nil {
			t.Errorf("%q is a volume", v)
		}
	}
}

// TestNetwork: only loopback is accepted.
//
//ebb:invariant I6 A Docker sandbox is refused if it has a network interface other than loopback
func TestNetwork(t *testing.T) {
	t.Parallel()
	const headings = "Inter-|   Receive   |  Transmit\n face |bytes packets|bytes packets\n"
	for text, good := range map[string]bool{
		headings + "    lo:   0 0\n": true, headings: true, headings + "    lo: 0 0\n  eth0: 0 0\n": false, headings + " lo2: 0 0\n": false, headings + "garbage\n": false, "": false,
	} {
		if err := checkNetwork(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestWritableRoot: a container with a writable root is refused.
//
//ebb:invariant I6 The root of a Docker sandbox and each mount requested as read-only are verified to be read-only
func TestWritableRoot(t *testing.T) {
	t.Parallel()
	if err := checkMounts(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "is writable") {
		t.Error(err)
	}
}

// TestLimited: the end of the output, which has the error, is kept.
func TestLimited(t *testing.T) {
	t.Parallel()
	var l limited
	for range 20 {
		_, _ = l.Write([]byte(strings.Repeat("warning ", 15) + "\n"))
	}
	_, _ = l.Write([]byte("the cause\n"))
	if text := l.text(); !strings.HasSuffix(text, "the cause") || len(text) > maxShown {
		t.Errorf("%q", text)
	}
}

// TestStatus: a process with privileges, or of another user, is refused.
//
//ebb:invariant I6 ebb verifies the user, groups, capabilities and system call filter of a Docker sandbox in the kernel instead of trusting the daemon
func TestStatus(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"Uid": "7\t7\t7\t7", "Gid": "8\t8\t8\t8", "Groups": "8 ", "NSpid": "900\t1", "NoNewPrivs": "1", "Seccomp": "2",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
	}
	text := func(but, is string) string {
		var s strings.Builder
		for name, value := range good {
			if name == but {
				value = is
			}
			if value != "-" {
				s.WriteString(name + ":\t" + value + "\n")
			}
		}
		return s.String()
	}
	if err := checkStatus(text("", ""), sandbox.Owner{UID: 7, GID: 8}); err != nil {
		t.Fatal(err)
	}
	if err := checkStatus(text("Groups", ""), sandbox.Owner{UID: 7, GID: 8}); err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string][]string{
		"Uid": {"0\t7\t7\t7", "7\t7\t7\t0", "100007\t100007\t100007\t100007", "7", "-"}, "Gid": {"0\t0\t0\t0", "-"}, "Groups": {"8 999", "0"}, "NSpid": {"900", "900\t2", "-"},
		"NoNewPrivs": {"0", "-"}, "Seccomp": {"0", "1", "-"}, "CapEff": {"0000000000200000", "-"}, "CapBnd": {"000001ffffffffff", "-"}, "CapAmb": {"0000000000000400"}, "CapPrm": {"1"}, "CapInh": {"1"},
	} {
		for _, value := range values {
			if err := checkStatus(text(name, value), sandbox.Owner{UID: 7, GID: 8}); err == nil {
				t.Errorf("%s: %q is a sandbox", name, value)
			}
		}
	}
}
