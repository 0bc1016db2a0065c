package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// refusal is the JSON body that a sandbox gets for a refused request or a withheld response.
type refusal struct {
	Error  string           `json:"error"` // egress_denied
	Reason stricturl.Reason `json:"reason"`
	Detail string           `json:"detail"` // what was refused, why, and what to do next
}

// explanation is the text for one reason. It holds nothing from the request or the upstream.
type explanation struct {
	status int    // 0 = 403
	of     string // what happened to the request; "" = "%s was refused"
	why    string // a clause, used if the error has none of its own
	next   string // a sentence; "" = the scope to ask for, or, for 429 and 503, when to try again
}

const (
	failed   = "%s failed"
	withheld = "The answer to %s was withheld"
	report   = "Report it to the operator of ebb. The request was sent, and may have had its effect."
)

var explanations = map[stricturl.Reason]explanation{
	stricturl.BadHost:        {http.StatusBadRequest, "", "its host is not the name of a host", "Name the host by its full DNS name in ASCII, such as api.example.com."},
	stricturl.IPLiteral:      {0, "", "its host is an address", "Name the host by its DNS name: addresses are not reached."},
	stricturl.BadPort:        {http.StatusBadRequest, "", "its port is not a number from 1 to 65535", "Write host and port as api.example.com:443."},
	stricturl.AmbiguousPath:  {http.StatusBadRequest, "", "servers can read its path in more than one way", "Send the path without empty and dot segments, and with no encoded slash, backslash, percent sign or semicolon in it."},
	stricturl.AmbiguousQuery: {http.StatusBadRequest, "", "servers can read its query in more than one way", "Separate parameters by ampersands, and percent-encode all other special characters in them."},
	stricturl.BadMethod:      {http.StatusBadRequest, "", "its method is not one that ebb forwards", "Use a method such as GET or POST, in capital letters."},
	stricturl.BadHeader:      {http.StatusBadRequest, "", "servers can read its headers in more than one way", "Send each header once and in one line, with one way to say where the body ends, and none that names another resource or another header."},

	NoPlaceholder:    {http.StatusUnauthorized, "", "it has no placeholder of a credential, and no lease of the task covers it without one", ""},
	NoCredential:     {http.StatusUnauthorized, "", "its placeholder names no credential that this sandbox may use now: it does not exist, has expired or was revoked, or belongs to another task or tool", ""},
	NotAllowed:       {0, "", "the credential does not cover it", ""},
	StrayPlaceholder: {0, "", "it has a placeholder where no credential belongs, or more than one", "Write one placeholder, as the value of a header or parameter that holds credentials, such as Authorization: Bearer PLACEHOLDER."},
	ForeignQuery:     {0, "", "a parameter of its query is a credential that is not from ebb", "Leave that parameter out, or write a placeholder as its value."},

	Metadata:     {0, "", "its host is a metadata service of a cloud, which issues credentials", "Requests to such a service are never sent."},
	Private:      {0, "", "the name of its host resolves to an address that is not public", "The operator of ebb can allow the host (egress.private_hosts)."},
	Self:         {0, "", "the name of its host resolves to ebb, or to the machine that ebb runs on", "Reach servers inside the sandbox at localhost, without the proxy."},
	Unresolved:   {http.StatusBadGateway, failed, "the name of its host was not found", "Check how the host is spelled, then try again."},
	Unreachable:  {http.StatusBadGateway, failed, "the host could not be reached, or ended the connection before it had answered", "Try again later. The log of ebb says more to its operator."},
	NotTunnelled: {0, "", "it did not come through a tunnel to its host", "Use an https URL, for which the proxy is asked for a tunnel (CONNECT), or the base URL http://127.0.0.1:3128/to/HOST/PATH. Reach servers inside the sandbox without the proxy (NO_PROXY)."},
	Misdirected:  {http.StatusMisdirectedRequest, "", "it names another host than the one that its connection is for, or a page of another site asks for it", "Open a connection to the host that the request is for, and name no other."},
	Certificate:  {http.StatusBadGateway, failed, "the host requires a client certificate that the credential does not have, or rejects the one that it got", "The operator of ebb configures client_certificate of the provider."},
	BadAnswer:    {http.StatusBadGateway, withheld, "it violates the protocol, or cannot be searched for secrets", report},

	TooOften:     {http.StatusTooManyRequests, "", "the task sends too many requests, or too many for which it has no credential", ""},
	BadBody:      {http.StatusBadRequest, "", "its body is not framed as RFC 9112 section 7 says", "Send the body with Content-Length, or in whole chunks that end with CR LF."},
	BadContent:   {http.StatusBadRequest, "", "its body can be read in more than one way", "Send it as the usual clients of the host do, such as git, gh or curl with one JSON object, and only with fields that the configuration of the provider lists."},
	TooMuch:      {http.StatusRequestEntityTooLarge, "", "its body is too large, or the task has sent as much as it may", "Send less, or have the operator of ebb raise egress.request_mib or egress.task_mib."},
	Crowded:      {http.StatusServiceUnavailable, "", "the task has as many connections as it may have", ""},
	NoRecord:     {http.StatusServiceUnavailable, "", "it cannot be written to the audit log", ""},
	NoTranscript: {http.StatusServiceUnavailable, "", "a rule requires a transcript of it, and the transcript cannot be stored", ""},
	Doubt:        {http.StatusServiceUnavailable, "", "ebb cannot check at the moment whether it is allowed", ""},

	SealTooLarge:    {http.StatusBadGateway, withheld, "it creates a credential and is longer than 64 KiB", report},
	SealNotJSON:     {http.StatusBadGateway, withheld, "it creates a credential and is not a JSON object", report},
	SealAmbiguous:   {http.StatusBadGateway, withheld, "it creates a credential, and its members can be read in more than one way", report},
	SealBadValue:    {http.StatusBadGateway, withheld, "it creates a credential that no request can hold", report},
	SealBadLifetime: {http.StatusBadGateway, withheld, "it creates a credential, and its expires_in is not a whole number above 0", report},
}

