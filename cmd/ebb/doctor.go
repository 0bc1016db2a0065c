package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/internal/config"
	"ebb/cmd/ebb/internal/out"
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

// doctor collects findings. Every check looks and changes nothing.
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

// failed turns an error of our own into a finding.
func (d *doctor) failed(check string, err error, remedy string) {
	if f, ok := errors.AsType[*failure](err); ok {
		d.fail(check, f.said, f.next)
		return
	}
	d.fail(check, strings.ReplaceAll(err.Error(), "\n", "; "), remedy)
}

func newDoctor(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check a deployment and say what to fix", Args: cobra.NoArgs,
		Long: `Check the configuration (--config and EBB_ variables), the data directory, keys,
certificates, policies, both stores, and the ebb that runs: its address, its clock,
what it depends on, and whether the local key gets in. Nothing is changed. Exit code
1 when a check failed, also when no ebb answers; warnings alone are no failure.
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
			return fail(fmt.Sprintf("%d check(s) failed", bad), "do what the remedies say, then run it again")
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
	d.dataDir()
	d.signingKeys()
	d.certificate()
	d.policy()
	d.breakGlass()
	d.ok("attestors", "%d configured beside enroll", len(d.cfg.Attestors))
	d.ok("providers", "%d configured", len(d.cfg.Providers))
	d.journal(ctx)
	d.ledger(ctx)
	d.server(ctx)
	d.console(ctx)
	return nil
}
