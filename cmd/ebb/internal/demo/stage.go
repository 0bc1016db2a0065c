package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Config configures the tour. All fields are required.
type Config struct {
	Issuer     string                      // URL of the embedded ebb
	Shop       *Shop                       // the resource server, not yet serving
	Host       *Host                       // the SSH host, not yet serving
	Payments   *Payments                   // the API behind the egress proxy, not yet serving
	DataDir    string                      // data directory of the embedded ebb
	Keys       map[string]jose.Signer      // of the principals, by ID
	Executable string                      // this binary
	Checkpoint func(context.Context) error // signs a checkpoint now
	Public     func() (jose.KeySet, error) // keys that verify the audit log
	Broker     *core.Broker                // of the embedded ebb, for actions that are possible only in the console
	Out        io.Writer
	HTTP       *http.Client
}

// IDs of the principals that the embedded ebb must know.
const (
	Runner   = "ci"         // runner; also an approver, so that it is refused only because the task is its own
	Approver = "ann"        // approver of group approvers
	Auditor  = "eve"        // auditor
	Operator = "ola"        // operator; stores the key of the API
	Server   = "orders-api" // resource server of the shop
)

// Provider is the name of the provider whose resource is the shop.
const Provider = "orders"

// stage is the state shared by the acts.
type stage struct {
	Config
	ctx     context.Context
	runner  *client.Operator
	ann     *client.Operator
	auditor *client.Operator
	ola     *client.Operator
	sandbox *remote
	task    string
	checks  int
	failed  int
	left    string // why the act with the sandbox was skipped; "" = it was not
}

// errFailed stops the tour, because later expectations depend on the failed
// one.
var errFailed = errors.New("an expectation did not hold")

// act prints a heading and the commands that do the same in a terminal.
func (s *stage) act(title string, commands ...string) {
	fmt.Fprintf(s.Out, "\n%s\n", title)
	for _, c := range commands {
		fmt.Fprintf(s.Out, "     $ %s\n", c)
	}
}

// say prints a line that is not an expectation.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(s.Out, "       "+format+"\n", args...)
}

// expect checks one expectation, which holds if err is nil.
func (s *stage) expect(err error, format string, args ...any) error {
	s.checks++
	word := "ok"
	if err != nil {
		s.failed++
		word = "FAIL"
	}
	fmt.Fprintf(s.Out, "  %-4s %s\n", word, fmt.Sprintf(format, args...))
	if err != nil {
		fmt.Fprintf(s.Out, "       %v\n", err)
		return fmt.Errorf("%w: %w", errFailed, err)
	}
	return nil
}

// steps runs all steps until one fails.
func steps(all ...func() error) error {
	for _, step := range all {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) operator(id string) (*client.Operator, error) {
	return client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: s.Issuer, HTTP: s.HTTP}, ClientID: id, Key: s.Keys[id]})
}

// short formats d without a trailing "0s".
func short(d time.Duration) string {
	if d >= time.Minute {
		return strings.TrimSuffix(d.String(), "0s")
	}
	return d.String()
}

// Run runs the tour. The error is nil only if every expectation held.
func Run(ctx context.Context, c Config, started time.Time) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // it takes seconds, more on a loaded machine
	defer cancel()
	s := &stage{Config: c, ctx: ctx}
	if s.runner, err = s.operator(Runner); err != nil {
		return err
	}
	if s.ann, err = s.operator(Approver); err != nil {
		return err
	}
	if s.auditor, err = s.operator(Auditor); err != nil {
		return err
	}
	if s.ola, err = s.operator(Operator); err != nil {
		return err
	}
	defer func() {
		if s.sandbox != nil {
			err = errors.Join(err, s.sandbox.close())
		}
	}()
	err = steps(s.open, s.read, s.askAndApprove, s.logIn, s.attacks, s.complete, s.sandboxed, s.prove)
	fmt.Fprintf(c.Out, "\n%d checks, %d failed, %.1f s. Everything ran in a temporary directory, which is removed.\n", s.checks, s.failed, time.Since(started).Seconds())
	if s.left != "" {
		fmt.Fprintln(c.Out, "The act with the hostile program was skipped: see above.")
	}
	if err == nil {
		fmt.Fprint(c.Out, next)
	}
	return err
}

