package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/web/client"
)

// Config is what the tour needs. All members are required.
type Config struct {
	Issuer     string                      // URL of the embedded ebb
	Shop       *Shop                       // the resource server, not yet serving
	Host       *Host                       // the SSH host, not yet serving
	Payments   *Payments                   // the API behind the egress proxy, not yet serving
	DataDir    string                      // of the embedded ebb
	Keys       map[string]jose.Signer      // of the principals, by id: see People
	Executable string                      // this binary
	Checkpoint func(context.Context) error // signs the chain now
	Public     func() (jose.KeySet, error) // keys that verify the record
	Broker     *broker.Broker              // of the embedded ebb, for what a person does in the console alone
	Out        io.Writer
	HTTP       *http.Client
}

// Ids of the principals that the embedded ebb must know.
const (
	Runner   = "ci"         // runner; and approver, so that its refusal is about whose task it is
	Approver = "ann"        // approver of group approvers
	Auditor  = "eve"        // auditor
	Operator = "ola"        // operator, who gives ebb the key of the API
	Server   = "orders-api" // resource server of the shop
)

// Provider is the name of the provider whose resource is the shop.
const Provider = "orders"

// stage is what the acts share.
type stage struct {
	Config
	ctx     context.Context
	runner  *client.Operator
	ann     *client.Operator
	auditor *client.Operator
	ola     *client.Operator
	sandbox *remote
	task    string
	last    time.Time // end of the step before
	checks  int
	failed  int
	left    string // why there was no box; "" = there was one
}

// errFailed ends the tour: what comes after would fail for the same reason.
var errFailed = errors.New("an expectation did not hold")

// act prints a heading.
func (s *stage) act(title string) { fmt.Fprintf(s.Out, "\n%s\n", title) }

// say prints a line that is no expectation.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(s.Out, "       "+format+"\n", args...)
	s.last = time.Now()
}

// expect checks one expectation. A nil error is what was expected.
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

// steps runs them until one fails.
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

// short is d without units that are zero.
func short(d time.Duration) string {
	if d >= time.Minute {
		return strings.TrimSuffix(d.String(), "0s")
	}
	return d.String()
}