// explain returns the status and detail of a refusal. ask returns the scope to ask for, and how.
func explain(what string, err error, ask func() (string, error)) (status int, detail string) {
	reason := reasonOf(err)
	e := explanations[reason]
	status = cmp.Or(e.status, http.StatusForbidden)
	said := fmt.Sprintf(cmp.Or(e.of, "%s was refused"), what) + ": " + whyOf(err) + "."
	next := e.next
	needs, uncover := errors.AsType[*provider.UncoveredError](err)
	switch {
	case uncover:
		next = uncovered(needs)
	case retryable(status):
		next = fmt.Sprintf("Try again in %d s.", retryAfter(err))
	case next == "":
		var failed error
		if next, failed = ask(); failed != nil {
			next = askFor(anyScope)
		}
	}
	return status, said + " " + next
}

// replyTo returns the status, media type and body of a refusal in the form that the client shows to
// its user. A protocol with refusals of its own gets one of those, with status 200. The others get
// JSON, except for git, which shows only plain text.
func replyTo(r *http.Request, status int, detail string, err error) (as int, mediaType string, body []byte) {
	if e, is := errors.AsType[*provider.UncoveredError](err); is && e.Reply != nil {
		mediaType, body = e.Reply(detail)
		return http.StatusOK, mediaType, body
	}
	if strings.HasSuffix(r.URL.Path, "/info/refs") && strings.HasPrefix(r.URL.RawQuery, "service=git-") { // gitprotocol-http(5)
		return status, "text/plain", []byte(detail + "\n")
	}
	return status, "application/json", encode(reasonOf(err), detail)
}

// encode returns the JSON of a refusal.
func encode(reason stricturl.Reason, detail string) []byte {
	body, _ := json.Marshal(refusal{Error: "egress_denied", Reason: reason, Detail: detail}) // cannot fail: all fields are strings
	return append(body, '\n')
}

// whyOf returns a clause on why something was refused. It quotes only errors without data from the
// sandbox, an upstream or DNS. The cause of a Denial is not quoted, because it can say where a name
// leads.
func whyOf(err error) string {
	if e, is := errors.AsType[*provider.ElsewhereError](err); is {
		return e.Why
	}
	if e, is := errors.AsType[*provider.UncoveredError](err); is {
		return e.Why
	}
	if e, is := errors.AsType[*content.Error](err); is {
		return e.Why
	}
	if e, is := errors.AsType[*stricturl.Error](err); is && !errors.As(err, new(*Denial)) {
		return e.Why
	}
	return explanations[reasonOf(err)].why
}

