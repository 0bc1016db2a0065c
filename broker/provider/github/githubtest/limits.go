package githubtest

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// limits are GitHub's: a budget an hour, shared by an installation's tokens (the
// App has one of its own), and secondary ones that come unannounced.
type limits struct {
	left      int // of the budget
	reset     time.Time
	armed     bool
	secondary []Limit
}

// Limit is one refusal by a secondary limit.
type Limit struct {
	Status     int    // 403 or 429
	RetryAfter string // header, "" = none
	Message    string // "" = GitHub's
}

const budget = 5000

// Budget leaves n calls until the server's clock shows reset.
func (s *Server) Budget(n int, reset time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.left, s.limits.reset, s.limits.armed = n, reset, true
}

// Secondary makes the next calls meet these.
func (s *Server) Secondary(l ...Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.secondary = append(s.limits.secondary, l...)
}

// limited judges a call before it is made. The lock is held.
func (s *Server) limited(r *http.Request) (reply, bool) {
	if len(s.limits.secondary) > 0 {
		l := s.limits.secondary[0]
		s.limits.secondary = s.limits.secondary[1:]
		if l.Message == "" {
			l.Message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
		}
		out := say(l.Status, l.Message)
		if strings.Contains(l.Message, "secondary") {
			// go-github knows these by the page that they point to.
			out.body.(map[string]any)["documentation_url"] = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
		}
		if l.RetryAfter != "" {
			out.header = http.Header{"Retry-After": {l.RetryAfter}}
		}
		return out, true
	}
	if !s.limits.armed {
		return reply{}, false
	}
	if !s.clock().Before(s.limits.reset) {
		s.limits = limits{}
		return reply{}, false
	}
	if s.limits.left == 0 {
		return say(http.StatusForbidden, "API rate limit exceeded for installation ID 11."), true
	}
	if !strings.HasSuffix(r.URL.Path, "/rate_limit") {
		s.limits.left--
	}
	return reply{}, false
}

// rest returns left and reset of the budget, as headers and /rate_limit show them.
func (s *Server) rest() (left int, reset int64) {
	if s.limits.armed {
		return s.limits.left, s.limits.reset.Unix()
	}
	return budget - 1, s.clock().Add(time.Hour).Unix()
}

func (s *Server) budget(h http.Header) {
	left, reset := s.rest()
	h.Set("X-RateLimit-Limit", strconv.Itoa(budget))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Used", strconv.Itoa(budget-left))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
	h.Set("X-RateLimit-Resource", "core")
}

func (s *Server) rateLimit(request, *token) reply {
	left, reset := s.rest()
	one := map[string]any{"limit": budget, "remaining": left, "reset": reset, "used": budget - left}
	return reply{status: http.StatusOK, body: map[string]any{"resources": map[string]any{"core": one, "search": one}, "rate": one}}
}
