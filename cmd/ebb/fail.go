package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/config"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// exit is the exit code of the process.
type exit int

// Exit codes; documented in `ebb --help`.
const (
	exitOK          exit = 0
	exitFailure     exit = 1
	exitUsage       exit = 2
	exitRefused     exit = 3
	exitPending     exit = 4
	exitUnavailable exit = 5
)

// failure is an error with an exit code and the next step for the user.
type failure struct {
	code exit
	said string
	next string
}

func (f *failure) Error() string { return f.said }

// usage is an error that the user's input caused.
func usage(said, next string) error { return &failure{exitUsage, said, next} }

// fail is every other error that the command detects itself.
func fail(said, next string) error { return &failure{exitFailure, said, next} }

// exitOf maps an error to an exit code.
func exitOf(err error) exit {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return exitUsage
	}
	p, answered := errors.AsType[*client.Problem](err)
	if !answered {
		if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, context.DeadlineExceeded) || distrusted(err) {
			return exitUnavailable
		}
		return exitFailure
	}
	switch p.Kind {
	case wire.KindDenied, wire.KindForbidden, wire.KindStepUpRequired, wire.KindUnauthenticated, wire.KindInvalidGrant, wire.KindInvalidEvidence, wire.KindInvalidProof,
		wire.KindInvalidScope, wire.KindInvalidTarget, wire.KindInvalidDetails, "invalid_token", "insufficient_scope":
		return exitRefused
	case wire.KindPending, wire.KindSlowDown, wire.KindExpiredRequest, wire.KindAskRequired:
		return exitPending
	case wire.KindUnavailable, wire.KindTooMany:
		return exitUnavailable
	}
	if p.Status >= http.StatusInternalServerError {
		return exitUnavailable
	}
	return exitFailure
}

// distrusted reports whether the server's certificate was rejected.
func distrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// explain formats an error for a person. Control characters in a server's text
// are escaped; a list of configuration problems keeps its lines.
func explain(err error) string {
	if ps, ok := errors.AsType[config.Problems](err); ok {
		return ps.Error()
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.said
	}
	return out.Line(err.Error())
}

// nextStep returns the next step for err, "" if the error already names it.
func nextStep(err error, code exit) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.next
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
	if distrusted(err) {
		return "name the CA of ebb's certificate with --ca-file or EBB_CA_FILE, and check that --url has the certificate's host name"
	}
	switch code {
	case exitUsage:
		return "see `ebb help` and `ebb COMMAND --help`"
	case exitUnavailable:
		return "check that `ebb serve` is running (`ebb doctor`), or name another ebb with --url or EBB_URL"
	case exitPending:
		return "the request needs an approval: see `ebb requests list`, or wait for it with --wait"
	}
	return "run `ebb doctor` to check the deployment"
}