// anyScope is shown instead of a scope that ebb does not know.
const anyScope = "PROVIDER:RESOURCE:ACTION"

// uncovered returns how to get the scopes that the body of a request needs.
func uncovered(e *provider.UncoveredError) string {
	if e.Needed.Empty() {
		return "No scope covers it. Change the request."
	}
	noun := "scope"
	if e.Needed.Len() > 1 {
		noun = "scopes"
	}
	limit := ""
	if e.Content != "" {
		limit = " --content " + e.Content
	}
	return fmt.Sprintf("It needs the %[1]s %[2]s. Ask for it: ebb token --scope '%[2]s'%[3]s --wait --reason 'why it is needed' (or the tool request_credential of ebb mcp). Then send it again unchanged.", noun, e.Needed, limit)
}

// scopeAdvice returns what to do to get one of these scopes.
func scopeAdvice(needed []scopes.Scope) string {
	switch len(needed) {
	case 0:
		return "No scope that the task may ask for covers it. Change the request, or have the runner open a task with a wider scope; the operator of ebb configures which scopes there are."
	case 1:
		return fmt.Sprintf("The scope %s covers it. %s", needed[0], askFor(needed[0].String()))
	}
	var names []string
	for _, s := range needed {
		names = append(names, s.String())
	}
	return fmt.Sprintf("Each of the scopes %s covers it. %s", strings.Join(names, ", "), askFor(names[0]))
}

// askFor returns how a sandbox asks for a scope. A scope has no character that a shell interprets
// between single quotes.
func askFor(scope string) string {
	return fmt.Sprintf("Ask for it: ebb token --scope '%s' --reason 'why it is needed' (or the tool request_credential of ebb mcp). Then try again, with the placeholder that it returns in place of the credential.", scope)
}

