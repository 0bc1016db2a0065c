package exact

import "net/http"

// httpsPort is what a host without a port means.
const httpsPort = 443

// Origin is where a request goes, if it goes over https and everybody would say that it
// goes there.
func Origin(r *http.Request) (Host, error) {
	u := r.URL
	switch {
	case u == nil || u.Opaque != "" || u.Scheme != "https":
		return Host{}, refuse(BadHost, "it is not https")
	case u.User != nil:
		return Host{}, refuse(BadHost, "its URL holds a login")
	case r.Host != "" && r.Host != u.Host:
		return Host{}, refuse(BadHost, "it names one host and goes to another")
	}
	return ParseHost(u.Host, httpsPort)
}

// Target is the path of what a request asks for, if every server reads its headers, query
// and path in the same way.
func Target(r *http.Request, form PathForm) ([]string, error) {
	if err := Header(r.Header); err != nil {
		return nil, err
	}
	if _, err := Query(r.URL.RawQuery); err != nil {
		return nil, err
	}
	return Path(r.URL.EscapedPath(), form)
}

// CheckHost reports whether a configuration may name a host so: "api.example.com", or with
// a port, in lower case.
func CheckHost(text string) bool {
	h, err := ParseHost(text, httpsPort)
	return err == nil && (text == h.String() || text == h.Name && h.Port == httpsPort)
}
