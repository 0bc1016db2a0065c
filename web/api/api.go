package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/web"
)

// Config holds the dependencies and settings of New.
type Config struct {
	Broker          *core.Broker     // required; its issuer must be the Mux's public URL
	Mux             *web.Mux         // required: where the routes are registered
	MutualTLS       bool             // the listener, or a configured proxy, requests client certificates
	KeyMaxAge       time.Duration    // max-age of the JWKS: the key ring's MaxAge; 0 = 5 min
	FeedMaxAge      time.Duration    // max_age_seconds of the revocation feed; 0 = 60 s
	SSH             SSHHosts         // public data for SSH hosts; nil = no SSH provider
	Links           Links            // sign-in links to the console; nil = none are made
	EgressEndpoints EgressEndpoints  // egress endpoints of sandboxes; nil = no egress proxy
	Now             func() time.Time // nil = time.Now
}

// API serves one broker. Its own methods are the token endpoints and the tasks. The embedded parts
// serve the rest. Each part declares the methods of the broker that it calls, and its file names
// them: a handler decodes a request into a type of the broker, calls one method, and encodes the
// result as a type of package wire.
type API struct {
	b         tokenBroker
	lifecycle taskLifecycle
	control   taskControl
	mints     bool // some provider mints at a third party, which takes time
	mux       *web.Mux
	issuer    string
	methods   []attest.ClientMethod // of the attestors; they do not change while the process runs
	docs      documents
	clients   *clientAuth

	*sandboxAPI
	*discovery
	*requestAPI
	*leaseAPI
	*usageAPI
	*providerAPI
	*auditAPI
	*proofAPI
	*policyAPI
}

// connect creates the parts. It is the only place that has the whole broker.
func (a *API) connect(c Config) error {
	b, mux := c.Broker, c.Mux
	a.b, a.lifecycle, a.control, a.mints = b, b, b, b.Upstreams()
	a.mux, a.issuer, a.methods = mux, b.Issuer(), b.ClientMethods()
	origin := strings.TrimSuffix(a.issuer, mux.Base()) // htu of a DPoP proof is compared with it
	proofs, err := jose.NewHeaders(knownProofs)
	if err != nil {
		return err
	}
	a.discovery = &discovery{
		keyMaxAge: c.KeyMaxAge, links: c.Links, mutualTLS: c.MutualTLS, clock: c.Now, ssh: c.SSH,
		b: b, dpopAlgs: b.DPoPAlgs(), issuer: a.issuer, methods: a.methods, mux: mux, origin: origin,
	}
	a.clients = &clientAuth{clock: c.Now, b: b, methods: a.methods, mux: mux, proxies: mux.Proxies(), origin: origin, proofs: proofs, discovery: a.discovery}
	a.sandboxAPI = &sandboxAPI{endpoints: c.EgressEndpoints, b: b, clients: a.clients}
	a.requestAPI = &requestAPI{b: b}
	a.leaseAPI = &leaseAPI{b: b, feedMaxAge: c.FeedMaxAge}
	a.usageAPI = &usageAPI{b: b}
	a.providerAPI = &providerAPI{b: b}
	a.auditAPI = &auditAPI{b: b, clients: a.clients}
	a.proofAPI = &proofAPI{b: b, clients: a.clients}
	a.policyAPI = &policyAPI{b: b}
	return nil
}

// knownProofs is the number of DPoP proof headers, and thus client keys, in the
// cache.
const knownProofs = 1024

