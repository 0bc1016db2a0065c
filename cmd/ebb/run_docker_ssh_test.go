package main

import (
	"bytes"
	"crypto/rand"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunDockerSSH: ssh of the image logs in with a certificate whose private
// key is not in the sandbox.
func TestRunDockerSSH(t *testing.T) {
	t.Parallel()
	s := newSSHBed(t)
	b := s.docker(t)
	cmd, out, errs := b.run(`ssh -v web-1.example.com 'echo $((40 + 2)) as $(id -un)' 2>err || { cat err >&2; exit 1; }; grep -rlsE 'PRIVATE KEY' . /tmp /home /etc; exit 0`,
		"--image", b.having("ssh"), "--scope", "ssh:**:*", "--ssh", s.name+"=ssh:web/root:login")
	if err := cmd.Run(); err != nil || out.String() != "42 as root\n" {
		t.Errorf("%q, %v\n%s", out, err, errs)
	}
}

// having is an image with a program of this machine and its libraries.
func (b *dockerBed) having(program string) string {
	b.t.Helper()
	installed(b.t, program)
	path := "/usr/bin/" + program
	text, err := exec.Command("ldd", path).Output()
	if err != nil {
		b.t.Fatal(err)
	}
	files := []string{"-C", "/", "-ch", strings.TrimPrefix(path, "/")}
	for field := range strings.FieldsSeq(string(text)) {
		if filepath.IsAbs(field) {
			files = append(files, strings.TrimPrefix(field, "/"))
		}
	}
	archive, err := exec.Command("tar", files...).Output()
	if err != nil {
		b.t.Fatal(err)
	}
	id, err := exec.Command("docker", "--host", b.host, "create", "--network", "none", "ebb-bed", "true").Output()
	if err != nil {
		b.t.Fatal(err)
	}
	made, name := strings.TrimSpace(string(id)), "ebb-bed-"+strings.ToLower(rand.Text())
	b.t.Cleanup(func() {
		_, _ = b.docker("rm", "--force", made)
		_, _ = b.docker("rmi", "--force", name)
	})
	in := exec.Command("docker", "--host", b.host, "cp", "-", made+":/")
	in.Stdin = bytes.NewReader(archive)
	b.must(in)
	b.must(exec.Command("docker", "--host", b.host, "commit", made, name))
	return name
}
