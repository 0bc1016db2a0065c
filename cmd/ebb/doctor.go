package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes/policy"
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
	{Name: "said", Cell: func(f finding) string { return f.Said }, Form: out.Prose},
	{Name: "remedy", Cell: func(f finding) string { return f.Remedy }, Form: out.Remedy},
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
code is 0 if no check failed (warnings are no failure), 1 if a check failed or no ebb
answers, and 2 for a wrong flag. Every line that is not ok has a remedy, after ->.
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
			d.fail("config "+p.Key, strings.TrimSpace(p.Where+" "+p.Wrong), cmp.Or(p.Remedy, "correct the key"))
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

// certWarning is the remaining lifetime below which a certificate causes a
// warning.
const certWarning = 21 * 24 * time.Hour

func (d *doctor) dataDir() {
	info, err := os.Stat(d.cfg.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn("data directory", d.cfg.DataDir+" does not exist yet", "`ebb serve` creates it")
		return
	case err != nil:
		d.fail("data directory", err.Error(), "check its owner and mode")
		return
	case info.Mode().Perm()&0o077 != 0:
		d.fail("data directory", fmt.Sprintf("other users can enter %s (mode %04o)", d.cfg.DataDir, info.Mode().Perm()), "chmod 700 "+d.cfg.DataDir)
		return
	}
	if err := wholeData(d.cfg); d.cfg.Database == "" && err != nil {
		d.failed("data directory", err, "restore the data directory from the backup")
		return
	}
	d.ok("data directory", "%s, mode 0700", d.cfg.DataDir)
	for _, name := range []string{operatorKey, approverKey} {
		if _, err := keyfile.Read((keyCommands{d.c}).keyPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.fail("local key "+name, err.Error(), "chmod 600, or remove the file so that `ebb serve` creates a new one")
		}
	}
}

func (d *doctor) signingKeys() {
	if _, err := os.Stat(d.cfg.Signing.KeysDir); errors.Is(err, fs.ErrNotExist) {
		d.warn("signing keys", "there are none yet", "`ebb serve` creates them")
		return
	}
	dir, err := keys.Open(keysConfig(d.cfg))
	if err != nil {
		d.failed("signing keys", err, "restore the directory from the backup")
		return
	}
	now := time.Now()
	for _, k := range keyLines(dir.Ring(), now) {
		if k.State != "signs" {
			continue
		}
		since := out.Time(k.ActiveFrom) + " (" + out.Relative(k.ActiveFrom, now) + ")"
		if !k.RetireAt.IsZero() && now.After(k.RetireAt.Add(24*time.Hour)) {
			d.warn("signing keys", fmt.Sprintf("%s has signed since %s and should have been replaced", k.KID, since), "check that an ebb is running, which rotates keys by itself, or run `ebb keys rotate`")
			return
		}
		d.ok("signing keys", "%s (%s) signs since %s", k.KID, k.Alg, since)
	}
}

func (d *doctor) certificate() {
	if d.cfg.TLS.Cert == "" {
		if d.cfg.Loopback() {
			d.ok("certificate", "none, and none is needed on loopback")
		}
		return
	}
	pair, err := tls.LoadX509KeyPair(d.cfg.TLS.Cert, d.cfg.TLS.Key)
	if err != nil {
		d.fail("certificate", err.Error(), "check tls.cert and tls.key")
		return
	}
	if info, err := os.Stat(d.cfg.TLS.Key); err == nil && info.Mode().Perm()&0o007 != 0 {
		d.warn("certificate", fmt.Sprintf("other users can read %s (mode %04o)", d.cfg.TLS.Key, info.Mode().Perm()), "chmod 600 "+d.cfg.TLS.Key)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		d.fail("certificate", err.Error(), "check tls.cert")
		return
	}
	if u, err := url.Parse(d.cfg.PublicURL); err == nil && u.Hostname() != "" {
		if err := cert.VerifyHostname(u.Hostname()); err != nil {
			d.fail("certificate", "the certificate is not valid for "+u.Hostname(), "get a certificate for the host of public_url")
			return
		}
	}
	now := time.Now()
	ends := out.Relative(cert.NotAfter, now) + " (" + out.Time(cert.NotAfter) + ")"
	switch left := cert.NotAfter.Sub(now); {
	case left <= 0:
		d.fail("certificate", "it expired "+ends, "renew it and restart ebb")
	case left < certWarning:
		d.warn("certificate", "it expires "+ends, "renew it and restart ebb")
	default:
		d.ok("certificate", "expires %s", ends)
	}
}

