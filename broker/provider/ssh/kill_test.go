package ssh_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider/ssh"
)

// script makes a program.
func script(t testing.TB, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(p, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestKillCommandGetsNamesAndNothingElse(t *testing.T) {
	t.Setenv("EBB_DATABASE_PASSWORD", "canary")
	out := filepath.Join(t.TempDir(), "out")
	program := script(t, `printf '%s\n' "$@" >"`+out+`"; env | sort >>"`+out+`"`)
	r := newRig(t, func(o *ssh.Options) { o.Kill = &ssh.Kill{Command: []string{program, "a b", "$(id)", "--", ";"}} })
	g := r.grant(t, "ssh:web/bo:login ssh:web/deploy:login")
	if err := r.Revoke(t.Context(), target(g)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b); !strings.HasPrefix(got, "a b\n$(id)\n--\n;\n") || strings.Contains(got, "canary") {
		t.Errorf("it got %q", got)
	}
	for _, want := range []string{
		"EBB_PROVIDER=ssh", "EBB_LEASE=" + g.LeaseID, "EBB_TASK=tsk_1", "EBB_SERIAL=" + strconv.FormatUint(ssh.SerialOf(g.LeaseID), 10),
		"EBB_KEY_ID=" + ssh.KeyIDOf(instance, g.LeaseID), "EBB_PRINCIPALS=bo@web deploy@web", "EBB_GROUPS=web",
	} {
		if !strings.Contains("\n"+string(b), "\n"+want+"\n") {
			t.Errorf("it lacks %s:\n%s", want, b)
		}
	}
}

func TestKillCommandThatFails(t *testing.T) {
	for name, text := range map[string]string{"fails": "echo 'no route\x1b[2J'; exit 3", "is killed": "kill -9 $$", "says too much": "yes | head -c 1000000; exit 1"} {
		r := newRig(t, func(o *ssh.Options) { o.Kill = &ssh.Kill{Command: []string{script(t, text)}} })
		g := r.grant(t, "ssh:web/bo:login")
		cert := r.mint(t, g)
		err := r.Revoke(t.Context(), target(g))
		if err == nil || len(err.Error()) > 3000 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: Revoke = %v", name, err)
		}
		if accepts(t, r.Driver, cert, "bo@web", r.clock.now()) == nil {
			t.Errorf("%s: the list waits for the command", name)
		}
	}
	r := newRig(t, func(o *ssh.Options) { o.Kill = &ssh.Kill{Command: []string{"/nowhere/kill"}} })
	if err := r.Revoke(t.Context(), target(r.grant(t, "ssh:web/bo:login"))); err == nil {
		t.Error("a program that is not there succeeds")
	}
}

// TestKillCommandThatHangs: the command hangs, with a child that has its output open. Both end
// at the timeout.
func TestKillCommandThatHangs(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	program := script(t, "sleep 600 &\necho $! >"+pid+"\nwait\n")
	r := newRig(t, func(o *ssh.Options) { o.Kill = &ssh.Kill{Command: []string{program}, Timeout: "5s"} })
	began := time.Now()
	if err := r.Revoke(t.Context(), target(r.grant(t, "ssh:web/bo:login"))); err == nil {
		t.Error("it succeeds")
	}
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %s", took)
	}
	b, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "its child is gone", func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Revoke(ctx, target(r.grant(t, "ssh:web/bo:login"))); err == nil {
		t.Error("a cancelled context is not honoured")
	}
}

// TestKillCommandForAScopeOfThePast: after a change of the configuration, the scope of an old
// lease is no longer valid.
func TestKillCommandForAScopeOfThePast(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	r := newRig(t, func(o *ssh.Options) { o.Kill = &ssh.Kill{Command: []string{script(t, "env >"+out)}} })
	g := r.grant(t, "ssh:gone/bo:login")
	if err := r.Revoke(t.Context(), target(g)); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(out); err != nil || !strings.Contains(string(b), "EBB_LEASE="+g.LeaseID) {
		t.Errorf("%s %v", b, err)
	}
}
