package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/cgroup"
	"github.com/ebb-broker/ebb/cmd/internal/command"
)

// runCommand implements ebb run: it opens a task, runs one command as its
// sandbox, and ends both.
type runCommand struct{ *cli }

// runFlags are the flags of `ebb run` in addition to those of its task.
type runFlags struct {
	task       taskFlags
	kind       string // kind of the sandbox
	image      string // image of a Docker sandbox
	tool, work string
	workMode   string // protect or open
	user       string
	read, env  []string
	grace      time.Duration

	credentials, git, hosts, ssh []string
	aws                          string
	memory                       string  // "" = the value of mostMemory
	cpus                         float64 // 0 = all
	pids                         uint64
	join                         string // task to join; "" = open a new task
	pg                           string
}

// runHeartbeat is the default time after which a task of `ebb run` without a
// heartbeat ends.
const runHeartbeat = 30 * time.Second

func newRun(c *cli) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use: "run [flags] -- CMD [ARG...]", Short: "Open a task, run CMD in a sandbox, complete the task when CMD ends", Args: cobra.MinimumNArgs(1),
		Long: `Open a task, run CMD in a sandbox, and complete the task when CMD exits or is killed:
every credential of the task is then revoked, and every process that CMD started is
killed. --scope is the ceiling of the task's credentials and is required, except with
--join.

If no ebb is named and none of this user is running on this machine, the run starts an
ebb of its own, with the configuration and the data directory of 'ebb serve', until the
run ends.

The sandbox is created by bubblewrap, or with --sandbox docker by a Docker daemon from
--image, which then has the programs. It has the machine's programs read-only, the work
directory as /work (files that make programs run are write-protected: --work-mode), an
empty home, and no network. 'ebb token --scope ...' in the sandbox requests a credential
through a socket of this process, which keeps the sandbox's key, and --credential sets
a variable to a placeholder for one. The only way to the network is ebb's egress proxy,
which replaces placeholders with credentials. If no sandbox can be created CMD does not
run; --sandbox none runs it as a plain child process with EBB_URL, EBB_TASK_ID,
EBB_CLIENT_ID and EBB_KEY_FILE in its environment.

Signals are forwarded to CMD, and ebb run exits with CMD's exit code, or 128 plus the
signal number if a signal ended CMD. If ebb run itself is killed the sandbox is killed
too, and the task ends when its heartbeat is missed.`,
	}
	flags.task.add(cmd, runHeartbeat)
	f := cmd.Flags()
	f.SetInterspersed(false)
	flags.kind, flags.workMode = "auto", workProtect
	kinds := command.NewChoice(&flags.kind, "auto", "bwrap", "docker", "none")
	f.Var(kinds, "sandbox", "kind of sandbox; bwrap is bubblewrap; auto is docker if bubblewrap is not installed and --image is set, else bwrap")
	f.Var(kinds, "box", "kind of sandbox")
	_ = f.MarkDeprecated("box", "use --sandbox") // fails only for a flag that does not exist
	f.StringVar(&flags.image, "image", "", "`image` of a Docker sandbox, preferably by its digest; it is not pulled")
	f.StringVar(&flags.tool, "tool", "", "tool for which every credential of the sandbox is requested")
	f.StringVar(&flags.work, "work", ".", "`directory` that is mounted writable as /work")
	f.Var(command.NewChoice(&flags.workMode, workProtect, workOpen), "work-mode", "protect: files of the work directory that make programs run without being asked (settings and hooks of git, editors and CI) are read-only in the sandbox, and new ones are renamed at the end; open: they are only reported at the end")
	f.StringArrayVar(&flags.read, "read", nil, "`path` that is mounted read-only at the same path, repeatable")
	f.StringArrayVar(&flags.env, "env", nil, "variable of the sandbox, `NAME=VALUE`, or NAME to copy it from this environment, repeatable")
	f.StringArrayVar(&flags.credentials, "credential", nil, "variable of the sandbox to set to a placeholder, `NAME=SCOPE`, repeatable")
	f.StringArrayVar(&flags.git, "git", nil, "host for which git in the sandbox requests a credential, `HOST=SCOPE`, repeatable")
	f.StringVar(&flags.aws, "aws", "", "`SCOPE` of the credentials that AWS clients in the sandbox get from their container credentials endpoint")
	f.StringArrayVar(&flags.ssh, "ssh", nil, "host at which ssh in the sandbox logs in, with a certificate whose key stays in this process, `HOST[:PORT]=SCOPE`, repeatable")
	f.StringArrayVar(&flags.hosts, "host", nil, "`HOST[:PORT]` that programs without support for HTTPS_PROXY can reach, repeatable")
	f.StringVar(&flags.pg, "pg", "", "`SCOPE` of a database for psql and other libpq clients in the sandbox")
	f.StringVar(&flags.user, "user", "", "as root: user of the sandbox, `UID[:GID]`; default: the owner of the work directory")
	f.StringVar(&flags.memory, "memory", "", "memory limit of the sandbox, like `4G`; default: three quarters of the machine's memory, if a limit can be set")
	f.Float64Var(&flags.cpus, "cpus", 0, "processor limit of the sandbox, like 0.5; 0 = none")
	f.Uint64Var(&flags.pids, "pids", defaultPIDs, "maximum number of processes and threads in the sandbox")
	f.StringVar(&flags.join, "join", "", "run CMD in another sandbox of `TASK`, which an ebb run of this user has opened; when CMD ends the task stays open")
	f.DurationVar(&flags.grace, "grace", 10*time.Second, "time for CMD to end after its task has ended, before it is killed")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		if flags.join != "" {
			if err := flags.joinable(); err != nil {
				return err
			}
		}
		if len(flags.task.scope) == 0 && slices.Contains(args, "--scope") {
			return usage("--scope after "+args[0]+" is an argument of "+args[0]+", and not of ebb run", "write the flags before CMD: ebb run --scope SCOPE -- "+args[0])
		}
		if flags.task.heartbeat < 2*time.Second {
			return usage("--heartbeat is too short", "choose at least 2s; without heartbeats the task would stay open if ebb run is killed")
		}
		if flags.kind == "none" && cmd.Flags().Changed("work-mode") && flags.workMode == workProtect {
			return usage("--work-mode protect needs a sandbox", "remove it: with --sandbox none CMD can write wherever this user can")
		}
		if !cmd.Flags().Changed("name") {
			flags.task.name = filepath.Base(args[0])
		}
		return runCommand{c}.runIn(cmd.Context(), &flags, args)
	})
	return c.remote(cmd)
}

