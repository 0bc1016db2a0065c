package mcp

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ebb/web/verify"
)

// HTTPConfig says who may reach a Service over HTTP. Resource is required.
type HTTPConfig struct {
	// Resource is the URL that clients use, and the only aud of their tokens.
	Resource string
	// Hosts are further values of the Host header that are this server's.
	Hosts []string
	// Verifier checks tokens for Resource; nil lets everybody in who can connect, which is
	// for a listener that only the sandbox itself reaches.
	Verifier *verify.Verifier
	// TaskID is the task of the sandbox: tokens of other tasks are refused. Required with
	// Verifier.
	TaskID string
}

// maxCalls is how many calls are answered at one time.
const maxCalls = 32

// Handler answers over streamable HTTP, without sessions: there is no id that could be
// guessed or taken over, and a client that dies leaves nothing behind.
func (s *Service) Handler(c HTTPConfig) (http.Handler, error) {
	u, err := url.Parse(c.Resource)
	if err != nil || u.Host == "" || u.Path == "" || u.Path == "/" {
		return nil, errPath
	}
	var calls http.Handler = limited(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true,
	}))
	mux := http.NewServeMux()
	if v := c.Verifier; v != nil {
		next := calls
		calls = v.Handler(func(w http.ResponseWriter, r *http.Request, t *verify.Token) {
			if t.TaskID != c.TaskID || c.TaskID == "" {
				deny(w, "The token is of another task than this server's sandbox.")
				return
			}
			// What was for this server goes no further.
			r.Header.Del("Authorization")
			r.Header.Del("DPoP")
			next.ServeHTTP(w, r)
		})
		mux.Handle(v.MetadataPath(), v.Metadata())
	}
	mux.Handle(u.Path, calls)
	return own(mux, u, c.Hosts), nil
}

// own refuses what was meant for another name (DNS rebinding) or comes from the page of
// another site: a browser on this machine is no MCP client.
func own(next http.Handler, u *url.URL, hosts []string) http.Handler {
	hosts = append(slices.Clone(hosts), u.Host)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header.Values("Origin")
		switch {
		case !slices.Contains(hosts, r.Host):
			deny(w, "This server has another name.")
		case len(origins) > 1, len(origins) == 1 && origins[0] != u.Scheme+"://"+u.Host:
			deny(w, "Pages of other sites may not call this server.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// limited answers 503 beyond maxCalls.
func limited(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "2")
			problem(w, http.StatusServiceUnavailable, "Too many calls at one time.")
		}
	})
}

func deny(w http.ResponseWriter, said string) { problem(w, http.StatusForbidden, said) }

// problem is RFC 9457.
func problem(w http.ResponseWriter, status int, said string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": said}) // who asked may be gone
}

var errPath = errors.New("the resource is no URL with a path, such as http://127.0.0.1:8430/mcp")
