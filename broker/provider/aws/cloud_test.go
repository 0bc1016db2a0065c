package aws

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/awsapi/awstest"
)

// cloud is STS and IAM as AWS documents them: it recomputes every signature,
// enforces every limit, keeps what was written, and decides on requests of
// sessions with the oracle. It can be slow to show a write, and break on purpose.
type cloud struct {
	t   testing.TB
	url string

	mu       sync.Mutex
	offset   time.Duration // of its clock
	roles    map[string]*cloudRole
	sessions map[string]*cloudSession // by token
	faults   map[string][]fault       // by action, used up in order
	calls    map[string]int
	stale    int // reads after a write that still show the old policy
	denyAll  int // sessions made with a policy that only denies
	onPut    func()
}

type cloudRole struct {
	arn, id, external  string
	maxSession         int
	noTags, noIdentity bool // what the trust policy does not allow
	inline             map[string]string
	old                string // what a stale read shows
	staleLeft          int
}

type cloudSession struct {
	role, name, identity, policy string
	issued, expires              time.Time
	tags                         map[string]string
}

type fault int

const (
	pass      fault = iota
	hang            // never answers
	cut             // done, but the answer ends early
	throttle        // Throttling
	broken          // 500, nothing done
	doneFails       // 500, but done
	garbage         // done, 200 with nonsense
	endless         // done, an answer without an end
	hollow          // 200 without credentials
	nginx           // 404 of a proxy
	empty           // 404 with an empty body
	late            // 408
	forbid          // AccessDenied
	lasting         // done, but the session is said to live for a day
)

const (
	cloudKey    = "AKIDEXAMPLE"
	cloudSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" //nolint:gosec // AWS's own example
	cloudRoleA  = "arn:aws:iam::111122223333:role/ebb/data-1"
	cloudRoleB  = "arn:aws:iam::111122223333:role/data-2"
)

func newCloud(t testing.TB) *cloud {
	c := &cloud{t: t, sessions: map[string]*cloudSession{}, faults: map[string][]fault{}, calls: map[string]int{}, roles: map[string]*cloudRole{
		"data-1": {arn: cloudRoleA, id: "AROA1111111111EXAMPLE", maxSession: 3600, inline: map[string]string{}},
		"data-2": {arn: cloudRoleB, id: "AROA2222222222EXAMPLE", maxSession: 43200, inline: map[string]string{}},
	}}
	c.url = awstest.Serve(t, c)
	return c
}

// config reaches the cloud with a key of its own.
func (c *cloud) config() Config {
	cfg := config()
	cfg.Endpoint, cfg.Timeout = c.url, "10s"
	cfg.AccessKeyFile, cfg.SecretKeyFile = awstest.SecretFile(c.t, cloudKey), awstest.SecretFile(c.t, cloudSecret)
	cfg.Now = c.now
	return cfg
}

func (c *cloud) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

func (c *cloud) pass(d time.Duration) { c.mu.Lock(); c.offset += d; c.mu.Unlock() }

func (c *cloud) fail(action string, fs ...fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[action] = fs
}

func (c *cloud) count(action string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[action]
}

func (c *cloud) inline(role string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.roles[role].inline[denyPolicy]
}

// may decides on a request that uses a credential, as AWS would.
func (c *cloud) may(token, action, resource string, more facts) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Add(c.offset)
	s := c.sessions[token]
	if s == nil || !now.Before(s.expires) {
		return false
	}
	r := c.roles[s.role]
	if r == nil {
		return false
	}
	f := facts{
		"aws:currenttime": now.UTC().Format(time.RFC3339), "aws:tokenissuetime": s.issued.UTC().Format(time.RFC3339), "aws:userid": r.id + ":" + s.name,
	}
	if s.identity != "" {
		f["aws:sourceidentity"] = s.identity
	}
	for k, v := range s.tags {
		f["aws:principaltag/"+strings.ToLower(k)] = v
	}
	maps.Copy(f, more)
	for _, text := range r.inline {
		if parseIAM(c.t, text).effect(c.t, action, resource, f) == "Deny" {
			return false
		}
	}
	return parseIAM(c.t, s.policy).effect(c.t, action, resource, f) == "Allow" // the role itself allows everything
}