// runIn opens the task, runs the command and completes the task, also after an
// error.
func (c runCommand) runIn(ctx context.Context, flags *runFlags, args []string) (err error) {
	in, err := c.sandboxOf(flags, args)
	if err != nil {
		return err
	}
	unguard, err := c.guard(in)
	if err != nil {
		return err
	}
	defer unguard()
	if flags.join != "" {
		return c.runJoined(ctx, flags, in)
	}
	spec, err := flags.task.spec(true)
	if err != nil {
		return err
	}
	end, err := c.ownEbb(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	o, err := c.operator(operatorKey)
	if err != nil {
		return err
	}
	task, ticket, err := o.Tasks.Open(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runReport(c).complete(ctx, o, task.ID)) }()
	if ticket == nil {
		return fail("ebb returned no ticket", "open the task with --attestor enroll")
	}
	remove, err := ownDir(in, c.runPlaces())
	if err != nil {
		return err
	}
	defer remove()
	defer in.close()
	if err := in.saveGuard(); err != nil {
		return err
	}
	// The services of the sandbox run until the sandbox has ended, not until a
	// signal arrives.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	// Heartbeats start here, because an approval may take longer than the
	// heartbeat interval.
	over := make(chan struct{})
	go runReport(c).beat(serving, o, task, over)
	if err := c.furnish(ctx, serving, o, task, in, *ticket); err != nil {
		return err
	}
	if err := c.confine(in); err != nil {
		return err
	}
	return c.watch(in, over, flags.grace)
}

// failure adds the next step if the sandbox or its command could not be
// started.
func (b *sandboxed) failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sandbox.ErrCommand):
		return b.notStarted(err)
	case errors.Is(err, sandbox.ErrNone) && b.image != "":
		return fail(err.Error(), "check that this user may use a Docker daemon on this machine that is not rootless and has the image, or choose another --sandbox")
	case errors.Is(err, sandbox.ErrPlace):
		return usage(err.Error(), "choose another --work or --read: a directory with one project only; if there are too many files to protect, use --work-mode open")
	case errors.Is(err, sandbox.ErrNone):
		return fail(err.Error(), "install bubblewrap and allow this user to create user namespaces, use Docker (--sandbox docker --image NAME), or run CMD without a sandbox: --sandbox none")
	}
	return err
}

// notStarted adds the next step to the error of a command that could not be
// started. Its exit code is that of a shell in the same case.
func (b *sandboxed) notStarted(err error) error {
	e, _ := errors.AsType[*sandbox.CommandError](err)
	switch {
	case e != nil && e.Code == 126:
		return &failure{Code: 126, Text: err.Error(), Next: "name an executable file: `chmod +x` makes one of a script that begins with #!"}
	case e != nil && e.Code == 127 && b.plain:
		return &failure{Code: 127, Text: err.Error(), Next: "name a program on PATH, or its whole path"}
	case e != nil && e.Code == 127:
		return &failure{Code: 127, Text: err.Error(), Next: "name a program that exists in the sandbox; --read mounts more paths of this machine"}
	}
	return fail(err.Error(), "run `ebb doctor` to check this machine")
}

// ownEbb starts an ebb for this run if none is named and none of this user is
// running on this machine. It uses the configuration and the data directory of
// `ebb serve`, so that a later ebb completes revocations that are still pending
// when the run ends.
func (c runCommand) ownEbb(ctx context.Context) (end func() error, err error) {
	none := func() error { return nil }
	if c.url != "" || c.socket != "" || c.answers(ctx) {
		return none, nil
	}
	cfg, err := c.checkConfig()
	if err != nil {
		return nil, err
	}
	// It serves this run only, wherever the configured ebb would listen.
	cfg.Listen, cfg.PublicURL, cfg.ListenUnix, cfg.TLS.Cert, cfg.TLS.Key = "127.0.0.1:0", "", "", "", ""
	n, err := assemble(ctx, settings{Config: cfg, Log: slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return nil, err
	}
	c.url = n.url
	c.sayf("ebb: no ebb is running on this machine: this run starts its own, with its data in %s\n", cfg.DataDir)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- n.serve(serving, nil) }()
	return func() error {
		stop()
		return <-done
	}, nil
}

