package egress_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// E54: with a real TLS client: there is one handshake, no renegotiation, and no early data, because
// there is no session to resume.
func TestRealOpenSSL(t *testing.T) {
	t.Parallel()
	program := counterpart.Program(t, "openssl")
	b := newBed(t, echo)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	at, dir := onTCP(t, func() (net.Conn, error) {
		c, _, err := x.through(b.host)
		return c, err
	}), t.TempDir()
	ca, session, early := filepath.Join(dir, "ca"), filepath.Join(dir, "session"), filepath.Join(dir, "early")
	request := "GET /v1/x HTTP/1.1\r\nHost: " + b.host + "\r\nAuthorization: Bearer " + p + "\r\nConnection: close\r\n\r\n"
	for path, text := range map[string]string{ca: x.pem, early: request} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(first string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"s_client", "-connect", at, "-servername", "api.example.com", "-verify_return_error", "-CAfile", ca}, args...)...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		read, pipe, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = pipe, pipe
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = pipe.Close()
		defer func() { _ = read.Close() }()
		buf := make([]byte, 4096)
		for asked := false; ; {
			n, err := read.Read(buf)
			out.Write(buf[:n])
			if !asked && strings.Contains(out.String(), "Verify return code") { // its input is read from here on
				asked = true
				_, _ = io.WriteString(in, first)
			}
			if err != nil {
				break
			}
		}
		_ = in.Close()
		_ = cmd.Wait()
		return out.String()
	}
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		if out := run(request, version, "-sess_out", session+version); !strings.Contains(out, "HTTP/1.1 200") {
			t.Errorf("%s: %s", version, out)
		}
	}
	if _, err := os.Stat(session + "-tls1_3"); err == nil { // OpenSSL writes it when it gets a ticket
		t.Error("there is a session to go on with")
	}
	if out := run(request, "-tls1_3", "-early_data", early); !strings.Contains(out, "Early data was not sent") || !strings.Contains(out, "HTTP/1.1 200") {
		t.Errorf("before the handshake: %s", out)
	}
	before := len(b.arrived())
	if out := run("R\n", "-tls1_2"); !strings.Contains(out, "RENEGOTIATING") || !strings.Contains(out, "SSL alert number 10") {
		t.Errorf("a second handshake: %s", out)
	}
	if n := len(b.arrived()); n != 3 || before != n {
		t.Errorf("%d requests have arrived", n)
	}
}
