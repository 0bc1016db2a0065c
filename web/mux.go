package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker"
)

// Config holds the settings of New.
type Config struct {
	PublicURL  string                // required: base URL for clients, no trailing slash; https, or http on loopback
	PagesURL   string                // base URL of the console, from OwnName; "" = PublicURL
	Limits     Limits                // zero members take the default
	Proxies    Proxies               // proxies whose forwarding headers are accepted; zero = none
	Logger     *slog.Logger          // nil = discard
	Registerer prometheus.Registerer // nil = no metrics
	Tracer     trace.TracerProvider  // nil = no spans
	Now        func() time.Time      // nil = time.Now
}

// Mux is the handler of a listener. Surfaces register their routes on it before it serves.
type Mux struct {
	echo      *echo.Echo
	outer     http.Handler
	publicURL string
	base      string
	pagesURL  string
	pagesHost string // host of pages; "" = the same as of all routes
	secure    bool
	limits    Limits
	proxies   Proxies
	log       *slog.Logger
	metrics   *metrics
	pages     func(echo.Context, error) error // shows errors as pages to browsers; nil = no pages
	now       func() time.Time
	spans     bool
}

// New returns a Mux without routes.
func New(c Config) (*Mux, error) {
	u, err := CheckPublicURL(c.PublicURL)
	if err != nil {
		return nil, err
	}
	m := &Mux{echo: echo.New(), publicURL: c.PublicURL, base: u.Path, pagesURL: c.PublicURL, secure: u.Scheme == "https", limits: c.Limits.withDefaults(),
		proxies: c.Proxies, log: c.Logger, metrics: newMetrics(c.Registerer), now: c.Now, spans: c.Tracer != nil}
	if c.PagesURL != "" && c.PagesURL != c.PublicURL {
		pages, err := checkPagesURL(c.PagesURL, u)
		if err != nil {
			return nil, err
		}
		m.pagesURL, m.pagesHost = c.PagesURL, pages.Host
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.now == nil {
		m.now = time.Now
	}
	m.echo.Use(m.pipeline)
	m.echo.HTTPErrorHandler = func(err error, c echo.Context) { _ = m.Fail(c, err) }
	m.outer = m.echo
	if c.Tracer != nil {
		m.outer = otelhttp.NewHandler(m.echo, "http",
			otelhttp.WithTracerProvider(c.Tracer),
			otelhttp.WithMeterProvider(noop.NewMeterProvider()),
			otelhttp.WithPropagators(propagation.TraceContext{}),
			// A caller's trace is linked, never continued: its ids are unverified.
			otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }))
	}
	return m, nil
}

// CheckPublicURL parses a public base URL. It must be absolute, in the spelling
// that other places compare byte by byte, and https unless the host is loopback
// (RFC 8414 section 2, RFC 9700 section 2.6).
func CheckPublicURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("the public URL cannot be parsed; write it like https://ebb.example.com")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.User != nil, u.RawQuery != "" || u.ForceQuery, u.Fragment != "":
		return nil, errors.New("the public URL must be http(s)://host[:port][/path], without user, query and fragment")
	case strings.HasSuffix(raw, "/"), strings.ToLower(u.Host) != u.Host, u.EscapedPath() != u.Path, strings.Contains(u.Path, "//"):
		return nil, errors.New("the public URL must have a lower-case host, no trailing slash and no escapes")
	case !fetch.Secure(u):
		return nil, errors.New("the public URL must be https; plain http is for loopback only")
	}
	return u, nil
}

// loopbackHost reports whether a Host header, with or without a port, names loopback.
func loopbackHost(host string) bool {
	u, err := url.Parse("//" + host)
	return err == nil && u.User == nil && fetch.Loopback(strings.ToLower(u.Hostname()))
}

// Add registers a route for programs at a path below the public URL's path.
func (m *Mux) Add(method, path string, h echo.HandlerFunc) { m.AddRoot(method, m.base+path, h) }

// AddRoot registers a route at a path of the host. It is for documents whose
// path a standard fixes outside the public URL's path (RFC 8414 section 3.1).
// If pages have their own host name, the route does not exist under that name.
func (m *Mux) AddRoot(method, path string, h echo.HandlerFunc) {
	m.echo.Add(method, path, func(c echo.Context) error {
		if m.namesPages(c.Request().Host) {
			return broker.E(Misdirected, "This host name is for browsers. Programs must use "+m.publicURL+".", nil)
		}
		return h(c)
	})
}

// AddPage registers a route for browsers at a path below the public URL's path.
// The handler must call AtPages before it reads or sets a cookie.
func (m *Mux) AddPage(method, path string, h echo.HandlerFunc) { m.echo.Add(method, m.base+path, h) }

// Pages sets the function that shows errors of browser navigation outside the
// API as pages, also for unknown paths. Call it before the Mux serves.
func (m *Mux) Pages(draw func(c echo.Context, err error) error) { m.pages = draw }

// Route is one registered route.
type Route struct{ Method, Path string }

// Routes lists the registered routes. A test compares them with the API document.
func (m *Mux) Routes() []Route {
	var out []Route
	for _, r := range m.echo.Routes() {
		out = append(out, Route{r.Method, r.Path})
	}
	return out
}

// PublicURL returns the configured base URL. ebb never derives URLs from the Host header.
func (m *Mux) PublicURL() string { return m.publicURL }

// Base returns the path of the public URL, "" for none.
func (m *Mux) Base() string { return m.base }

// BodyLimit returns the size limit of a request body in bytes.
func (m *Mux) BodyLimit() int64 { return m.limits.Body }

// Proxies returns the configured proxies.
func (m *Mux) Proxies() Proxies { return m.proxies }

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.proxies.sanitise(r)
	m.outer.ServeHTTP(w, r)
}