// New prepares the API. Register adds its routes to the Mux.
func New(c Config) (*API, error) {
	if c.Broker == nil || c.Mux == nil {
		return nil, errors.New("api: Broker and Mux are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.FeedMaxAge <= 0 {
		c.FeedMaxAge = time.Minute
	}
	if c.KeyMaxAge <= 0 {
		c.KeyMaxAge = 5 * time.Minute
	}
	if c.EgressEndpoints == nil {
		c.EgressEndpoints = noEndpoints{c.Broker}
	}
	if issuer := c.Broker.Issuer(); issuer != c.Mux.PublicURL() {
		return nil, fmt.Errorf("api: the broker's issuer is %q and the public URL %q; they must be the same text", issuer, c.Mux.PublicURL())
	}
	a := &API{}
	if err := a.connect(c); err != nil {
		return nil, err
	}
	var err error
	a.docs, err = a.documents()
	return a, err
}

// place tells where the path of a route starts.
type place int

const (
	below  place = iota // below the public URL
	insert              // before the public URL's path: RFC 8414 section 3.1, RFC 9728 section 3.1
)

type route struct {
	method, path string
	place        place
	h            echo.HandlerFunc
}

// Register adds every route to the Mux.
func (a *API) Register() {
	for _, r := range a.routes() {
		if r.place == insert {
			a.mux.AddRoot(r.method, r.path, r.h)
			continue
		}
		a.mux.Add(r.method, r.path, r.h)
	}
}

// routes returns all routes. A test compares them with openapi.yaml.
func (a *API) routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	base := a.mux.Base()
	routes := []route{
		{get, "/oauth2/authorize", below, a.authorize},
		{post, "/oauth2/token", below, a.token},
		{post, "/oauth2/bc-authorize", below, a.backchannel},
		{post, "/oauth2/introspect", below, a.introspect},
		{post, "/oauth2/revoke", below, a.revoke},
		{post, "/oauth2/delegate", below, a.delegate},
		{post, "/oauth2/hold", below, a.hold},
		{post, "/oauth2/credentials", below, a.own},
		{get, "/.well-known/oauth-authorization-server" + base, insert, a.document(a.docs.metadata, "application/json")},
		{get, "/.well-known/openid-configuration", below, a.document(a.docs.metadata, "application/json")},
		{get, "/.well-known/oauth-protected-resource" + base + "/v1", insert, a.document(a.docs.resource, "application/json")},
		{get, "/.well-known/jwks.json", below, a.jwks},
		{get, "/problems/:kind", below, a.problem},
		{get, "/openapi.yaml", below, a.document(openapiDocument, "application/yaml")},
		{get, "/openapi.json", below, a.openapiJSON},
	}
	return append(routes, a.v1()...)
}

