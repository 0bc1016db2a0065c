package githubtest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// limits are GitHub's rate limits: an hourly budget, shared by an installation's tokens (the
// App has its own), and secondary limits without notice.
type limits struct {
	left      int // of the budget
	reset     time.Time
	armed     bool
	secondary []Limit
}

// Limit is one refusal by a secondary limit.
type Limit struct {
	Status     int    // 403 or 429
	RetryAfter string // header, "" for none
	Message    string // "" means GitHub's message
}

const budget = 5000

// Budget allows n more calls until the server's clock reaches reset.
func (s *Server) Budget(n int, reset time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.left, s.limits.reset, s.limits.armed = n, reset, true
}

// Secondary refuses the next calls with these limits, in order.
func (s *Server) Secondary(l ...Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.secondary = append(s.limits.secondary, l...)
}

// limited checks a call against the limits before it is done. The caller has the lock.
func (l *limits) limited(r *http.Request, now time.Time) (reply, bool) {
	if len(l.secondary) > 0 {
		next := l.secondary[0]
		l.secondary = l.secondary[1:]
		if next.Message == "" {
			next.Message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
		}
		out := say(next.Status, next.Message)
		if strings.Contains(next.Message, "secondary") {
			// go-github recognizes these by the page that they link to.
			out.body.(map[string]any)["documentation_url"] = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
		}
		if next.RetryAfter != "" {
			out.header = http.Header{"Retry-After": {next.RetryAfter}}
		}
		return out, true
	}
	if !l.armed {
		return reply{}, false
	}
	if !now.Before(l.reset) {
		*l = limits{}
		return reply{}, false
	}
	if l.left == 0 {
		return say(http.StatusForbidden, "API rate limit exceeded for installation ID 11."), true
	}
	if !strings.HasSuffix(r.URL.Path, "/rate_limit") {
		l.left--
	}
	return reply{}, false
}

// rest returns the remaining budget and its reset, as in headers and /rate_limit.
func (l *limits) rest(now time.Time) (left int, reset int64) {
	if l.armed {
		return l.left, l.reset.Unix()
	}
	return budget - 1, now.Add(time.Hour).Unix()
}

func (l *limits) budget(h http.Header, now time.Time) {
	left, reset := l.rest(now)
	h.Set("X-RateLimit-Limit", strconv.Itoa(budget))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Used", strconv.Itoa(budget-left))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
	h.Set("X-RateLimit-Resource", "core")
}

func (s *Server) rateLimit(request, *token) reply {
	left, reset := s.limits.rest(s.clock())
	one := map[string]any{"limit": budget, "remaining": left, "reset": reset, "used": budget - left}
	return reply{status: http.StatusOK, body: map[string]any{"resources": map[string]any{"core": one, "search": one}, "rate": one}}
}

// Kind is how a call fails.
type Kind string

// The kinds. With those of the first group the call is not done; with the others it is.
const (
	Hang     Kind = "hang"     // no response until the caller gives up
	Fail     Kind = "fail"     // 500, not done
	Portal   Kind = "portal"   // 401 with an HTML page, as from a captive portal
	Gateway  Kind = "gateway"  // 401 with the JSON of an API gateway
	Redirect Kind = "redirect" // 307 to another host

	FailAfter Kind = "fail after" // 502
	Cut       Kind = "cut"        // half of the body, then the connection breaks
	Garbage   Kind = "garbage"    // the right status with a body that is not JSON
	Huge      Kind = "huge"       // the right status with 5 MiB
	HangAfter Kind = "hang after" // no response
)

// Fault makes calls fail.
type Fault struct {
	Method, Path string // exact; Path without the API's prefix
	Kind         Kind
	Times        int // 0 means always

	server *Server
}

// Break adds a fault. Faults are tried in the order in which they were added.
func (s *Server) Break(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.server = s
	if f.Times == 0 {
		f.Times = -1
	}
	s.faults = append(s.faults, &f)
}

// faults are the faults of a server, in the order in which they were added.
type faults []*Fault

// take consumes and returns the fault for a call, or nil. path is without the prefix of the
// API. The caller has the lock.
func (fs faults) take(r *http.Request, path string) *Fault {
	for _, f := range fs {
		if f.Times != 0 && f.Method == r.Method && f.Path == path {
			f.Times--
			return f
		}
	}
	return nil
}

// instead answers a call that is not done.
func (f *Fault) instead(w http.ResponseWriter, r *http.Request) bool {
	switch f.Kind {
	case Hang:
		f.hang(r)
	case Fail:
		http.Error(w, `{"message":"Server Error"}`, http.StatusInternalServerError)
	case Portal:
		http.Error(w, "<html>sign in to the network</html>", http.StatusUnauthorized)
	case Gateway:
		http.Error(w, `{"message":"Unauthorized"}`, http.StatusUnauthorized)
	case Redirect:
		http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusTemporaryRedirect)
	default:
		return false
	}
	return true
}

// after changes the response of a call that is done.
func (f *Fault) after(w http.ResponseWriter, rec *httptest.ResponseRecorder) bool {
	switch f.Kind {
	case FailAfter:
		http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
	case Cut:
		body := rec.Body.Bytes()
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	case Garbage:
		w.WriteHeader(rec.Code)
		_, _ = w.Write([]byte("\x00\xff{{{"))
	case Huge:
		w.WriteHeader(rec.Code)
		_, _ = w.Write(make([]byte, 5<<20))
	case HangAfter:
		<-f.server.stop
	default:
		return false
	}
	return true
}

// hang never returns. A handler that returned would answer, and a caller that gives up at
// the same moment could see that answer.
func (f *Fault) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-f.server.stop:
	}
	panic(http.ErrAbortHandler)
}
