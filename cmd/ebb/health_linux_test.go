package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// served is an ebb in a process of its own, with a data directory.
type served struct {
	t    *testing.T
	bin  string
	data string
	env  []string // in addition to the variables of each
	cmd  *exec.Cmd
}

func serveOn(t *testing.T, data string, env ...string) *served {
	t.Helper()
	s := &served{t: t, bin: buildBinary(t), data: data, env: env}
	t.Cleanup(func() { s.kill() })
	s.start()
	return s
}

// start starts ebb, and returns when it is ready.
func (s *served) start() {
	s.t.Helper()
	s.cmd = s.command("serve")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.until("ready", func() bool { code, _ := s.run("health"); return code == 0 })
}

// kill ends ebb like kill -9.
func (s *served) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *served) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	cmd.Env = append([]string{"HOME=" + filepath.Dir(s.data), "EBB_DATA_DIR=" + s.data, "EBB_LISTEN=127.0.0.1:0", "PATH=" + os.Getenv("PATH")}, s.env...)
	return cmd
}

func (s *served) run(args ...string) (code int, text string) {
	cmd := s.command(args...)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

func (s *served) until(what string, f func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if f() {
			return
		}
	}
	s.t.Fatalf("never: %s", what)
}

func (s *served) readyz() (int, string) {
	s.t.Helper()
	url, err := os.ReadFile(filepath.Join(s.data, urlFile))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.Get(strings.TrimSpace(string(url)) + "/readyz")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// ebb is not healthy after it was stopped or killed, because it does not
// respond.
//
//ebb:invariant I6 A health check fails if ebb does not answer or is not ready
func TestHealthOfADeadEbb(t *testing.T) {
	t.Parallel()
	s := serveOn(t, filepath.Join(t.TempDir(), "data"))
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		if err := s.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if sig == syscall.SIGKILL {
			_ = s.cmd.Wait()
		}
		for _, args := range [][]string{{"health"}, {"health", "--live"}, {"doctor"}} {
			if code, text := s.run(args...); code != 1 || !strings.Contains(text, "ebb answers at") && !strings.Contains(text, "no ebb ") {
				t.Errorf("after %v: ebb %v: exit code %d\n%s", sig, args, code, text)
			}
		}
	}
}

// ebb health uses http for an ebb that listens without TLS behind a proxy that adds TLS.
func TestHealthBehindAProxy(t *testing.T) {
	t.Parallel()
	listen := "127.0.0.1:" + strconv.Itoa(counterpart.FreePort(t))
	s := serveOn(t, filepath.Join(t.TempDir(), "data"), "EBB_PUBLIC_URL=https://ebb.example.com", "EBB_LISTEN="+listen)
	for _, args := range [][]string{{"health"}, {"health", "--live"}} {
		if code, text := s.run(args...); code != 0 || text != "ok\n" {
			t.Errorf("ebb %v: exit code %d\n%s", args, code, text)
		}
	}
}

// With a full disk under the data directory /readyz is 503 and names the cause,
// and so do health and doctor, without other remedies; /livez is 200. When
// space is free ebb becomes ready again by itself.
//
//ebb:invariant I6 `/readyz` reports the outcome of recent database writes, and probes with its own write if there were none
//ebb:invariant I6 A health check fails if ebb does not answer or is not ready
func TestHealthOnAFullDisk(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("ebb-test", data, "tmpfs", 0, "size=6m,mode=0700"); err != nil {
		counterpart.Missing(t, "root", "only root can mount a small file system: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	s := serveOn(t, data)
	f, err := os.Create(filepath.Join(data, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for chunk := make([]byte, 1<<16); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	s.until("/readyz says that the disk is full", func() bool {
		code, body := s.readyz()
		return code == http.StatusServiceUnavailable && strings.Contains(body, `"name":"database","state":"down","reason":"the disk is full`)
	})
	if code, text := s.run("health"); code != 1 || !strings.Contains(text, "the disk is full") {
		t.Errorf("ebb health: exit code %d\n%s", code, text)
	}
	if code, text := s.run("health", "--live"); code != 0 {
		t.Errorf("ebb health --live: exit code %d\n%s", code, text)
	}
	if code, text := s.run("doctor"); code != 1 || !strings.Contains(text, "the disk is full") || strings.Contains(text, "register the key") {
		t.Errorf("ebb doctor: exit code %d\n%s", code, text)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	s.until("ready again", func() bool { code, _ := s.run("health"); return code == 0 })
}