// answers reports whether the ebb that uses the data directory accepts
// connections.
func (c runCommand) answers(ctx context.Context) bool {
	text, running := runningURL(c.dataDir())
	if !running {
		return false
	}
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme
	}
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// defaultPIDs is the default maximum number of processes and threads of a
// sandbox.
const defaultPIDs = 1024

// parseSize parses a size in bytes, with K, M, G or T for powers of 1024.
func parseSize(text string) (uint64, error) {
	number, unit := text, uint64(1)
	if i := strings.IndexAny("KMGT", text[max(len(text)-1, 0):]); text != "" && i >= 0 {
		number, unit = text[:len(text)-1], 1<<(10*(i+1))
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 || n > math.MaxInt64/unit {
		return 0, usage("--memory "+strconv.Quote(text)+" is not a size", "write it like --memory 4G, or 512M")
	}
	return n * unit, nil
}

// limits returns the limits of the flags and the default ones. asked: the
// command must not run without them.
func (flags *runFlags) limits() (l cgroup.Limits, asked bool, err error) {
	l = cgroup.Limits{Memory: mostMemory(), Processes: flags.pids}
	if flags.memory != "" {
		if l.Memory, err = parseSize(flags.memory); err != nil {
			return l, false, err
		}
	}
	if flags.cpus < 0 || flags.cpus > 0 && flags.cpus < 0.01 || flags.cpus > 1<<16 || math.IsNaN(flags.cpus) {
		return l, false, usage("--cpus must be 0, or a number from 0.01 to 65536", "write it like --cpus 2, or 0.5")
	}
	if flags.pids == 0 || flags.pids > 1<<22 {
		return l, false, usage("--pids must be a number from 1 to 4194304", "write it like --pids 256")
	}
	l.CPU = uint64(math.Round(flags.cpus * 1000))
	return l, flags.memory != "" || flags.cpus > 0, nil
}

// mostMemory is the default memory limit: three quarters of the machine's
// memory, 0 if that is unknown.
func mostMemory() uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseUint(f[1], 10, 40)
			return kib * 1024 / 4 * 3
		}
	}
	return 0
}

// confine creates a cgroup for the sandbox. If that fails, or a limit has no
// controller, it prints a notice, or returns an error if the user requested the
// limit.
func (c runCommand) confine(in *sandboxed) error {
	if in.plain {
		return nil
	}
	if in.image != "" { // the Docker daemon creates one
		in.spec.Limits.Memory, in.spec.Limits.CPU = in.limits.Memory, in.limits.CPU
		return nil
	}
	g, unbound, err := cgroup.Make(in.limits)
	switch {
	case err != nil && in.bounded:
		return fail("--memory and --cpus need a cgroup: "+err.Error(), "run ebb where it can create one: systemd-run --user --scope ebb run ..., or remove them")
	case err != nil:
		c.sayf("ebb: CMD runs without a memory and processor limit, because the sandbox has no cgroup of its own: %s\n  -> %s\n", err, cgroupAdvice)
		return nil
	}
	in.group, in.spec.Cgroup = g, g.Dir()
	if err := os.WriteFile(filepath.Join(in.dir, groupFile), []byte(g.Path()), 0o600); err != nil {
		return fail(err.Error(), dirAdvice(in.dir))
	}
	unbound = slices.DeleteFunc(unbound, func(file string) bool { return file == "pids.max" }) // the shim limits the processes
	if len(unbound) > 0 && in.bounded {
		return fail("the cgroup controller is missing for "+strings.Join(unbound, " and "), "have systemd delegate memory and cpu to this user (for memory.swap.max: enable swap accounting with swapaccount=1, or disable swap), or remove --memory and --cpus")
	}
	if len(unbound) > 0 {
		c.sayf("ebb: CMD runs without a %s, because the cgroup controller is missing for %s\n  -> %s\n", limitsOf(unbound), strings.Join(unbound, " and "), cgroupAdvice)
	}
	return nil
}

// cgroupAdvice says how a user gets the controllers of cgroups v2.
const cgroupAdvice = "to limit it, start the run where systemd delegates the controllers: systemd-run --user --scope -p Delegate=yes ebb run ...; with --memory SIZE ebb run refuses to run CMD without the limit"

// limitsOf names the limits of cgroup files in plain words.
func limitsOf(files []string) string {
	plain := map[string]string{"memory.max": "memory limit", "memory.swap.max": "swap limit", "cpu.max": "processor limit"}
	words := make([]string, len(files))
	for i, file := range files {
		words[i] = cmp.Or(plain[file], file)
	}
	return strings.Join(words, " and ")
}
