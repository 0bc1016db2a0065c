package static

import (
	"errors"
	"fmt"
	"net/http"

	"ebb/broker/exact"
	"ebb/broker/provider"
)

// elsewhere refuses a request; why holds nothing that the sandbox wrote.
func elsewhere(why string) error { return fmt.Errorf("static: %w: %s", provider.ErrElsewhere, why) }

// origin is where a request goes, host:port in lower case, if it goes over https
// and if everybody would say that it goes there.
func origin(r *http.Request) (string, error) {
	u := r.URL
	switch {
	case u == nil || u.Opaque != "" || u.Scheme != "https":
		return "", elsewhere("it is not https")
	case u.User != nil:
		return "", elsewhere("its URL holds a login")
	case r.Host != "" && r.Host != u.Host:
		return "", elsewhere("it names one host and goes to another")
	}
	h, err := exact.ParseHost(u.Host, httpsPort)
	if err != nil {
		return "", elsewhere(err.Error())
	}
	return h.String(), nil
}

// target is what a request asks for, if every server reads it in the same way.
func target(r *http.Request) (path []string, err error) {
	if err = exact.Header(r.Header); err == nil {
		_, err = exact.Query(r.URL.RawQuery)
	}
	if err == nil {
		path, err = exact.Path(r.URL.EscapedPath(), exact.PathForm{})
	}
	if err != nil {
		return nil, elsewhere(err.Error())
	}
	return path, nil
}

// errOver is what a lease gets that has ended.
var errOver = errors.New("static: the lease is over")