// retryable reports whether a status means that the same request may succeed later.
func retryable(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// retryAfter returns in how many seconds a refused request may succeed (RFC 9110 section 10.2.3).
func retryAfter(err error) int {
	return max(1, int(math.Ceil(broker.AsError(err).RetryAfter.Seconds())))
}

// Reasons besides those of package stricturl.
const (
	NotAllowed   stricturl.Reason = "not_allowed"      // no lease of the caller covers this request
	Metadata     stricturl.Reason = "metadata_address" // its host is a metadata service of a cloud
	Private      stricturl.Reason = "private_address"  // its host is in a private network
	Self         stricturl.Reason = "self"             // its host is ebb, or the machine that ebb runs on
	Unresolved   stricturl.Reason = "unresolved"       // its host name cannot be resolved
	Unreachable  stricturl.Reason = "upstream_unreachable"
	NotTunnelled stricturl.Reason = "not_tunnelled"          // it did not arrive inside CONNECT and TLS
	Misdirected  stricturl.Reason = "misdirected"            // it is for another host than its tunnel, or a page of another site sent it
	NoCredential stricturl.Reason = "no_credential"          // its placeholder names no valid lease of the caller
	Certificate  stricturl.Reason = "client_certificate"     // the upstream requires a client certificate and rejects the one it got, or the one of the credential is unusable
	BadAnswer    stricturl.Reason = "bad_answer"             // the response violates the protocol, or cannot be searched for secrets
	NotTLS       stricturl.Reason = "not_tls"                // its tunnel has no TLS for its host
	NotSSH       stricturl.Reason = "not_ssh"                // its tunnel begins as SSH but is not SSH, or the server is not
	TooOften     stricturl.Reason = "rate_limited"           // its task sends too many requests
	BadBody      stricturl.Reason = "bad_body"               // its body is not framed as RFC 9112 section 7 says
	BadContent   stricturl.Reason = "bad_content"            // a parser of package content refuses its body
	TooMuch      stricturl.Reason = "too_much"               // its body is too large, or its task has sent TaskBytes
	Crowded      stricturl.Reason = "too_many_connections"   // its task has its share of the connections
	NoRecord     stricturl.Reason = "record_unavailable"     // it cannot be written to the audit log; may be temporary
	NoTranscript stricturl.Reason = "transcript_unavailable" // a rule requires a transcript, which cannot be stored; may be temporary
	Doubt        stricturl.Reason = "unavailable"            // ebb cannot tell whether it is allowed; may be temporary
)

// Reasons why a response that creates a credential is withheld.
const (
	SealTooLarge    stricturl.Reason = "seal_too_large"    // it is longer than maxSealed
	SealNotJSON     stricturl.Reason = "seal_not_json"     // it is not a JSON object
	SealAmbiguous   stricturl.Reason = "seal_ambiguous"    // a name occurs twice or in other case, a member occurs inside another value, or marks break the object
	SealBadValue    stricturl.Reason = "seal_bad_value"    // a member is not a string that can be added to a request
	SealBadLifetime stricturl.Reason = "seal_bad_lifetime" // expires_in is not a whole number of seconds above 0
)

// Denial is the reason why a request is not sent. The sandbox does not get the Cause, except for
// the text of those errors that whyOf quotes: a cause can say where a name leads.
type Denial struct {
	Reason stricturl.Reason
	Cause  error // for the log; may be nil
}

// Error implements error.
func (d *Denial) Error() string {
	if d.Cause == nil {
		return string(d.Reason)
	}
	return fmt.Sprintf("%s: %v", d.Reason, d.Cause)
}

// Unwrap returns the cause.
func (d *Denial) Unwrap() error { return d.Cause }

func deny(r stricturl.Reason, cause error) error { return &Denial{Reason: r, Cause: cause} }

// unquoted returns an error of an upstream that may be logged. Errors of parsers quote their input,
// and an upstream that echoes a request would put the credential there. Of such errors only the
// type is kept.
func unquoted(err error) error {
	var denial *Denial
	var network net.Error
	var certificate *tls.CertificateVerificationError
	plain := []error{nil, io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded, ErrOver, errEndpointClosed}
	if slices.Contains(plain, err) || errors.As(err, &denial) || errors.As(err, &network) || errors.As(err, &certificate) {
		return err
	}
	return &unreadable{err}
}

// unreadable is the error for a response that cannot be parsed.
type unreadable struct{ cause error }

// Error implements error.
func (u *unreadable) Error() string {
	return fmt.Sprintf("the upstream's response cannot be parsed (%T)", u.cause)
}

// Unwrap returns the cause.
func (u *unreadable) Unwrap() error { return u.cause }

// Reasons for refusals because of a placeholder.
const (
	NoPlaceholder    stricturl.Reason = "no_placeholder"    // the request has no placeholder
	StrayPlaceholder stricturl.Reason = "stray_placeholder" // it has one where no credential belongs, or more than one
	ForeignQuery     stricturl.Reason = "foreign_credential"
)

// Causes of a disconnection.
var (
	ErrOver           = errors.New("egress: closed: the task or the credential has ended; nothing more is sent")
	errEndpointClosed = errors.New("egress: closed: the egress endpoint was closed; open another one")

	errPaused = errors.New("egress: closed: the task is paused; try again after it is resumed")
	errDoubt  = errors.New("egress: closed: revocations may have been missed; send the request again")
	errSlow   = errors.New("egress: closed: the request body arrived too slowly; the time for 4 KiB is Config.BodyTime (30 s by default)")
	errExpiry = errors.New("egress: closed: the credential has expired; ask for another one")
)

var errStopping = broker.E(broker.Unavailable, "ebb is stopping. Try again.", nil)

// stopping reports whether ctx has ended because ebb is stopping.
func stopping(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStopping) }

func reasonOf(err error) stricturl.Reason {
	var d *Denial
	var e *stricturl.Error
	switch {
	case errors.As(err, &d):
		return d.Reason
	case errors.As(err, &e):
		return e.Reason
	case unreadableHTTP(err):
		return BadAnswer
	case broker.AsError(err).Kind == broker.Unavailable:
		return Doubt
	case broker.AsError(err).Kind == broker.TooMany:
		return TooOften
	case isBroker(err):
		return NoCredential
	}
	return Unreachable
}

// unreadableHTTP reports whether the response was not HTTP. Errors of TLS, which have no type,
// count as errors of the connection.
func unreadableHTTP(err error) bool {
	u, is := errors.AsType[*unreadable](err)
	return is && !strings.Contains(u.cause.Error(), "tls: ")
}

func isBroker(err error) bool {
	var e *broker.Error
	return errors.As(err, &e)
}
