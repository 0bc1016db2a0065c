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
	last    time.Time // end of the previous step
	checks  int
	failed  int
	left    string // why the act with the sandbox was skipped; "" = it was not
}

// errFailed stops the tour, because later expectations depend on the failed
// one.
var errFailed = errors.New("an expectation did not hold")

// act prints a heading.
func (s *stage) act(title string) { fmt.Fprintf(s.Out, "\n%s\n", title) }

// say prints a line that is not an expectation.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(s.Out, "       "+format+"\n", args...)
	s.last = time.Now()
}

// expect checks one expectation, which holds if err is nil.
func (s *stage) expect(err error, format string, args ...any) error {
	took := time.Since(s.last)
	s.checks++
	word := "ok"
	if err != nil {
		s.failed++
		word = "FAIL"
	}
	fmt.Fprintf(s.Out, "  %-4s %-86s %6.1f ms\n", word, fmt.Sprintf(format, args...), float64(took.Microseconds())/1000)
	s.last = time.Now()
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
