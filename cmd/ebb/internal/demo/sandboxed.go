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
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/web/client"
)

// sandboxed runs a hostile program in a sandbox of ebb run: it can do its work and
// nothing else.
func (s *stage) sandboxed() (err error) {
	s.act("A hostile program in a sandbox", "ebb run --scope '"+PaymentsProvider+":**:*' --credential PAY_KEY="+PaymentsProvider+":charges:read -- ./program")
	if err := s.Payments.serve(s.ctx); err != nil {
		return err
	}
	if _, err := s.ola.Secrets.Put(s.ctx, paymentsSecret, secret.New(s.Payments.key)); err != nil {
		return s.expect(err, "the operator stores the key of an API in ebb")
	}
	c, err := s.openCage()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	first, err := c.hear("task")
	if err != nil || first.Got == "" {
		if s.left = c.none(); s.left == "" {
			return s.expect(errors.Join(err, errors.New(c.stderr.String())), "ebb run starts the program")
		}
		s.say("skipped: %s", s.left)
		s.say("Install bubblewrap to see this act: apt install bubblewrap, dnf install bubblewrap, apk add bubblewrap.")
		return nil
	}
	if err := s.expect(nil, "ebb run starts the program with only a placeholder for the API's key, in task %s...", first.Got[:12]); err != nil {
		return err
	}
	return steps(func() error { return s.rogueWorks(c) }, func() error { return s.rogueSteals(c) }, func() error { return s.rogueGoesOut(c) }, func() error { return s.rogueIsCut(c, first.Got) })
}

// rogueWorks checks that the program can do its work.
func (s *stage) rogueWorks(c *cage) error {
	h, err := c.hear("work")
	if err == nil && !strings.HasPrefix(h.Got, "200 ") {
		err = fmt.Errorf("the program got %s%s", h.Got, h.Error)
	}
	if seen := s.Payments.arrived(); err == nil && (len(seen) != 1 || seen[0].authorization != "Bearer "+s.Payments.key) {
		err = errors.New("the API did not receive its key")
	}
	if err := s.expect(err, "it does its work: GET %s, and the API receives the key", chargePath); err != nil {
		return err
	}
	if strings.Contains(h.Got, s.Payments.key) || !strings.Contains(h.Got, "[redacted]") {
		err = fmt.Errorf("the program got %q", h.Got)
	}
	return s.expect(err, "the API writes the key into its response; the program reads %q", strings.TrimPrefix(h.Got, "200 "+chargePath+" by "))
}

// rogueSteals checks that the program finds no secret in the sandbox.
func (s *stage) rogueSteals(c *cage) error {
	var counts []string
	read := 0
	for _, try := range []string{"processes", "files"} {
		h, err := c.hear(try)
		if err == nil && h.Got == "0" {
			err = errors.New("it could read nothing, so the check proves nothing")
		}
		if err == nil {
			err = s.clean(c, h.Loot)
		}
		if err != nil {
			return s.expect(err, "it finds no secret among %s", try)
		}
		counts, read = append(counts, h.Got), read+len(h.Loot)
	}
	if read >= maxHaul {
		return s.expect(errors.New("the program can read more data than was checked"), "it finds no secret among files")
	}
	if err := s.expect(nil, "it reads %s files of /proc and %s others (%d kB): no key of the API or the runner, no user token", counts[0], counts[1], read>>10); err != nil {
		return err
	}
	return s.expect(c.nothing("places"), "the user's home, cloud credentials and ebb's data do not exist in the sandbox")
}

// clean returns an error if loot contains one of the secrets of this machine.
func (s *stage) clean(c *cage, loot []byte) error {
	lines := bytes.Split(c.key, []byte("\n"))
	for name, secret := range map[string][]byte{"the key of the API": []byte(s.Payments.key), "a token of the user": []byte(person), "the runner's key": lines[len(lines)-3]} {
		if bytes.Contains(loot, secret) {
			return fmt.Errorf("the program read %s", name)
		}
	}
	return nil
}