func (d *doctor) policy() {
	set, err := loadPolicies(d.cfg.PolicyDir)
	if err != nil {
		d.failed("policy", err, "`ebb policy check`")
		return
	}
	if d.cfg.PolicyDir == "" {
		d.ok("policy", "the built-in starter policy")
		return
	}
	files, err := policy.TestFiles(os.DirFS(d.cfg.PolicyDir))
	if err != nil {
		d.failed("policy", err, "check policy_dir")
		return
	}
	report := policy.RunTests(set, files)
	switch {
	case report.Failed > 0:
		d.warn("policy", fmt.Sprintf("%d of %d golden tests fail", report.Failed, report.Failed+report.Passed), "`ebb policy test` lists them")
	case report.Passed == 0:
		d.warn("policy", out.Count(set.Len(), "policy", "policies")+" loaded, none of them tested", "add *.test.yaml files to policy_dir")
	default:
		d.ok("policy", "%s loaded, %s passed", out.Count(set.Len(), "policy", "policies"), out.Count(report.Passed, "test", "tests"))
	}
}

// console reports the console's address, and a remedy for browsers that do not
// resolve its name. d.url must be set.
func (d *doctor) console(ctx context.Context) {
	if _, err := os.Stat(d.cfg.Signing.KeysDir); d.c.url != "" || d.url == "" || err != nil {
		return // the name is known only for an ebb on this machine that has created its keys
	}
	dir, err := keys.Open(keysConfig(d.cfg))
	if err != nil {
		return // an earlier line of the report names the problem of the keys
	}
	pages, err := pagesURL(d.url, dir.Ring())
	if err != nil {
		d.failed("console", err, "check public_url")
		return
	}
	if pages == d.url {
		d.ok("console", "at %s", pages)
		return
	}
	u, err := url.Parse(pages)
	if err != nil {
		d.failed("console", err, "check public_url")
		return
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	d.consoleName(pages, u.Hostname(), addrs, err)
}

// consoleName judges the addresses to which this machine's resolver resolves
// the console's name.
func (d *doctor) consoleName(pages, name string, addrs []netip.Addr, err error) {
	line := "add the line `127.0.0.1 " + name + "` to /etc/hosts"
	switch {
	case err != nil || len(addrs) == 0:
		d.ok("console", "at %s. Chromium and Firefox resolve it to this machine; for Safari, curl and others %s", pages, line)
	case slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() }):
		d.warn("console", "this machine's resolver resolves "+name+" to another machine", line+", or a browser that uses the resolver connects there")
	default:
		d.ok("console", "at %s", pages)
	}
}

// presence reports whether an approver can prove user presence at the console,
// which an approval of high risk requires (docs/reference/risk.md).
func (d *doctor) presence() {
	const check, said = "approvals", "no request of high risk can be approved: "
	switch {
	case d.cfg.Loopback() && len(d.cfg.Principals) > 0 && !slices.ContainsFunc(d.cfg.Principals, approves):
		d.warn(check, "no request can be approved: none of the configured principals has the role approver, and they replace local-approver", "add a principal with the role approver; `ebb config check` prints the lines that keep local-approver")
	case d.cfg.Loopback() && slices.Contains(replaced(d.cfg), "local-approver"):
		d.ok(check, "the principals with the role approver sign in by `ebb console --client-id ID --key FILE`, and can approve high risk")
	case d.cfg.Loopback():
		d.ok(check, "an approver on this machine signs in by `ebb console`, and can approve high risk")
	case d.cfg.Console.OIDC.Issuer == "":
		d.warn(check, said+"ebb listens on "+d.cfg.Listen+", which is not loopback, and console.oidc.issuer is empty, so no approver can sign in to the console", "set console.oidc.issuer, client_id and client_secret_file, and name groups in console.roles.approver")
	case len(d.cfg.Console.Roles.Approver) == 0:
		d.warn(check, said+"console.roles.approver is empty, so no person who signs in by console.oidc is an approver", "name groups in console.roles.approver")
	default:
		d.ok(check, "approvers sign in by %s, and can approve high risk", d.cfg.Console.OIDC.Issuer)
	}
}

func approves(p config.Principal) bool { return slices.Contains(p.Roles, broker.RoleApprover) }

// breakGlass reports whether a notification is sent when a person approves
// alone in an emergency.
func (d *doctor) breakGlass() {
	if !d.cfg.Console.BreakGlass.On() {
		return
	}
	hears := func(r config.NotifyRoute) bool {
		return len(r.Channels) > 0 && len(r.Groups)+len(r.Providers) == 0 && (len(r.Events) == 0 || slices.Contains(r.Events, string(notify.BreakGlass)))
	}
	if !slices.ContainsFunc(d.cfg.Notify.Routes, hears) {
		d.warn("break-glass", "an approval by one person alone is not notified: no route takes "+string(notify.BreakGlass), "add a route without groups and providers to notify.routes, such as {events: ["+string(notify.BreakGlass)+"], channels: [...]}")
		return
	}
	d.ok("break-glass", "a route takes its events")
}
