package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

func newConsole(c *cli) *cobra.Command {
	as := "approver"
	cmd := &cobra.Command{
		Use: "console", Short: "Create a link that signs you in to the web console", Args: cobra.NoArgs,
		Long: `Create a link that signs you in to the web console of the ebb on this machine. The
link works once, within two minutes. Without a configuration there are two local
people, because no person can approve requests of their own tasks: the approver, and
the operator, who can also read the whole audit log.

On loopback the console has a host name of its own under localhost, so that no other
program of this machine receives its cookies. Chromium and Firefox resolve the name to
this machine; for other browsers ` + "`ebb doctor`" + ` prints the line to add to /etc/hosts.`,
	}
	cmd.Flags().Var(command.NewChoice(&as, "approver", "operator"), "as", "local person to sign in; ignored with --key")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(map[string]string{"approver": approverKey, "operator": operatorKey}[as])
		if err != nil {
			return err
		}
		link, until, err := o.SignInLink(cmd.Context(), "")
		if err != nil {
			return err
		}
		c.sayf("ebb: the link works once, until %s (%s)\n", out.Time(until), out.Relative(until, time.Now()))
		_, err = fmt.Fprintln(c.stdout, link.Reveal())
		return err
	})
	return c.remote(cmd)
}

// pageFile redirects a browser to the console. The file is in the data
// directory, which only this user can read.
const pageFile = "console.html"

// stepUp opens the console's page of a request whose approval was refused
// because it needs proofs that only the console accepts. err is that refusal;
// the returned error adds the next step.
func (c requestCommands) stepUp(ctx context.Context, o *client.Operator, id string, err error) error {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.Kind != wire.KindStepUpRequired || !c.hasBrowser() {
		return err
	}
	address, other := p.Page, "approve it at "+p.Page
	if address == "" {
		other = "run `ebb console` for a sign-in link; the request is in the approval queue"
		if address, ok = c.localPage(ctx, o, id); !ok {
			return err
		}
	}
	if openBrowser(address, c.environ) != nil {
		return err
	}
	return &failure{Code: exitRefused, Text: explain(err), Next: "its page opens in your browser; if it does not: " + other}
}

// hasBrowser reports whether standard input is a terminal and a display is
// available.
func (c requestCommands) hasBrowser() bool {
	return terminal(c.stdin) && (runtime.GOOS == "darwin" || c.env("DISPLAY") != "" || c.env("WAYLAND_DISPLAY") != "")
}

// localPage writes a page that redirects to a sign-in link for the request on a
// console on loopback, and returns the page's file URL. Every user of the
// machine can read the arguments of the browser in /proc. They must contain
// neither the link, which is a credential for two minutes, nor the console's
// host name, which is a secret (docs/reference/console.md). So the browser gets the name
// of a file.
func (c requestCommands) localPage(ctx context.Context, o *client.Operator, id string) (address string, ok bool) {
	link, _, err := o.SignInLink(ctx, id)
	if err != nil {
		return "", false // the server makes no link: the person signs in with the identity provider
	}
	f, err := os.CreateTemp(c.dataDir(), "."+pageFile+"-*") // mode 0600
	if err != nil {
		return "", false
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(`<!doctype html><meta charset="utf-8"><title>ebb</title><meta http-equiv="refresh" content="0;url=` + html.EscapeString(link.Reveal()) + "\">\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return "", false
	}
	path, err := filepath.Abs(filepath.Join(c.dataDir(), pageFile))
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), err == nil
}

// openBrowser starts the user's browser and does not wait for it. The browser
// runs in a session of its own, so that it stays open when the terminal closes.
func openBrowser(address string, environ []string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	cmd := exec.Command(name, address)
	cmd.Env, cmd.SysProcAttr = environ, &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}
