package jose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// source is where a key set comes from; its place is fixed by configuration.
type source interface {
	// read returns the text of the set and how long its origin says it is good.
	read(ctx context.Context) ([]byte, time.Duration, error)
	name() string
}

func newSource(c CacheConfig) (source, error) {
	switch {
	case (c.URL == "") == (c.File == ""):
		return nil, errors.New("jose: key cache: set either a URL or a file of a JWK set")
	case c.File != "":
		return fileSource(c.File), nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("jose: key cache: the URL is not an absolute URL without user information and fragment")
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, fmt.Errorf("jose: key cache: %s is not https; whoever sits in between could swap the keys", u.Redacted())
	}
	client := http.Client{}
	if c.HTTPClient != nil {
		client.Transport = c.HTTPClient.Transport
	}
	// Where the keys are is configuration: a redirect would let the origin, or
	// whoever answers for it, move it.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &urlSource{url: u.String(), client: &client}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

type urlSource struct {
	url    string
	client *http.Client
}

func (s *urlSource) name() string { return s.url }

func (s *urlSource) read(ctx context.Context) ([]byte, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // read-only body
	if resp.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("status %d", resp.StatusCode)
	}
	b, err := readAll(resp.Body)
	return b, maxAge(resp.Header.Get("Cache-Control")), err
}

type fileSource string

func (s fileSource) name() string { return string(s) }

func (s fileSource) read(context.Context) ([]byte, time.Duration, error) {
	f, err := os.Open(string(s))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // read-only file
	b, err := readAll(f)
	return b, 0, err
}

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxJWKS+1))
	if err == nil && len(b) > maxJWKS {
		err = fmt.Errorf("the key set is larger than %d bytes", maxJWKS)
	}
	return b, err
}

// maxAge reads max-age (RFC 9111, section 5.2.2.1); 0 when there is none or the
// response is not to be cached.
func maxAge(cacheControl string) time.Duration {
	var age time.Duration
	for d := range strings.SplitSeq(strings.ToLower(cacheControl), ",") {
		d = strings.TrimSpace(d)
		if d == "no-store" || d == "no-cache" {
			return 0
		}
		if v, found := strings.CutPrefix(d, "max-age="); found {
			if n, err := strconv.ParseUint(v, 10, 31); err == nil {
				age = time.Duration(n) * time.Second
			}
		}
	}
	return age
}
