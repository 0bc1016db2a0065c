package web

import (
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Limits bound the cost of one request. Zero members take the default.
type Limits struct {
	Body       int64         // bytes of a request body; 64 KiB
	Header     int           // bytes of all request headers; 16 KiB
	URL        int           // bytes of the request target; 4 KiB
	ReadHeader time.Duration // to read the headers; 5 s
	Read       time.Duration // to read the whole request; 15 s
	Write      time.Duration // from the end of the headers to the end of the response; 30 s
	Idle       time.Duration // between requests of one connection; 2 min
	Streams    int           // concurrent HTTP/2 streams of one connection; 128
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Body:       orDefault(l.Body, 64<<10),
		Header:     orDefault(l.Header, 16<<10),
		URL:        orDefault(l.URL, 4<<10),
		ReadHeader: orDefault(l.ReadHeader, 5*time.Second),
		Read:       orDefault(l.Read, 15*time.Second),
		Write:      orDefault(l.Write, 30*time.Second),
		Idle:       orDefault(l.Idle, 2*time.Minute),
		Streams:    orDefault(l.Streams, 128),
	}
}

func orDefault[T int | int64 | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// ErrStopping is the cause of a request's context when its server is shutting
// down. It distinguishes a shutdown from a client that disconnected.
var ErrStopping = errors.New("web: the server is shutting down")

// slop is the number of bytes that net/http adds to MaxHeaderBytes before it refuses a request.
const slop = 4 << 10

// NewServer returns an http.Server with every limit set. The caller configures
// TLS. A nil logger discards. Handlers that stream or wait longer than
// Limits.Write must extend their own deadline (http.ResponseController).
func NewServer(h http.Handler, l Limits, log *slog.Logger) *http.Server {
	l = l.withDefaults()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           CloseAfterChunked(h),
		MaxHeaderBytes:    max(l.Header-slop, 1),
		ReadHeaderTimeout: l.ReadHeader,
		ReadTimeout:       l.Read,
		WriteTimeout:      l.Write,
		IdleTimeout:       l.Idle,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: l.Streams},
		ConnContext:       withPeer,
		ConnState:         releaseConn,
		// net/http logs here about hostile or broken peers.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// CloseAfterChunked closes an HTTP/1.1 connection after the response to a request with
// Transfer-Encoding. RFC 9112 section 6.1 requires this for a request that also has Content-Length,
// because a proxy may have read a different end of the body. net/http removes that Content-Length
// before a handler sees it, so every request with Transfer-Encoding closes its connection.
func CloseAfterChunked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