// v1 returns the routes of the JSON API.
func (a *API) v1() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{post, "/v1/tasks", below, call(a.clients, http.StatusCreated, a.openTask)},
		{get, "/v1/tasks", below, call(a.clients, http.StatusOK, a.tasks)},
		{get, "/v1/tasks/:id", below, call(a.clients, http.StatusOK, a.task)},
		{post, "/v1/tasks/:id/ticket", below, call(a.clients, http.StatusCreated, a.newTicket)},
		{post, "/v1/tasks/:id/heartbeat", below, call(a.clients, http.StatusOK, a.heartbeat)},
		{post, "/v1/tasks/:id/pause", below, call(a.clients, http.StatusOK, a.pauseTask)},
		{post, "/v1/tasks/:id/taint", below, call(a.clients, http.StatusOK, a.taintTask)},
		{post, "/v1/tasks/:id/resume", below, call(a.clients, http.StatusOK, a.resumeTask)},
		{post, "/v1/tasks/:id/complete", below, call(a.clients, http.StatusOK, a.completeTask)},
		{post, "/v1/owners/:digest/stop", below, call(a.clients, http.StatusOK, a.stopTasks)},
		{post, "/v1/tasks/:id/stop", below, call(a.clients, http.StatusOK, a.stopTask)},
		{post, "/v1/tasks/:id/egress-endpoints", below, call(a.clients, http.StatusCreated, a.openEndpoint)},
		{post, "/v1/tasks/:id/egress-endpoints/:endpoint/register", below, call(a.clients, http.StatusOK, a.registerEndpoint)},
		{post, "/v1/tasks/:id/egress-endpoints/:endpoint/close", below, call(a.clients, http.StatusOK, a.closeEndpoint)},
		{post, "/v1/tasks/:id/egress-endpoints/:endpoint/connect", below, a.connectEndpoint},
		{get, "/v1/tasks/:id/receipt", below, call(a.clients, http.StatusOK, a.receipt)},
		{post, "/v1/signin-link", below, call(a.clients, http.StatusOK, a.signInLink)},
		{post, "/v1/enroll", below, web.Handle(a.mux, http.StatusOK, a.enrolling, a.enroll)},
		{post, "/v1/challenge", below, web.Handle(a.mux, http.StatusOK, a.enrolling, a.askChallenge)},
		{get, "/v1/requests", below, call(a.clients, http.StatusOK, a.requests)},
		{get, "/v1/requests/:id", below, call(a.clients, http.StatusOK, a.showRequest)},
		{post, "/v1/requests/:id/approve", below, call(a.clients, http.StatusOK, a.approve)},
		{post, "/v1/requests/:id/deny", below, call(a.clients, http.StatusOK, a.denyRequest)},
		{get, "/v1/break-glass", below, call(a.clients, http.StatusOK, a.breakGlasses)},
		{get, "/v1/leases", below, call(a.clients, http.StatusOK, a.leases)},
		{get, "/v1/leases/proof", below, a.leaseProof},
		{get, "/v1/leases/:id", below, call(a.clients, http.StatusOK, a.lease)},
		{post, "/v1/leases/:id/revoke", below, call(a.clients, http.StatusOK, a.revokeLease)},
		{post, "/v1/leases/:id/retry", below, call(a.clients, http.StatusOK, a.retryLease)},
		{post, "/v1/leases/:id/force", below, call(a.clients, http.StatusOK, a.forceLease)},
		{get, "/v1/attestors", below, call(a.clients, http.StatusOK, a.attestors)},
		{post, "/v1/attestors/:name/explain", below, call(a.clients, http.StatusOK, a.explainEvidence)},
		{get, "/v1/usage", below, call(a.clients, http.StatusOK, a.usage)},
		{get, "/v1/providers", below, call(a.clients, http.StatusOK, a.providers)},
		{post, "/v1/providers/:name/check", below, call(a.clients, http.StatusOK, a.selfTestProvider)},
		{get, "/v1/secrets", below, call(a.clients, http.StatusOK, a.secrets)},
		{post, "/v1/secrets", below, call(a.clients, http.StatusOK, a.putSecret)},
		{post, "/v1/secrets/:name/remove", below, call(a.clients, http.StatusOK, a.removeSecret)},
		{get, "/v1/audit", below, a.audit},
		{get, "/v1/audit/proof", below, a.entryProof},
		{get, "/v1/audit/checkpoints", below, call(a.clients, http.StatusOK, a.checkpoints)},
		{get, "/v1/transcripts", below, call(a.clients, http.StatusOK, a.transcripts)},
		{get, "/v1/transcripts/:id", below, call(a.clients, http.StatusOK, a.transcript)},
		{get, "/v1/revocations", below, call(a.clients, http.StatusOK, a.revocations)},
		{get, "/v1/ssh/ca", below, a.sshCA},
		{get, "/v1/ssh/krl", below, a.sshKRL},
		{get, "/v1/ssh/known_hosts", below, a.sshKnownHosts},
		{post, "/v1/policy/explain", below, call(a.clients, http.StatusOK, a.explain)},
		{get, "/v1/policy", below, call(a.clients, http.StatusOK, a.policy)},
	}
}

// Routes lists method and path of every route, below the public URL's path.
func (a *API) Routes() []web.Route {
	var out []web.Route
	for _, r := range a.routes() {
		out = append(out, web.Route{Method: r.method, Path: r.path})
	}
	return out
}