// ServeHTTP implements http.Handler.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	if err != nil {
		c.t.Errorf("the form does not parse: %v", err)
	}
	action := form.Get("Action")
	c.mu.Lock()
	c.calls[action]++
	f := pass
	if fs := c.faults[action]; len(fs) > 0 {
		f, c.faults[action] = fs[0], fs[1:]
	}
	put := c.onPut
	w.Header().Set("Date", time.Now().Add(c.offset).UTC().Format(http.TimeFormat))
	c.mu.Unlock()
	switch f {
	case hang:
		<-r.Context().Done()
		return
	case broken:
		refuse(w, 500, "InternalFailure")
		return
	case throttle:
		refuse(w, 400, "Throttling")
		return
	case forbid:
		refuse(w, 403, "AccessDenied")
		return
	case nginx:
		w.WriteHeader(404)
		_, _ = io.WriteString(w, "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>NoSuchEntity</body>\r\n</html>")
		return
	case empty:
		w.WriteHeader(404)
		return
	case late:
		refuse(w, 408, "RequestTimeout")
		return
	case hollow:
		_, _ = io.WriteString(w, "<AssumeRoleResponse><AssumeRoleResult></AssumeRoleResult></AssumeRoleResponse>")
		return
	}
	if problem := awstest.Signed(r, body, cloudKey, cloudSecret, "sts", "iam"); problem != "" {
		c.t.Errorf("%s: %s", action, problem)
		refuse(w, 403, "SignatureDoesNotMatch")
		return
	}
	if action == "PutRolePolicy" && put != nil {
		put()
	}
	c.mu.Lock()
	status, answer := c.act(action, form)
	c.mu.Unlock()
	switch {
	case status != 200:
		refuse(w, status, answer)
	case f == doneFails:
		refuse(w, 500, "InternalFailure")
	case f == garbage:
		_, _ = io.WriteString(w, "<html><body>It works!")
	case f == endless:
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "<x>"+strings.Repeat("y", 1<<16)+"</x>"); err != nil {
				return
			}
		}
	case f == cut:
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = io.WriteString(w, answer[:len(answer)/2])
	case f == lasting:
		_, _ = io.WriteString(w, regexp.MustCompile(`<Expiration>[^<]*`).ReplaceAllString(answer, "<Expiration>"+time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339)))
	default:
		_, _ = io.WriteString(w, answer)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>as told</Message></Error><RequestId>r</RequestId></ErrorResponse>", code)
}

func (c *cloud) act(action string, form url.Values) (status int, answer string) {
	now := time.Now().Add(c.offset)
	if action == "GetCallerIdentity" {
		return 200, "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:sts::111122223333:assumed-role/ebb/i-1</Arn><UserId>AROAX:i-1</UserId><Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
	}
	name := form.Get("RoleName")
	if action == "AssumeRole" {
		name = roleName(form.Get("RoleArn"))
	}
	r := c.roles[name]
	if r == nil {
		if action == "AssumeRole" {
			return 403, "AccessDenied"
		}
		return 404, "NoSuchEntity"
	}
	switch action {
	case "AssumeRole":
		return c.assume(r, name, form, now)
	case "GetRole":
		return 200, fmt.Sprintf("<GetRoleResponse><GetRoleResult><Role><RoleId>%s</RoleId><Arn>%s</Arn><MaxSessionDuration>%d</MaxSessionDuration><Path>/</Path><RoleName>%s</RoleName><CreateDate>2026-01-01T00:00:00Z</CreateDate></Role></GetRoleResult></GetRoleResponse>", r.id, r.arn, r.maxSession, name)
	case "GetRolePolicy":
		text, ok := r.inline[form.Get("PolicyName")]
		if r.staleLeft > 0 {
			r.staleLeft--
			text, ok = r.old, r.old != ""
		}
		if !ok {
			return 404, "NoSuchEntity"
		}
		return 200, fmt.Sprintf("<GetRolePolicyResponse><GetRolePolicyResult><RoleName>%s</RoleName><PolicyName>%s</PolicyName><PolicyDocument>%s</PolicyDocument></GetRolePolicyResult></GetRolePolicyResponse>",
			name, form.Get("PolicyName"), strings.ReplaceAll(url.QueryEscape(text), "+", "%20"))
	case "PutRolePolicy":
		return c.put(r, form.Get("PolicyName"), form.Get("PolicyDocument"))
	case "DeleteRolePolicy":
		if _, ok := r.inline[form.Get("PolicyName")]; !ok {
			return 404, "NoSuchEntity"
		}
		delete(r.inline, form.Get("PolicyName"))
		return 200, "<DeleteRolePolicyResponse/>"
	}
	c.t.Errorf("an action that nobody may use: %s", action)
	return 403, "AccessDenied"
}