// next ends the tour.
const next = `
Next:
  ebb demo --console    the web console of an ebb with a day of work, to click through
  ebb serve             an ebb of your own; docs/start/first-task.md leads through the first task
  docs/README.md        how to deploy ebb and to connect GitHub, AWS, Vault, PostgreSQL and others
`

// millis formats d in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// hostScope is the scope of a login on the SSH host.
const hostScope = SSHProvider + ":" + hostGroup + "/" + hostLogin + ":login"

// logIn gets a credential for a system that never calls ebb.
func (s *stage) logIn() error {
	s.act("A login on a host that does not call ebb", "ebb token --scope "+hostScope+" --wait")
	if err := s.expect(s.Host.serve(s.ctx, s.Issuer, s.HTTP), "an SSH host trusts ebb's CA and fetches its revocation list: %s", s.Host.Addr); err != nil {
		return err
	}
	if err := s.sandbox.enc.Encode(order{Do: "certify", Scope: hostScope}); err != nil {
		return err
	}
	req, err := s.waiting()
	if err == nil {
		err = s.atConsole(req, wire.ApprovalBody{})
	}
	if err := s.expect(err, "the sandbox generates an SSH key and requests %s; ann approves", hostScope); err != nil {
		return err
	}
	r, err := s.sandbox.hear()
	if err = good(r, err); err == nil && r.Scope != hostScope {
		err = fmt.Errorf("it got the scope %s", r.Scope)
	}
	if err := s.expect(err, "it gets a certificate over that key for %s", short(r.TTL)); err != nil {
		return err
	}
	r, err = s.enter(hostLogin)
	if err = good(r, err); err == nil && r.Out != hostGroup+": uptime\n" {
		err = fmt.Errorf("the host returned %q", r.Out)
	}
	if err := s.expect(err, "with the certificate it logs in as %s at %s and runs a command", hostLogin, hostGroup); err != nil {
		return err
	}
	return s.expect(s.shut(s.enter("root")), "a login as root is refused")
}

func (s *stage) enter(login string) (reply, error) {
	return s.sandbox.tell(order{Do: "login", Host: s.Host.Addr, Key: s.Host.Key(), Login: login})
}

// shut returns an error unless the host refused the login.
func (s *stage) shut(r reply, err error) error {
	if err == nil && r.Error == "" {
		return errors.New("the login was accepted")
	}
	return err
}

// hostLearns waits until the SSH host refuses the certificate, and checks that the lease
// records it.
func (s *stage) hostLearns(ended time.Time) error {
	var refused time.Time
	for end := ended.Add(30 * time.Second); refused.IsZero() && time.Now().Before(end); {
		r, err := s.enter(hostLogin)
		if err != nil {
			return err
		}
		if r.Error != "" {
			refused = time.Now()
		}
	}
	var err error
	if refused.IsZero() {
		err = errors.New("the host accepts the certificate after 30s")
	}
	if err := s.expect(err, "the SSH host, which fetches ebb's revocation list, refuses the certificate: after %s", millis(refused.Sub(ended))); err != nil {
		return err
	}
	s.say("Other hosts may fetch the list later. ebb waits until each of them must have it.")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		list, err := s.auditor.Credentials.List(s.ctx, client.CredentialFilter{TaskID: s.task, Provider: SSHProvider})
		if err == nil && (len(list.Items) != 1 || list.Items[0].Upstream == nil) {
			err = fmt.Errorf("the lease list has %d certificates", len(list.Items))
		}
		if err != nil {
			return s.expect(err, "the auditor reads the certificate's lease")
		}
		l := list.Items[0]
		if l.State == wire.LeaseRevoked {
			return s.expect(nil, "the lease of the certificate is %s (proof: %s): after %.1f s", l.State, l.Upstream.Proof, time.Since(ended).Seconds())
		}
		if time.Now().After(end) {
			return s.expect(fmt.Errorf("its state is %s", l.State), "the lease of the certificate is revoked")
		}
	}
}