// rogueGoesOut checks that the egress proxy lets only the program's work
// through.
func (s *stage) rogueGoesOut(c *cage) error {
	if err := s.expect(errors.Join(c.nothing("network"), c.nothing("names")), "it reaches neither the metadata service, the internet, name servers nor ebb: there is no network"); err != nil {
		return err
	}
	h, err := c.hear("proxy")
	if got := strings.Fields(h.Got); err == nil && (len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return s < "400" || s > "499" })) {
		err = fmt.Errorf("the proxy answered %s", h.Got)
	}
	if err := s.expect(err, "the proxy refuses the metadata service, IP addresses and ebb itself"); err != nil {
		return err
	}
	for _, try := range []struct{ name, what string }{
		{"metadata", "it requests the metadata service by name: refused"}, {"elsewhere", "it sends the placeholder to another server: refused"}, {"unescorted", "it uses the key of the attacker's account, to store data there: refused"},
		{"beyond", "it requests a refund, which the credential does not cover: refused"}, {"query", "it puts the placeholder into the query, which servers log: refused"},
	} {
		h, err := c.hear(try.name)
		if err == nil && !h.refused() {
			err = fmt.Errorf("the program got %s%s", h.Got, h.Error)
		}
		// The program runs ahead of the tour: the stream that it reads later may
		// have begun.
		if more := slices.DeleteFunc(s.Payments.arrived()[1:], func(r sent) bool { return r.path == followPath }); err == nil && len(more) != 0 {
			err = fmt.Errorf("the API received %+v", more)
		}
		if err := s.expect(err, "%s", try.what); err != nil {
			return err
		}
	}
	return nil
}

// rogueIsCut checks that completing the task ends the program's stream,
// credential and sandbox.
func (s *stage) rogueIsCut(c *cage, task string) error {
	if h, err := c.hear("follow"); err != nil || h.Got == "" {
		return s.expect(errors.Join(err, errors.New(h.Error)), "it reads a stream of the API")
	}
	ctx, cancel := context.WithTimeout(s.ctx, 40*time.Second)
	defer cancel()
	_, err := s.runner.Tasks.Complete(ctx, task)
	start := time.Now()
	if err == nil {
		_, err = c.hear("cut")
	}
	took := time.Since(start)
	if err == nil && took > 10*broker.ConfirmTimeout { // an overloaded machine may be late
		err = errors.New("the stream was cut too late")
	}
	if err := s.expect(err, "it reads a stream; the runner completes the task: cut off %d ms after the response", took.Milliseconds()); err != nil {
		return err
	}
	h, err := c.hear("after")
	if err == nil && strings.HasPrefix(h.Got, "200") {
		err = fmt.Errorf("the program got %s", h.Got)
	}
	if err := s.expect(err, "its placeholder is no longer accepted"); err != nil {
		return err
	}
	if err := s.expect(c.run.Wait(), "the sandbox has ended"); err != nil {
		return err
	}
	counts := map[string]int{}
	for e, err := range s.auditor.Audit.Entries(s.ctx, client.EntryFilter{TaskID: task}) {
		if err != nil {
			return s.expect(err, "the auditor reads the audit log")
		}
		counts[e.Kind]++
	}
	if counts[audit.EgressAllowed] != 2 || counts[audit.EgressDenied] == 0 {
		err = fmt.Errorf("the audit log has %v", counts)
	}
	return s.expect(err, "the audit log has %d requests with the key, and %d that egress refused", counts[audit.EgressAllowed], counts[audit.EgressDenied])
}

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
	dir, err := os.MkdirTemp("", "ebb-sandbox-")
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
	c.run = exec.CommandContext(s.ctx, s.Executable, append(args, "--", sandbox.Self, "demo", "rogue")...)
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
		if strings.Contains(line, sandbox.ErrNone.Error()) || strings.Contains(line, "no egress endpoint") {
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
