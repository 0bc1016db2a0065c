package vaultapi

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/provider"
)

// Status returns the HTTP status of the response in an error, 0 when there was no response.
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

// Says reports whether Vault's response has an error line that contains text. Vault has no
// error codes, and its own clients compare texts as well.
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
		return errors.New("vault: the response is not from Vault, so the result of the call is unknown; check what answers at the address of Vault")
	}
	return nil
}

// busyFor is the wait after a rate-limiting response. Vault says only in the text of the
// response that it limits the rate, and not for how long.
const busyFor = 2 * time.Second

// asBusy converts a rate-limiting response into a *provider.BusyError.
func asBusy(err error) error {
	if Status(err) == http.StatusTooManyRequests {
		return &provider.BusyError{After: busyFor, Cause: err}
	}
	return err
}
