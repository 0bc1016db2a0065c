package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// shell is a running ebb, and runs other commands against it.
type shell struct {
	t   *testing.T
	bin string
	dir string
	env []string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{t: t, bin: buildBinary(t), dir: t.TempDir()}
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "EBB_LISTEN=127.0.0.1:0", "EBB_LIMITS_POLL_INTERVAL=1s"}
	serve := s.command("serve")
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Signal(syscall.SIGINT); _ = serve.Wait() })
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if url, err := os.ReadFile(filepath.Join(s.dir, ".local/share/ebb", urlFile)); err == nil {
			resp, err := http.Get(strings.TrimSpace(string(url)) + "/readyz")
			if err == nil {
				_ = resp.Body.Close()
				return s
			}
		}
		if time.Now().After(end) {
			t.Fatal("ebb did not get ready")
		}
	}
}

func (s *shell) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// says runs a command and decodes its JSON.
func (s *shell) says(into any, args ...string) {
	s.t.Helper()
	text, err := s.command(args...).Output()
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		s.t.Fatalf("ebb %v: %v", args, err)
	}
}

// ticket opens a task and returns its enrolment ticket.
func (s *shell) ticket() string {
	s.t.Helper()
	var opened struct {
		Ticket string `json:"ticket"`
	}
	s.says(&opened, "task", "open", "--name", "job", "--kind", "k", "--owner", "bo", "--scope", "local:a/**:*", "--ticket", "-o", "json")
	return opened.Ticket
}

// speak connects the official client to a command that is an MCP server.
func (s *shell) speak(cmd *exec.Cmd) (session *sdk.ClientSession, said *bytes.Buffer) {
	s.t.Helper()
	said = &bytes.Buffer{}
	cmd.Stderr = said
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(s.t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		s.t.Fatalf("%v: %s", err, said)
	}
	return session, said
}

// call is the result of a tool.
func call(t *testing.T, s *sdk.ClientSession, tool string, args map[string]any) string {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	var text strings.Builder
	for _, c := range r.Content {
		if c, is := c.(*sdk.TextContent); is {
			text.WriteString(c.Text)
		}
	}
	return text.String()
}

// The built binary works with the official client over standard streams, as the
// sandbox that its ticket enrols, and after a restart as the same sandbox.
func TestMCPBinary(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	ticket := s.ticket()
	cmd := s.command("mcp", "--key", "sandbox.key")
	cmd.Env = append(cmd.Env, "EBB_TICKET="+ticket)
	first, said := s.speak(cmd)
	got := call(t, first, "request_credential", map[string]any{"scope": "local:a/b:read"})
	if !strings.Contains(got, `"by_command"`) || strings.Contains(got, "eyJ") {
		t.Errorf("a read: %s", got)
	}
	pending := call(t, first, "request_credential", map[string]any{"scope": "local:a/b:write", "reason": "because"})
	var asked struct {
		ID   string `json:"request_id"`
		URL  string `json:"request_url"`
		Next string `json:"do_next"`
	}
	if err := json.Unmarshal([]byte(pending), &asked); err != nil || asked.URL != "" || !strings.Contains(asked.Next, "ebb requests show "+asked.ID) {
		t.Errorf("a write: %s", pending)
	}
	if err := first.Close(); err != nil || said.Len() > 0 {
		t.Errorf("the end: %v, %s", err, said)
	}
	again, _ := s.speak(s.command("mcp", "--key", "sandbox.key"))
	defer again.Close()
	if got := call(t, again, "request_credential", map[string]any{"scope": "local:a/b:write", "reason": "other words"}); !strings.Contains(got, asked.ID) {
		t.Errorf("asked again after a restart: %s, before %s", got, pending)
	}
	if got := call(t, again, "list_credentials", nil); !strings.Contains(got, `"revoked"`) || strings.Contains(got, `"live"`) {
		t.Errorf("what there is: %s", got)
	}
}

// In a sandbox of ebb run it works over the runner's socket, and the runner
// completes the task on request.
func TestMCPInASandbox(t *testing.T) {
	t.Parallel()
	counterpart.Need(t, "EBB_TEST_BWRAP")
	s := newShell(t)
	work, err := os.MkdirTemp("", "ebb-mcp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(work) })
	args := []string{"run", "--work", work, "--scope", "local:a/**:*", "--heartbeat", "15s"}
	if os.Geteuid() == 0 {
		if err := os.Chown(work, 1000, 1000); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--user", "1000:1000")
	}
	session, said := s.speak(s.command(append(args, "--", "ebb", "mcp")...))
	if got := call(t, session, "request_credential", map[string]any{"scope": "local:a/b:read"}); !strings.Contains(got, `"by_command"`) || strings.Contains(got, "eyJ") {
		t.Errorf("a read: %s", got)
	}
	waits := call(t, session, "request_credential", map[string]any{"scope": "local:a/b:write"})
	if !strings.Contains(waits, `"pending"`) || !strings.Contains(waits, "ebb requests show req_") || strings.Contains(waits, "request_url") { // this ebb is on loopback
		t.Errorf("a write: %s", waits)
	}
	if got := call(t, session, "complete_task", nil); !strings.Contains(got, `"withdrawn_pending":1`) {
		t.Errorf("the end: %s", got)
	}
	_ = session.Close()
	if !strings.Contains(said.String(), "revoked") {
		t.Errorf("the runner said %s", said)
	}
}