func (c *cloud) put(r *cloudRole, name, text string) (int, string) {
	if name != denyPolicy {
		c.t.Errorf("the policy %q was written", name)
	}
	for _, s := range parseIAM(c.t, text).Statement {
		if s.Effect != "Deny" {
			c.t.Errorf("a statement allows: %+v", s)
		}
	}
	size := 0
	for n, other := range r.inline {
		if n != name {
			size += len(strings.Join(strings.Fields(other), ""))
		}
	}
	if size+len(strings.Join(strings.Fields(text), "")) > 10240 {
		return 409, "LimitExceeded"
	}
	r.old, r.staleLeft = r.inline[name], c.stale
	r.inline[name] = text
	return 200, "<PutRolePolicyResponse/>"
}

var (
	cloudName = regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)
	cloudTag  = regexp.MustCompile(`^[A-Za-z0-9_.:/=+@ -]{1,128}$`)
)

func (c *cloud) assume(r *cloudRole, name string, form url.Values, now time.Time) (int, string) {
	policy, session, identity := form.Get("Policy"), form.Get("RoleSessionName"), form.Get("SourceIdentity")
	seconds, err := strconv.Atoi(form.Get("DurationSeconds"))
	tags := map[string]string{}
	for i := 1; form.Has(fmt.Sprintf("Tags.member.%d.Key", i)); i++ {
		tags[form.Get(fmt.Sprintf("Tags.member.%d.Key", i))] = form.Get(fmt.Sprintf("Tags.member.%d.Value", i))
	}
	switch {
	case policy == "":
		c.t.Error("a session was asked for without a session policy")
		return 400, "ValidationError"
	case len(policy) > 2048:
		c.t.Errorf("a session policy of %d characters was sent", len(policy))
		return 400, "ValidationError"
	case !cloudName.MatchString(session), identity != "" && (!cloudName.MatchString(identity) || strings.HasPrefix(identity, "aws:")),
		err != nil, seconds < 900, seconds > r.maxSession, form.Get("RoleArn") != r.arn, len(tags) > 50:
		return 400, "ValidationError"
	case r.external != form.Get("ExternalId"), len(tags) > 0 && r.noTags, identity != "" && r.noIdentity:
		return 403, "AccessDenied"
	}
	for k, v := range tags {
		if !cloudTag.MatchString(k) || v != "" && !cloudTag.MatchString(v) {
			return 400, "ValidationError"
		}
	}
	if !json.Valid([]byte(policy)) {
		return 400, "MalformedPolicyDocument"
	}
	if c.bounded(policy) {
		c.denyAll++
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	token := hex.EncodeToString(id)
	s := &cloudSession{role: name, name: session, identity: identity, policy: policy, tags: tags, issued: now.Truncate(time.Second), expires: now.Truncate(time.Second).Add(time.Duration(seconds) * time.Second)}
	c.sessions[token] = s
	var esc strings.Builder
	_ = xml.EscapeText(&esc, []byte(r.id+":"+session))
	return 200, fmt.Sprintf("<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA%s</AccessKeyId><SecretAccessKey>secret-%s</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials><AssumedRoleUser><AssumedRoleId>%s</AssumedRoleId><Arn>a</Arn></AssumedRoleUser></AssumeRoleResult></AssumeRoleResponse>",
		token[:16], token[16:], token, s.expires.UTC().Format(time.RFC3339), esc.String())
}

// bounded checks that every Allow ends by itself, and reports a policy that only
// denies.
func (c *cloud) bounded(policy string) bool {
	denies := true
	for _, s := range parseIAM(c.t, policy).Statement {
		denies = denies && s.Effect == "Deny"
		if s.Effect == "Allow" && len(s.Condition["DateLessThan"]["aws:CurrentTime"]) != 1 {
			c.t.Errorf("an Allow does not end: %+v", s)
		}
		for _, a := range s.Action {
			if s.Effect == "Allow" && (strings.HasPrefix(a, "iam:") || strings.HasPrefix(a, "sts:") || strings.HasPrefix(a, "*")) {
				c.t.Errorf("a session policy allows %s", a)
			}
		}
	}
	return denies
}
