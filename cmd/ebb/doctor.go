package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// finding is one line of ebb doctor.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn, fail
	Said   string `json:"said"`
	Remedy string `json:"remedy,omitempty"`
}

var findingColumns = []out.Column[finding]{
	{Name: "state", Cell: func(f finding) string { return f.State }},
	{Name: "check", Cell: func(f finding) string { return f.Check }},
	{Name: "said", Cell: func(f finding) string { return f.Said }},
	{Name: "remedy", Cell: func(f finding) string { return f.Remedy }},
}

// doctor collects findings. No check changes anything.
type doctor struct {
	c    *cli
	cfg  config.Config
	http *http.Client
	url  string
	all  []finding
}

func (d *doctor) ok(check, format string, args ...any) {
	d.all = append(d.all, finding{Check: check, State: "ok", Said: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, said, remedy string) {
	d.all = append(d.all, finding{check, "warn", said, remedy})
}

func (d *doctor) fail(check, said, remedy string) {
	d.all = append(d.all, finding{check, "fail", said, remedy})
}

// failed reports an error as a finding. A *failure has its own remedy, which
// takes the place of remedy.
func (d *doctor) failed(check string, err error, remedy string) {
	if f, ok := errors.AsType[*failure](err); ok {
		d.fail(check, f.Text, f.Next)
		return
	}
	d.fail(check, strings.ReplaceAll(err.Error(), "\n", "; "), remedy)
}

func newDoctor(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check a deployment and print remedies", Args: cobra.NoArgs,
		Long: `Check the configuration (--config and EBB_ variables), the data directory, keys,
certificates, policies, the database, Redis, and the running ebb: its address, clock
and dependencies, and whether it accepts the local key. Nothing is changed. The exit
code is 1 if a check failed or no ebb answers; warnings alone are no failure.
For the health check of a container there is ` + "`ebb health`" + `.`,
	}
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		d := &doctor{c: c}
		ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
		defer cancel()
		if err := d.examine(ctx); err != nil {
			return err
		}
		if err := out.List(c.stdout, c.format, findingColumns, d.all); err != nil {
			return err
		}
		bad := 0
		for _, f := range d.all {
			if f.State == "fail" {
				bad++
			}
		}
		if bad > 0 {
			return fail(fmt.Sprintf("%d check(s) failed", bad), "apply the remedies, then run the command again")
		}
		return nil
	})
	return c.output(c.remote(cmd))
}

func (d *doctor) examine(ctx context.Context) (err error) {
	if d.http, err = d.c.httpClient(); err != nil {
		return err
	}
	d.http.Timeout = 5 * time.Second
	if d.cfg, err = d.c.checkConfig(); err != nil {
		ps, ok := errors.AsType[config.Problems](err)
		if !ok {
			return err
		}
		for _, p := range ps {
			d.fail("config "+p.Key, strings.TrimSpace(p.Where+" "+p.Wrong), p.Remedy)
		}
		return nil
	}
	d.ok("config", "no problem found")
	if len(d.cfg.ServiceLinks) > 0 {
		d.warn("config", "ignored "+strings.Join(d.cfg.ServiceLinks, ", ")+", which Kubernetes sets for Services", withoutLinks)
	}
	d.dataDir()
	d.signingKeys()
	d.certificate()
	d.policy()
	d.presence()
	d.breakGlass()
	d.ok("attestors", "%d configured beside enroll", len(d.cfg.Attestors))
	d.ok("providers", "%d configured", len(d.cfg.Providers))
	d.store(ctx)
	d.liveStore(ctx)
	d.server(ctx)
	d.console(ctx)
	return nil
}
