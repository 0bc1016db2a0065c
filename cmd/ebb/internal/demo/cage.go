package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
)

// Owner of the sandbox if root runs the tour: no sandbox runs as root.
const nobody = "65534:65534"

// person is a secret in a variable and a file of the user who starts the
// sandbox. The sandbox gets neither.
const person = "ghp_of_the_person_who_runs_it"

// cage is `ebb run` with the rogue in its sandbox.
type cage struct {
	dir    string
	run    *exec.Cmd
	dec    *json.Decoder
	stderr bytes.Buffer
	key    []byte // content of the runner's key file
	ear    net.PacketConn
}

// listen opens a UDP socket on loopback that answers "heard" to every datagram,
// like a name server. It reaches only processes that share the machine's
// network.
func (c *cage) listen(ctx context.Context) error {
	ear, err := new(net.ListenConfig).ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open the UDP socket: %w", err)
	}
	c.ear = ear
	go func() {
		buf := make([]byte, 512)
		for {
			_, from, err := ear.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = ear.WriteTo([]byte("heard"), from)
		}
	}()
	if whisper(ctx, ear.LocalAddr().String(), "a sound") != "heard" {
		return errors.New("the UDP socket does not receive a datagram of this process, so the check would prove nothing")
	}
	return nil
}

// openCage starts the runner as a user would, in an environment with secrets.
func (s *stage) openCage() (*cage, error) {
	dir, err := os.MkdirTemp("", "ebb-box-")
	if err != nil {
		return nil, err
	}
	c := &cage{dir: dir}
	work, key, aws := filepath.Join(dir, "work"), filepath.Join(dir, "runner.key"), filepath.Join(dir, ".aws")
	err = errors.Join(os.Mkdir(work, 0o700), os.Mkdir(aws, 0o700), os.WriteFile(filepath.Join(aws, "credentials"), []byte(person), 0o600),
		keyfile.Write(key, keyfile.File{ClientID: Runner, Key: s.Keys[Runner]}))
	if err == nil {
		c.key, err = os.ReadFile(key)
	}
	if err == nil {
		err = c.listen(s.ctx)
	}
	args := []string{"run", "--owner", "bo", "--name", "pay 42", "--work", work, "--scope", PaymentsProvider + ":**:*", "--credential", "PAY_KEY=" + PaymentsProvider + ":charges:read"}
	if os.Geteuid() == 0 && err == nil {
		args = append(args, "--user", nobody)
		err = errors.Join(os.Chown(work, 65534, 65534), os.Chmod(dir, 0o711)) // so that the sandbox's user can traverse it
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	itself := strings.TrimPrefix(s.Issuer, "http://")
	_, port, _ := net.SplitHostPort(s.Payments.Host)
	for _, line := range []string{"PAY_HOST=" + s.Payments.Host, "PAY_ADDRESS=127.0.0.1:" + port, "EBB_ITSELF=" + itself, "EAR=" + c.ear.LocalAddr().String(), "PLACES=" + strings.Join([]string{dir, s.DataDir, aws}, ":")} {
		args = append(args, "--env", line)
	}
	c.run = exec.CommandContext(s.ctx, s.Executable, append(args, "--", box.Self, "demo", "rogue")...)
	c.run.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + dir, "XDG_DATA_HOME=" + dir, "EBB_URL=" + s.Issuer, "EBB_KEY_FILE=" + key, "GITHUB_TOKEN=" + person}
	c.run.Stderr, c.run.WaitDelay = &c.stderr, time.Second
	out, err := c.run.StdoutPipe()
	if err == nil {
		c.dec = json.NewDecoder(out)
		err = c.run.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the sandbox: %w", err), c.close())
	}
	return c, nil
}

// hear returns the next result of the rogue.
func (c *cage) hear(try string) (haul, error) {
	var h haul
	if err := c.dec.Decode(&h); err != nil {
		return h, fmt.Errorf("read the program's result: %w", err)
	}
	if h.Try != try {
		return h, fmt.Errorf("the program reports the attempt %q, not %q", h.Try, try)
	}
	return h, nil
}

// none stops the run. It returns the run's message if this machine cannot
// create a sandbox, or none with an egress endpoint; and "" if the run ended
// for another reason.
func (c *cage) none() string {
	_ = c.run.Process.Signal(os.Interrupt) // the process may have ended
	_ = c.run.Wait()
	for line := range strings.Lines(c.stderr.String()) {
		if strings.Contains(line, box.ErrNone.Error()) || strings.Contains(line, "no egress endpoint") {
			return strings.TrimPrefix(strings.TrimSpace(line), "ebb: ")
		}
	}
	return ""
}

// close stops the remaining processes and removes the files.
func (c *cage) close() error {
	if c.ear != nil {
		_ = c.ear.Close()
	}
	if c.run != nil && c.run.Process != nil && c.run.ProcessState == nil {
		_ = c.run.Process.Kill() // the sandbox ends with it
		_ = c.run.Wait()
	}
	return os.RemoveAll(c.dir)
}

// nothing returns an error if an attempt had a result.
func (c *cage) nothing(try string) error {
	h, err := c.hear(try)
	if err == nil && h.Got != "" {
		err = fmt.Errorf("the program got%s", h.Got)
	}
	return err
}
