package command

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Exit is the exit code of the process.
type Exit int

// Exit codes; documented in `ebb --help` and `ebb-bench --help`.
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
		return f.Text
	}
	return out.Line(err.Error())
}

// NextStep returns the next step for err of a program, "" if the error already names it.
func NextStep(program string, err error, code Exit) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Next
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return "" // each has its own remedy
	}
	p, answered := errors.AsType[*client.Problem](err)
	if answered && p.Advice != nil && p.Advice.WouldAllow != "" {
		return "this scope needs no approval: --scope '" + out.Line(p.Advice.WouldAllow) + "'"
	}
	if answered && p.Kind == wire.KindStepUpRequired && p.Page != "" {
		return "approve it at " + p.Page
	}
	if answered && p.Detail != "" {
		return "" // the detail says it already
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
