package web

import (
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Limits bound what one request may cost. Zero members take the default.
type Limits struct {
	Body       int64         // bytes of a request body; 64 KiB
	Header     int           // bytes of all request headers; 16 KiB
	URL        int           // bytes of the request target; 4 KiB
	ReadHeader time.Duration // to read the headers; 5 s
	Read       time.Duration // to read the whole request; 15 s
	Write      time.Duration // from the end of the headers to the end of the answer; 30 s
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

// ErrStopping is the cause of a request's context when its server is about to end:
// whoever waits was not left by its client.
var ErrStopping = errors.New("web: the server is about to end")

// slop is what net/http adds to MaxHeaderBytes before it refuses.
const slop = 4 << 10

// NewServer is an http.Server with every limit set; TLS is the caller's. A nil
// logger discards. Handlers that stream or wait longer than Limits.Write must
// move their own deadline (http.ResponseController).
func NewServer(h http.Handler, l Limits, log *slog.Logger) *http.Server {
	l = l.withDefaults()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           h,
		MaxHeaderBytes:    max(l.Header-slop, 1),
		ReadHeaderTimeout: l.ReadHeader,
		ReadTimeout:       l.Read,
		WriteTimeout:      l.Write,
		IdleTimeout:       l.Idle,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: l.Streams},
		ConnContext:       withPeer,
		ConnState:         releaseConn,
		// What net/http says here is about hostile or broken peers.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
