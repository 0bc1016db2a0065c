package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/internal/box"
)

// runFlags are the flags of `ebb run` beside those of its task.
type runFlags struct {
	task       taskFlags
	kind       string // of box
	image      string // of a box of Docker's
	tool, work string
	workMode   string // protect or open
	user       string
	read, env  []string
	grace      time.Duration

	credentials, git, hosts, ssh []string
	aws                          string
	memory                       string  // "" = as much as mostMemory says
	cpus                         float64 // 0 = all
	pids                         uint64
	join                         string // the task; "" = one of its own
	pg                           string
}

// runHeartbeat is how long a task of `ebb run` lives without a sign of life, if nobody says otherwise.
const runHeartbeat = 30 * time.Second

func newRun(c *cli) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use: "run [flags] -- CMD [ARG...]", Short: "Open a task, run CMD in a box, complete the task when CMD ends", Args: cobra.MinimumNArgs(1),
		Long: `Open a task, run CMD in a box, and complete the task when CMD exits or dies: every
credential of it is dead then, and so is everything that CMD has started. The task may ask
for what --scope says, and --scope is required (but with --join).

Where no ebb is named and none of this user is running on this machine, the run has its
own, with the configuration and the data directory of 'ebb serve', until it is over.

The box is made by bubblewrap, or with --box docker by the daemon of Docker from --image,
which then has the programs. In it are the machine's programs to read, the work
directory as /work (without write access to what makes programs run by themselves: --work-mode), an empty home, and no network: 'ebb token --scope ...' asks for a
credential there, over a socket of this process, which keeps the sandbox's key, and
--credential puts a placeholder for one into a variable. The only way out is ebb's egress
proxy, which puts credentials where their placeholders are. Where no box can be made CMD
does not run; --box none runs it as a plain child process, which finds EBB_URL,
EBB_TASK_ID, EBB_CLIENT_ID and EBB_KEY_FILE in its environment.

Signals are passed on, and so is CMD's exit code; a CMD that died of a signal gives
128 + its number. If ebb itself dies, the box dies with it, and the missing heartbeat
ends the task.`,
	}
	flags.task.add(cmd, runHeartbeat)
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&flags.kind, "box", "auto", "what keeps CMD apart: auto, bwrap (bubblewrap) or docker, or none; auto is docker where there is no bubblewrap and --image is given")
	f.StringVar(&flags.image, "image", "", "`image` of a box of Docker's, best by its digest; none is fetched")
	f.StringVar(&flags.tool, "tool", "", "tool that CMD is: all that the box asks for is asked for it")
	f.StringVar(&flags.work, "work", ".", "`directory` that the box may write to, as /work")
	f.StringVar(&flags.workMode, "work-mode", workProtect, "protect: files of the work directory that make programs run by themselves (settings and hooks of git, of editors, of CI) are read-only in the box, and new ones are set aside at the end; open: they are named at the end")
	f.StringArrayVar(&flags.read, "read", nil, "`path` that the box may read, at the same path, repeatable")
	f.StringArrayVar(&flags.env, "env", nil, "variable of the box, `NAME=VALUE`, or NAME to pass yours on, repeatable")
	f.StringArrayVar(&flags.credentials, "credential", nil, "variable of the box that holds a placeholder, `NAME=SCOPE`, repeatable")
	f.StringArrayVar(&flags.git, "git", nil, "host that git in the box may ask a credential for, `HOST=SCOPE`, repeatable")
	f.StringVar(&flags.aws, "aws", "", "`SCOPE` of the credentials that AWS's clients in the box find by themselves")
	f.StringArrayVar(&flags.ssh, "ssh", nil, "host that ssh in the box logs in at, with a certificate whose key stays here, `HOST[:PORT]=SCOPE`, repeatable")
	f.StringArrayVar(&flags.hosts, "host", nil, "`HOST[:PORT]` that programs reach which ignore HTTPS_PROXY, repeatable")
	f.StringVar(&flags.pg, "pg", "", "`SCOPE` of a database that psql in the box and its like find in their environment")
	f.StringVar(&flags.user, "user", "", "as root: who the box is, `UID[:GID]`; default: the owner of the work directory")
	f.StringVar(&flags.memory, "memory", "", "how much memory all of the box may have, like `4G`; default: three quarters of the machine's, where that can be bounded")
	f.Float64Var(&flags.cpus, "cpus", 0, "how many processors all of the box may use, like 0.5; 0 = all")
	f.Uint64Var(&flags.pids, "pids", defaultPIDs, "how many processes and threads all of the box may have")
	f.StringVar(&flags.join, "join", "", "run CMD in another box of `TASK`, which an ebb run of yours has opened; its end ends the box alone")
	f.DurationVar(&flags.grace, "grace", 10*time.Second, "how long CMD has to end when its task is over, before it is killed")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		if flags.join != "" {
			if err := flags.joinable(); err != nil {
				return err
			}
		}
		if flags.task.heartbeat < 2*time.Second {
			return usage("--heartbeat is too short", "choose at least 2s; without heartbeats a dead ebb would leave the task open")
		}
		if flags.kind == "none" && cmd.Flags().Changed("work-mode") && flags.workMode == workProtect {
			return usage("--work-mode protect is for a box", "leave it out with --box none: CMD writes to all that you can write to")
		}
		if !cmd.Flags().Changed("name") {
			flags.task.name = filepath.Base(args[0])
		}
		return c.runIn(cmd.Context(), &flags, args)
	})
	return c.remote(cmd)
}

// runIn opens the task, runs the command and ends the task, whatever happened.
func (c *cli) runIn(ctx context.Context, flags *runFlags, args []string) (err error) {
	in, err := c.boxOf(flags, args)
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
	task, ticket, err := o.OpenTask(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.complete(ctx, o, task.ID)) }()
	if ticket == nil {
		return fail("ebb gave no ticket", "open the task with --attestor enroll")
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
	// What serves the box does so until the box is over, not until somebody presses a key.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	// A person may take longer to decide than ebb waits for a sign of life.
	over := make(chan struct{})
	go c.beat(serving, o, task, over)
	if err := c.furnish(ctx, serving, o, task, in, *ticket); err != nil {
		return err
	}
	if err := c.confine(in); err != nil {
		return err
	}
	return c.watch(in, over, flags.grace)
}

// failure says what to do when there is no box, or no command in it.
func (b *boxed) failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, box.ErrCommand):
		return usage(err.Error(), "name a program that can be run there; --read shows the box more of this machine")
	case errors.Is(err, box.ErrNone) && b.image != "":
		return fail(err.Error(), "see that this user may use a Docker daemon of this machine, not rootless, which has the image, or choose another --box")
	case errors.Is(err, box.ErrPlace):
		return usage(err.Error(), "choose another --work or --read: a directory of a project, with nothing else in it; for too many files to protect, --work-mode open")
	case errors.Is(err, box.ErrNone):
		return fail(err.Error(), "install bubblewrap and let this user make user namespaces, have Docker make the box (--box docker --image NAME), or run CMD without one: --box none")
	}
	return err
}
