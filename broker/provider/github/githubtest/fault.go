package githubtest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
)

// Kind is how a call goes wrong.
type Kind string

// The kinds. The first group never does what was asked, the second has done it.
const (
	Hang     Kind = "hang"     // no answer until the caller gives up
	Fail     Kind = "fail"     // 500 and nothing done
	Portal   Kind = "portal"   // 401 with a page of something between
	Gateway  Kind = "gateway"  // 401 in the JSON of an API gateway
	Redirect Kind = "redirect" // 307 to another host

	FailAfter Kind = "fail after" // 502
	Cut       Kind = "cut"        // half of the body, then the connection breaks
	Garbage   Kind = "garbage"    // the right status, and bytes that are no JSON
	Huge      Kind = "huge"       // the right status, and 5 MiB
	HangAfter Kind = "hang after" // no answer
)

// Fault makes calls go wrong.
type Fault struct {
	Method, Path string // exact; Path without the API's prefix
	Kind         Kind
	Times        int // 0 = always

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

// fault takes the one for this call, or nil. The lock is held.
func (s *Server) fault(r *http.Request) *Fault {
	for _, f := range s.faults {
		if f.Times != 0 && f.Method == r.Method && f.Path == strings.TrimPrefix(r.URL.Path, s.prefix) {
			f.Times--
			return f
		}
	}
	return nil
}

// instead answers in place of the deed.
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

// after spoils the answer of what was done.
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

// hang never returns: a handler that does answers, and a caller that gives up in the
// same moment may still see that.
func (f *Fault) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-f.server.stop:
	}
	panic(http.ErrAbortHandler)
}
