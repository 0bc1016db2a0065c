package vaultapi

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/provider"
)

// Status is the HTTP status of an error's answer, or 0 when there was none.
func Status(err error) int {
	if re, ok := errors.AsType[*api.ResponseError](err); ok {
		return re.StatusCode
	}
	return 0
}

// Judged reports whether Vault itself refused the call. A proxy in front of it, or another server
// at its address, also answers with a status, but not with errors in Vault's JSON.
func Judged(err error) bool {
	re, ok := errors.AsType[*api.ResponseError](err)
	return ok && !re.RawError && len(re.Errors) > 0
}

// Refused reports whether Vault itself answered with this status. A proxy may answer with the same
// status although Vault did the work.
func Refused(err error, status int) bool { return Status(err) == status && Judged(err) }

// Says reports whether Vault's answer has a line that contains text. Vault has no
// error codes: its own clients compare words as well.
func Says(err error, text string) bool {
	re, ok := errors.AsType[*api.ResponseError](err)
	if !ok || re.RawError {
		return false
	}
	for _, line := range re.Errors {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// Done returns an error unless Vault itself confirmed a call without a result: status 204, or
// warnings under the request's id. A page that a proxy sends with status 200 is neither.
func Done(out *api.Secret) error {
	if out != nil && out.RequestID == "" {
		return errors.New("vault: the answer is not Vault's: nobody knows whether it was done")
	}
	return nil
}

// busyFor is how long to leave a server alone that limits the rate and, as Vault
// does in its answer's text only, does not say for how long.
const busyFor = 2 * time.Second

// Busy turns an answer that limits the rate into a *provider.BusyError.
func Busy(err error) error {
	if Status(err) == http.StatusTooManyRequests {
		return &provider.BusyError{After: busyFor, Cause: err}
	}
	return err
}
