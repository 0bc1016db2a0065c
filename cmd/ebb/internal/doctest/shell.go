package doctest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Shell is one bash, in which the blocks of a page run one after the other. Start begins it, Close
// ends it and everything that it started.
type Shell struct {
	Dir      string   // working directory of the page
	Scratch  string   // directory for the shell's own files, which the page does not see
	Env      []string // whole environment
	Patience time.Duration

	cmd      *exec.Cmd
	commands io.WriteCloser
	answers  *bufio.Reader
	blocks   int
	groups   []int // process groups of background blocks
}

// ready matches the output of a background block that shows no output of its own: of ebb serve, or of a
// program that says so.
var ready = regexp.MustCompile(`(?m)^API +http|\b(ready|listening)\b`)

// driver evaluates commands from descriptor 3. Each writes one line to descriptor 4: the exit code
// of a block, or the process of a background block. A block that fails ends the shell (set -e); then
// the line has the exit code, and the number of the failed line if bash knows it.
const driver = `set -Eeuo pipefail
failed=
trap 'failed=$LINENO' ERR
trap 'echo "$? $failed" >&4' EXIT
while IFS= read -r -u 3 command; do eval "$command"; done
trap - EXIT`

// Start starts the shell, in a network namespace of its own if this user can create one. Isolated
// reports whether that succeeded.
func (s *Shell) Start() (isolated bool, err error) {
	in, commands, err := os.Pipe()
	if err != nil {
		return false, err
	}
	answers, out, err := os.Pipe()
	if err != nil {
		return false, err
	}
	s.commands, s.answers = commands, bufio.NewReader(answers)
	s.cmd, isolated, err = start(func(cmd *exec.Cmd) {
		cmd.Dir, cmd.ExtraFiles = s.Dir, []*os.File{in, out}
	}, s.Env, "bash", "-c", driver)
	_, _ = in.Close(), out.Close()
	return isolated, err
}

// startShared starts a program in the network of the machine.
func startShared(prepare func(*exec.Cmd), env []string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	prepare(cmd)
	return cmd, cmd.Start()
}

// Run runs a step of the page and returns its combined output. Its error says how it failed.
func (s *Shell) Run(page string, step Step) (output string, err error) {
	if step.File != "" {
		path := filepath.Join(s.Dir, step.File)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		return "", os.WriteFile(path, []byte(step.Text), 0o644)
	}
	s.blocks++
	// With the lines before the block, bash counts lines as the page does. It names the file in its
	// messages.
	dir := filepath.Join(s.Scratch, strconv.Itoa(s.blocks))
	script, out := filepath.Join(dir, filepath.Base(page)), filepath.Join(dir, "output")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(script, []byte(strings.Repeat("\n", step.Line-1)+step.Text), 0o644); err != nil {
		return "", err
	}
	if step.Background {
		return s.background(script, out, step)
	}
	command := fmt.Sprintf(". %s >%s 2>&1 </dev/null 3<&- 4>&-; echo 0 >&4", quote(script), quote(out))
	if step.Exit != 0 {
		command = fmt.Sprintf("set +e; . %s >%s 2>&1 </dev/null 3<&- 4>&-; code=$?; failed=; set -e; echo $code >&4", quote(script), quote(out))
	}
	answer, err := s.do(command)
	text, _ := os.ReadFile(out)
	if err != nil {
		return string(text), err
	}
	code, line, _ := strings.Cut(answer, " ")
	if code == strconv.Itoa(step.Exit) && line == "" {
		return string(text), nil
	}
	err = fmt.Errorf("exit code %s, expected %d", code, step.Exit)
	if n, _ := strconv.Atoi(line); n >= step.Line {
		err = fmt.Errorf("%w, in line %d", err, n)
	}
	return string(text), err
}

// background starts a block as a second terminal would: in the page's directory, without the first
// terminal's variables. It returns when the output shows that the program is ready.
func (s *Shell) background(script, out string, step Step) (string, error) {
	words := append([]string{"env", "-i"}, s.Env...)
	for i := range words {
		words[i] = quote(words[i])
	}
	exited := out + ".exit"
	answer, err := s.do(fmt.Sprintf("set -m; (cd %s; code=0; %s bash -euo pipefail %s || code=$?; echo $code >%s) >%s 2>&1 </dev/null 3<&- 4>&- & set +m; echo $! >&4",
		quote(s.Dir), strings.Join(words, " "), quote(script), quote(exited), quote(out)))
	if err != nil {
		return "", err
	}
	group, err := strconv.Atoi(answer)
	if err != nil {
		return "", fmt.Errorf("the shell answered %q", answer)
	}
	s.groups = append(s.groups, group)
	for end := time.Now().Add(s.Patience); ; time.Sleep(20 * time.Millisecond) {
		code, readErr := os.ReadFile(exited)
		text, _ := os.ReadFile(out)
		switch {
		case step.Want != nil && Contains(step.Want.Text, string(text)), step.Want == nil && ready.Match(text):
			return string(text), nil
		case readErr == nil && len(code) > 0:
			return string(text), fmt.Errorf("exit code %s before it was ready", strings.TrimSpace(string(code)))
		case time.Now().After(end):
			return string(text), errors.New("it did not become ready: show in a text block after it the line that says so")
		}
	}
}

// do sends a command to the driver and returns its answer.
func (s *Shell) do(command string) (string, error) {
	if _, err := io.WriteString(s.commands, command+"\n"); err != nil {
		return "", fmt.Errorf("the shell has ended: %w", err)
	}
	limit := time.AfterFunc(s.Patience, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	answer, err := s.answers.ReadString('\n')
	if !limit.Stop() {
		return "", fmt.Errorf("not done after %v", s.Patience)
	}
	if err != nil {
		return "", errors.New("the shell has ended")
	}
	return strings.TrimSpace(answer), nil
}

// Close ends the background blocks, last first, then the shell.
func (s *Shell) Close() {
	for i := len(s.groups) - 1; i >= 0; i-- {
		end(s.groups[i], s.Patience)
	}
	_ = s.commands.Close()
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// end asks a process group to end, and kills it if it has not ended in time.
func end(group int, patience time.Duration) {
	_ = syscall.Kill(-group, syscall.SIGTERM)
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		if syscall.Kill(-group, 0) != nil {
			return
		}
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
}

// quote quotes a word for bash.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
