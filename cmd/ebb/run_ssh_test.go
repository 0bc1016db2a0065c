package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/web/wire"
)

// sshBed is an ebb that certifies logins at a real sshd of this machine, which
// trusts its CA.
type sshBed struct {
	*outBed
	name string // of the host, with its port
	dir  string // of sshd
}

func newSSHBed(t *testing.T) *sshBed {
	t.Helper()
	b := &sshBed{outBed: newOutBed(t), dir: t.TempDir()}
	sshd := "/usr/sbin/sshd" // sshd executes itself by its absolute path
	if _, err := os.Stat(sshd); err != nil {
		counterpart.Missing(t, "sshd", "install openssh-server")
	}
	port := counterpart.FreePort(t)
	b.name = fmt.Sprintf("web-1.example.com:%d", port)
	b.must(exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(b.dir, "hostkey")))
	key, err := os.ReadFile(filepath.Join(b.dir, "hostkey.pub"))
	if err != nil {
		t.Fatal(err)
	}
	b.write("hosts", "127.0.0.1 localhost api.example.com web-1.example.com web-2.example.com\n")
	if err := os.Mkdir(filepath.Join(b.home, "policies"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.write("policies/all.cedar", `@id("all") @why("all") permit (principal, action, resource);`)
	text, err := os.ReadFile(filepath.Join(b.home, "ebb.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b.write("ebb.yaml", strings.Replace(string(text), "private_hosts: [", "private_hosts: [web-1.example.com=127.0.0.1/32, web-2.example.com=127.0.0.1/32, ", 1)+fmt.Sprintf(`  - name: ssh
    kind: ssh
    resource: https://hosts.example.com
    config:
      groups:
        web: {logins: [root], hosts: [%q], host_keys: [%q]}
        other: {logins: [root], hosts: ["web-2.example.com:%d"], host_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHYyHV3nvHFh0Q7M2j+LzrGVlkFEJA/Ld+eCrZEr3ueC"]}
      krl: {refresh: 1s, file: %s/krl}
policy_dir: %s/policies
`, b.name, strings.TrimSpace(string(key)), port, b.dir, b.home))
	b.serve()
	b.trust(sshd, port)
	return b
}

// trust starts sshd with ebb's CA.
func (b *sshBed) trust(sshd string, port int) {
	b.t.Helper()
	url, err := os.ReadFile(filepath.Join(b.home, "data", urlFile))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := http.Get(strings.TrimSpace(string(url)) + "/v1/ssh/ca")
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	ca, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	for name, text := range map[string]string{
		"ca.pub": string(ca), "principals": "root@web\n", "config": fmt.Sprintf(`ListenAddress 127.0.0.1:%d
HostKey %[2]s/hostkey
PidFile none
TrustedUserCAKeys %[2]s/ca.pub
RevokedKeys %[2]s/krl
AuthorizedPrincipalsFile %[2]s/principals
AuthorizedKeysFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
Subsystem sftp internal-sftp
`, port, b.dir),
	} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		b.t.Fatal(err)
	}
	args := []string{"-f", filepath.Join(b.dir, "config"), "-E", filepath.Join(b.dir, "log")}
	// From OpenSSH 9.8 on failed logins delay others.
	if patient := append(slices.Clone(args), "-o", "PerSourcePenalties=no"); exec.Command(sshd, append([]string{"-t"}, patient...)...).Run() == nil {
		args = patient
	}
	cmd := exec.Command(sshd, append([]string{"-D"}, args...)...)
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if said, err := os.ReadFile(filepath.Join(b.dir, "log")); b.t.Failed() && err == nil {
			b.t.Logf("sshd says:\n%s", said)
		}
	})
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, kerr := os.Stat(filepath.Join(b.dir, "krl"))
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
			if kerr == nil {
				return
			}
		}
		if time.Now().After(end) {
			b.t.Fatal("sshd did not get ready")
		}
	}
}

// in runs a script in a sandbox with ssh to a host.
func (b *sshBed) in(script string, flags ...string) (stdout, stderr string, err error) {
	b.t.Helper()
	cmd := b.ebb(append(append([]string{"run", "--scope", "ssh:**:*"}, flags...), "--", "sh", "-c", script)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// TestRunSSH: unmodified ssh, scp, git and rsync log in at a real sshd, whose
// key they know, with a certificate of which only the public part is in the
// sandbox.
func TestRunSSH(t *testing.T) {
	t.Parallel()
	b := newSSHBed(t)
	git := counterpart.Program(t, "git")
	repo := filepath.Join(b.dir, "shop.git")
	b.must(exec.Command(git, "init", "-q", "--bare", "-b", "main", repo))
	for _, tool := range []struct{ program, script, want string }{
		{"ssh", `ssh -v web-1.example.com 'echo $((40 + 2)) as $(id -un)' 2>err || { cat err >&2; exit 1; }`, "42 as root\n"},
		{"scp", `echo there >f && scp -q f web-1.example.com:` + b.dir + `/f && scp -q web-1.example.com:` + b.dir + `/f g && cat g`, "there\n"},
		{"git", `cd /tmp; export GIT_AUTHOR_NAME=b GIT_AUTHOR_EMAIL=b@b GIT_COMMITTER_NAME=b GIT_COMMITTER_EMAIL=b@b
			git clone -q ssh://web-1.example.com` + repo + ` a; cd a; git checkout -q -b main; echo hello >f; git add f; git commit -qm first; git push -q origin main
			cd ..; git clone -q web-1.example.com:` + repo + ` c; cat c/f`, "hello\n"},
		{"rsync", `mkdir -p d && echo synced >d/f && rsync -a d/ web-1.example.com:` + b.dir + `/d/ && rsync -a web-1.example.com:` + b.dir + `/d/ e/ && cat e/f`, "synced\n"},
	} {
		t.Run(tool.program, func(t *testing.T) {
			installed(t, tool.program)
			out, errs, err := b.in("set -e; "+tool.script, "--ssh", b.name+"=ssh:web/root:login")
			if err != nil || out != tool.want {
				t.Errorf("%q, %v\n%s", out, err, errs)
			}
		})
	}
}

// TestRunSSHKeeps: a sandbox has no private key, cannot add one or certify its
// own, and cannot log in at a host that its certificate is not for, or that has
// another key.
//
//ebb:invariant I6 When the runner keeps the SSH key, a key that the sandbox sends is not certified
func TestRunSSHKeeps(t *testing.T) {
	t.Parallel()
	b := newSSHBed(t)
	for name, script := range map[string]string{
		"no key":           `! grep -rlsE 'PRIVATE KEY' /work /tmp /home /run /etc && ssh-add -L | grep -q '^ssh-ed25519-cert' && test $(ssh-add -L | wc -l) = 1`,
		"none added":       `ssh-keygen -q -t ed25519 -N '' -f /tmp/k && ! ssh-add /tmp/k && ! ssh-add -D`,
		"none certified":   `ssh-keygen -q -t ed25519 -N '' -f /tmp/k && ! ebb token --scope ssh:web/root:login --public-key /tmp/k.pub`,
		"no other user":    `! ssh -o BatchMode=yes nobody@web-1.example.com true`,
		"no other host":    `timeout 60 ssh -o BatchMode=yes -o StrictHostKeyChecking=no -p ` + strings.Split(b.name, ":")[1] + ` -o ProxyCommand='curl -s -m 50 -p -x http://127.0.0.1:3128 telnet://%h:%p' web-2.example.com true; test $? = 255`,
		"no file signed":   `ssh-add -L >/tmp/c.pub && echo x >/tmp/x && ! ssh-keygen -Y sign -n file -f /tmp/c.pub /tmp/x`,
		"no raw tunnel":    `test -z "$(printf 'GET / HTTP/1.0\r\n\r\n' | timeout 20 curl -s -p -x http://127.0.0.1:3128 telnet://` + b.name + `)"`,
		"and its own host": `ssh web-1.example.com true`,
	} {
		if out, errs, err := b.in(script, "--ssh", b.name+"=ssh:web/root:login"); err != nil {
			t.Errorf("%s: %v\n%s%s", name, err, out, errs)
		}
	}
	// The host at this name has another key than configured. The agent signs no
	// login there, with any options of ssh.
	other := "web-2.example.com:" + strings.Split(b.name, ":")[1]
	out, errs, err := b.in(`! ssh -v -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null web-2.example.com true`, "--ssh", other+"=ssh:other/root:login")
	if err != nil || !strings.Contains(errs, "Remote protocol version 2.0") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
	if out, errs, err := b.in("true", "--ssh", "web-3.example.com=ssh:web/root:login"); err == nil || !strings.Contains(errs, "no such host") {
		t.Errorf("a host of no group: %v\n%s%s", err, out, errs)
	}
}

// TestRunSSHSignsForOpenTasks: the agent checks the task first, and signs
// nothing if it is paused, ended or unreadable, even with a live certificate.
//
//ebb:invariant I2 The SSH agent of `ebb run` signs nothing for a task that is paused, has ended, or is not confirmed to be open
func TestRunSSHSignsForOpenTasks(t *testing.T) {
	t.Parallel()
	away := errors.New("ebb is out of reach")
	for _, c := range []struct {
		task   wire.TaskState
		taskE  error
		lease  wire.LeaseState
		leaseE error
		want   wire.LeaseState
		wantE  error
	}{
		{wire.TaskOpen, nil, wire.LeaseLive, nil, wire.LeaseLive, nil},
		{wire.TaskOpen, nil, wire.LeaseRevoked, nil, wire.LeaseRevoked, nil},
		{wire.TaskOpen, nil, "", away, "", away},
		{wire.TaskPaused, nil, wire.LeaseLive, nil, "", broker.ErrTaskPaused},
		{wire.TaskClosed, nil, wire.LeaseLive, nil, "", broker.ErrTaskClosed},
		{"", nil, wire.LeaseLive, nil, "", broker.ErrTaskClosed},
		{wire.TaskOpen, away, wire.LeaseLive, nil, "", away},
	} {
		task := func(_ context.Context, id string) (wire.Task, error) {
			return wire.Task{ID: id, State: c.task}, c.taskE
		}
		lease := func(context.Context, string) (wire.LeaseState, error) { return c.lease, c.leaseE }
		if got, err := openStateOf(task, "tsk_a", lease)(t.Context(), "lse_a"); got != c.want || !errors.Is(err, c.wantE) || (err == nil) != (c.wantE == nil) {
			t.Errorf("a task %q (%v), a lease %q (%v): %q, %v", c.task, c.taskE, c.lease, c.leaseE, got, err)
		}
	}
}

// TestSSHConfig: for a name with two ports neither gets the options of the
// other.
func TestSSHConfig(t *testing.T) {
	t.Parallel()
	all, err := parseSSH([]string{"web-1.example.com=ssh:web/deploy:login", "web-1.example.com:2222=ssh:other/root:login"})
	if err != nil {
		t.Fatal(err)
	}
	text := string(sshConfig(all, func(g sshGiven) []string { return []string{map[uint16]string{22: "deploy", 2222: "root"}[g.host.Port]} }))
	if want := "Host web-1.example.com\n  Port 22\n  User deploy\nHost web-1.example.com\n  Port 2222\n  User root\n"; !strings.HasPrefix(text, want) {
		t.Error(text)
	}
}

// TestRunSSHFlags: the scopes of each host belong to one provider.
func TestRunSSHFlags(t *testing.T) {
	t.Parallel()
	for line, wrong := range map[string]string{
		"web-1.example.com=ssh:web/deploy:login":                         "",
		"web-1.example.com:2222=ssh:web/deploy:login ssh:web/deploy:pty": "",
		"web-1.example.com=ssh:web/deploy:login other:web/deploy:login":  "several providers",
		"web-1.example.com":                     "is not HOST[:PORT]=SCOPE",
		"web-1.example.com=":                    "is not HOST[:PORT]=SCOPE",
		"10.0.0.1=ssh:web/deploy:login":         "is not HOST[:PORT]=SCOPE",
		"web-1.example.com:0=ssh:web/ops:login": "is not HOST[:PORT]=SCOPE",
	} {
		if _, err := parseSSH([]string{line}); (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
