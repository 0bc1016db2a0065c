package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"ebb/broker/clientcert"
	"ebb/broker/exact"
)

// Lengths, in bytes, of a secret that egress adds to requests and looks for in their
// answers. A shorter one stands in texts by chance; a longer one is above what servers take in
// a header (nginx and Apache take lines of 8 KiB, unless they are told otherwise).
const (
	MinInjected = 8
	MaxInjected = 8 << 10
)

// Presenter is an Injector whose credential, or a part of it, is a client certificate of TLS:
// ebb shows it when it connects for a request.
type Presenter interface {
	// Presents is what to show to the host of a request that Inject has accepted, nil = nothing.
	// It wraps clientcert.ErrUnusable when what there is cannot be shown, and ErrElsewhere as
	// Inject does.
	Presents(context.Context, *http.Request, Target) (*clientcert.Certificate, error)
}

// Elsewhere is ErrElsewhere and why, which holds nothing that the sandbox wrote.
func Elsewhere(why string) error { return fmt.Errorf("%w: %s", ErrElsewhere, why) }

var (
	headerForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)
	prefixForm = regexp.MustCompile(`^([!-~][ -~]{0,63})?$`)
)

// framing are headers that say where a message ends, what it is, where it goes, or how it is handed
// on (RFC 9110 section 7.6.1).
var framing = []string{
	"connection", "content-encoding", "content-length", "content-range", "content-type", "expect", "host", "keep-alive", "proxy-authenticate",
	"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// CheckHeader refuses what a configuration names as the header that a credential is added in, or as
// what stands before it there, when that is no place for one.
func CheckHeader(name, prefix string) error {
	switch {
	case !headerForm.MatchString(name) || slices.Contains(framing, exact.Fold(name)) || exact.Overrides(name):
		return fmt.Errorf("%q is not a header that can hold a credential: take Authorization, X-Api-Key or the like", name)
	case !prefixForm.MatchString(prefix):
		return errors.New("the prefix is what the header's value begins with: up to 64 printable ASCII characters, the first no space")
	}
	return nil
}

// SetHeader gives a header its one value, in place of whatever is there and in the trailer
// under a name that some server could take for this one.
func SetHeader(r *http.Request, name, value string) {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for k := range h {
			if exact.Fold(k) == exact.Fold(name) {
				delete(h, k)
			}
		}
	}
	r.Header.Set(name, value)
}
