package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Exit is the exit code of the process.
type Exit int

// Exit codes; documented in `ebb help exit-codes` and `ebb-bench --help`.
const (
	ExitOK          Exit = 0
	ExitFailure     Exit = 1
	ExitUsage       Exit = 2
	ExitRefused     Exit = 3
	ExitPending     Exit = 4
	ExitUnavailable Exit = 5
)

// Failure is an error with an exit code and the next step for the user.
type Failure struct {
	Code Exit
	Text string
	Next string
}

// Error returns the text without the next step.
func (f *Failure) Error() string { return f.Text }

// Usage returns an error that the user's input caused.
func Usage(text, next string) error { return &Failure{ExitUsage, text, next} }

// Fail returns an error of any other cause that the command detects itself.
func Fail(text, next string) error { return &Failure{ExitFailure, text, next} }

// ExitOf maps an error to an exit code.
func ExitOf(err error) Exit {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Code
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return ExitUsage
	}
	p, answered := errors.AsType[*client.Problem](err)
	if !answered {
		if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, context.DeadlineExceeded) || Distrusted(err) {
			return ExitUnavailable
		}
		return ExitFailure
	}
	switch p.Kind {
	case wire.KindDenied, wire.KindForbidden, wire.KindStepUpRequired, wire.KindUnauthenticated, wire.KindInvalidGrant, wire.KindInvalidEvidence, wire.KindInvalidProof,
		wire.KindInvalidScope, wire.KindInvalidTarget, wire.KindInvalidDetails, "invalid_token", "insufficient_scope":
		return ExitRefused
	case wire.KindPending, wire.KindSlowDown, wire.KindExpiredRequest, wire.KindAskRequired:
		return ExitPending
	case wire.KindUnavailable, wire.KindTooMany:
		return ExitUnavailable
	}
	if p.Status >= http.StatusInternalServerError {
		return ExitUnavailable
	}
	return ExitFailure
}

// stepMark begins a further step.
const stepMark = "\n  -> "

// steps returns the steps that a server names. They are its text: it is drawn so that nothing can hide in a
// terminal, and never run.
func steps(p *client.Problem) string {
	var all []string
	if p.Advice != nil && p.Advice.WouldAllow != "" {
		all = append(all, "this scope needs no approval: --scope '"+out.Line(p.Advice.WouldAllow)+"'")
	}
	for _, step := range p.Next {
		all = append(all, out.Line(step))
	}
	return strings.Join(all, stepMark)
}

// Distrusted reports whether the server's certificate was rejected.
func Distrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// Explain formats an error for a person. Control characters in a server's text
// are escaped; a list of configuration problems keeps its lines.
func Explain(err error) string {
	if ps, ok := errors.AsType[config.Problems](err); ok {
		return ps.Error()
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return drawn(f.Text)
	}
	return out.Line(err.Error())
}

// drawn escapes the control characters in text, except for the ends of its lines. A failure may
// repeat a file or an answer.
func drawn(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !jose.Plain(line) {
			lines[i] = out.Whole(line)
		}
	}
	return strings.Join(lines, "\n")
}

// remedies are the next steps for refusals of a server that names none.
var remedies = map[wire.Kind]string{
	wire.KindNotFound:        "list the ids and names that you may see: `ebb task list`, `ebb requests list --all`, `ebb leases list`, `ebb providers list`",
	wire.KindInvalid:         "change the value that the answer names; `ebb COMMAND --help` describes them",
	wire.KindInvalidScope:    "list the providers that a scope can name: `ebb providers list`",
	wire.KindInvalidEvidence: "get a new ticket: `ebb task ticket TASK`; explain other evidence: `ebb attest explain`",
	wire.KindUnauthenticated: "name the principal and its registered key with --client-id and --key",
	wire.KindForbidden:       "name a principal that has the role with --client-id and --key",
	wire.KindConflict:        "look at the present state with the command show, and try again",
}

// NextStep returns the next step for err of a program, "" if the error already names it. Several steps are
// separated by stepMark.
func NextStep(program string, err error, code Exit) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		return drawn(f.Next)
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return "" // each has its own remedy
	}
	p, answered := errors.AsType[*client.Problem](err)
	if answered && p.Kind == wire.KindStepUpRequired && p.Page != "" {
		return "approve it at " + p.Page
	}
	if answered && (len(p.Next) > 0 || p.Detail != "" || p.Advice != nil) {
		return cmp.Or(steps(p), remedies[p.Kind])
	}
	if Distrusted(err) {
		return "name the CA of ebb's certificate with --ca-file or EBB_CA_FILE, and check that --url has the certificate's host name"
	}
	switch code {
	case ExitUsage:
		return "see `" + program + " help` and `" + program + " COMMAND --help`"
	case ExitUnavailable:
		return "check that `ebb serve` is running (`ebb doctor`), or name another ebb with --url or EBB_URL"
	case ExitPending:
		return "the request needs an approval: see `ebb requests list`, or wait for it with --wait"
	}
	return "run `ebb doctor` to check the deployment"
}
