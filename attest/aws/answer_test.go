package aws_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/aws"
)

// TestAnswers checks with responses of STS, and of other servers in its place, that an
// identity comes only from a valid response, and a rejection only from an error of STS
// itself.
func TestAnswers(t *testing.T) {
	t.Parallel()
	b := newBed(t, nil)
	arn, id := roleLogin.arn, roleLogin.userID
	good := identity(account, arn, id)
	xml := `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>` + arn +
		`</Arn><UserId>` + id + `</UserId><Account>` + account + `</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`
	_, refused := refusal(403, "SignatureDoesNotMatch")
	for name, tc := range map[string]struct {
		status int
		answer string
		reject bool
	}{
		"refused":                    {403, refused, true},
		"expired":                    {403, strings.Replace(refused, "SignatureDoesNotMatch", "ExpiredToken", 1), true},
		"refused with 400":           {400, refused, false},
		"throttled":                  {400, strings.Replace(refused, "SignatureDoesNotMatch", "Throttling", 1), false},
		"429":                        {429, refused, false},
		"500":                        {500, refused, false},
		"503, an identity":           {503, good, false},
		"201, an identity":           {201, good, false},
		"403 of a proxy":             {403, "<html>Forbidden</html>", false},
		"403, empty":                 {403, "", false},
		"403, no code":               {403, strings.Replace(refused, "SignatureDoesNotMatch", "", 1), false},
		"403, the server's fault":    {403, strings.Replace(refused, "Sender", "Receiver", 1), false},
		"403, an identity":           {403, good, false},
		"200, a refusal":             {200, refused, false},
		"200, empty":                 {200, "", false},
		"200, cut":                   {200, good[:len(good)-2], false},
		"200, two answers":           {200, good + good, false},
		"200, null":                  {200, "null", false},
		"200, no result":             {200, `{"GetCallerIdentityResponse":{}}`, false},
		"200, of another action":     {200, strings.ReplaceAll(good, "GetCallerIdentity", "GetSessionToken"), false},
		"200, an ARN twice":          {200, strings.Replace(good, `"Arn":`, `"Arn":"arn:aws:sts::123456789012:assumed-role/admin/x","Arn":`, 1), false},
		"200, another case":          {200, strings.Replace(good, `"Arn":`, `"arn":`, 1), false},
		"200, a second root":         {200, strings.Replace(good, "{", `{"x":{},`, 1), false},
		"200, not UTF-8":             {200, strings.Replace(good, "task-42", "task-\xff", 2), false},
		"200, oversized":             {200, good + strings.Repeat(" ", 17<<10), false},
		"200, XML":                   {200, xml, false},
		"200, XML with two roots":    {200, xml + strings.ReplaceAll(xml, "worker", "admin"), false},
		"200, an ARN in a comment":   {200, "<!--" + xml + "-->" + xml, false},
		"200, an ARN in an entity":   {200, `<!DOCTYPE x [<!ENTITY a "` + arn + `">]>` + strings.Replace(xml, arn, "&a;", 1), false},
		"ARN of another account":     {200, identity(account, strings.Replace(arn, account, "999999999999", 1), id), false},
		"ARN of another partition":   {200, identity(account, strings.Replace(arn, ":aws:", ":aws-cn:", 1), id), false},
		"ARN of another service":     {200, identity(account, strings.Replace(arn, ":sts:", ":iam:", 1), id), false},
		"ARN with a region":          {200, identity(account, strings.Replace(arn, "::", ":eu-west-1:", 1), id), false},
		"ARN with a path":            {200, identity(account, strings.Replace(arn, "worker", "team/worker", 1), id), false},
		"ARN without session":        {200, identity(account, strings.TrimSuffix(arn, "/task-42"), id), false},
		"ARN with a newline":         {200, identity(account, arn+"\n", id), false},
		"ARN of an unknown sort":     {200, identity(account, strings.Replace(arn, "assumed-role", "service", 1), id), false},
		"prefix of an ARN":           {200, identity(account, "x"+arn, id), false},
		"id of another session":      {200, identity(account, arn, id+"x"), false},
		"id of a user":               {200, identity(account, arn, strings.Replace(id, "AROA", "AIDA", 1)), false},
		"instance role, no instance": {200, identity(account, strings.Replace(arn, "worker", "aws:ec2-instance", 1), account+":aws:ec2-instance:task-42"), false},
		"instance role, role's id":   {200, identity(account, ec2Login.arn[:strings.Index(ec2Login.arn, "box")]+"aws:ec2-instance/i-0123456789abcdef0", ec2Login.userID), false},
		"a strange account":          {200, identity("12345678901a", arn, id), false},
		"another account":            {200, identity("999999999999", foreignLogin.arn, foreignLogin.userID), true},
	} {
		b.says(tc.status, tc.answer)
		id, err := b.aws.Attest(t.Context(), b.evidence(t, nil))
		if err == nil || id.Subject != "" || errors.Is(err, attest.ErrRejected) != tc.reject {
			t.Errorf("%s: got %+v, %v; rejected: want %v", name, id, err, tc.reject)
		}
		if err != nil && strings.Contains(err.Error(), "999999999999") {
			t.Errorf("%s: the error repeats the answer: %v", name, err)
		}
	}
	b.says(200, good)
	if _, err := b.aws.Attest(t.Context(), b.evidence(t, nil)); err != nil {
		t.Errorf("good: %v", err)
	}
}

// A redirect is not followed, because it would send the signed request to another
// server.
func TestRedirect(t *testing.T) {
	t.Parallel()
	trap := attesttest.NewTrap(t)
	b := newBed(t, nil)
	b.location = trap.URL
	for _, status := range []int{301, 302, 303, 307, 308} {
		b.says(status, "")
		if _, err := b.aws.Attest(t.Context(), b.evidence(t, nil)); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("%d: got %v", status, err)
		}
	}
	if trap.Dials() != 0 {
		t.Error("a redirect was followed")
	}
}

// A failed or hanging STS gives an error that is not a rejection.
func TestSilence(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer slow.Close()
	defer close(release)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, url := range []string{slow.URL, gone.URL} {
		b := newBed(t, func(c *aws.Config) { c.Endpoint, c.Fetch.Timeout = url, 50e6 })
		if _, err := b.aws.Attest(t.Context(), b.evidence(t, nil)); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %v", err)
		}
	}
}

// Evidence that ebb itself can reject causes no request to STS.
func TestAsksLast(t *testing.T) {
	t.Parallel()
	b := newBed(t, nil)
	now := b.clock.Now()
	bad := b.bad()
	elsewhere := b.document(t, func(a *ask) { a.region = "us-east-1" })
	elsewhere["region"] = "us-east-1"
	bad["a region that is not configured"] = func(t *testing.T) attest.Evidence { return b.shown(t, elsewhere) }
	bad["a token that is not signed"] = b.bent(replaced("x-amz-security-token;", ""))
	bad["a long-lived key with a token"] = b.bent(replaced("ASIA", "AKIA"))
	bad["a token signed that is not there"] = func(t *testing.T) attest.Evidence {
		doc := b.document(t, as(userLogin))
		doc["authorization"] = strings.Replace(doc["authorization"], "x-amz-date;", "x-amz-date;x-amz-security-token;", 1)
		return b.shown(t, doc)
	}
	bad["oversized"] = b.bent(func(d map[string]string) { d["authorization"] += strings.Repeat(" ", 16<<10) })
	asked := 0
	for name, want := range map[string]attest.Reason{
		"a region that is not configured": attest.ReasonIssuer, "another region": attest.ReasonIssuer, "another region named": attest.ReasonIssuer,
		"no such region": attest.ReasonIssuer, "no region": attest.ReasonIssuer,
		"a token that is not signed": attest.ReasonMalformed, "a long-lived key with a token": attest.ReasonMalformed,
		"a token signed that is not there": attest.ReasonMalformed, "no token": attest.ReasonMalformed, "a user's key": attest.ReasonType,
		"huge token": attest.ReasonMalformed, "newline in the token": attest.ReasonMalformed, "oversized": attest.ReasonOversized,
		"date with a fraction": attest.ReasonMalformed, "newline in the date": attest.ReasonMalformed, "another scope's day": attest.ReasonMalformed,
		"expired": attest.ReasonExpired, "15 minutes old": attest.ReasonExpired, "clock slow by 5 minutes": attest.ReasonExpired,
		"not yet valid": attest.ReasonNotYetValid, "clock fast by 5 minutes": attest.ReasonNotYetValid,
		"unsigned nonce": attest.ReasonMalformed, "unsigned issuer": attest.ReasonMalformed, "another service": attest.ReasonMalformed,
		"another header signed": attest.ReasonMalformed, "accept signed": attest.ReasonMalformed,
		"a name twice": attest.ReasonMalformed, "not sorted": attest.ReasonMalformed, "both cases": attest.ReasonMalformed, "SigV4A": attest.ReasonMalformed,
		"duplicate members": attest.ReasonMalformed, "headers": attest.ReasonMalformed, "a second Authorization": attest.ReasonMalformed,
		"wrong key": attest.ReasonNonce, "no key": attest.ReasonNonce, "nonce of another ebb": attest.ReasonNonce,
		"nonce of another attestor": attest.ReasonNonce, "old nonce": attest.ReasonExpired,
	} {
		_, err := b.aws.Attest(t.Context(), bad[name](t))
		if attesttest.Reason(err) != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
		if n := b.requests(); n != asked {
			t.Errorf("%s: STS was asked", name)
			asked = n
		}
	}
	// A difference of exactly one minute is accepted.
	for _, at := range []time.Time{now.Add(-time.Minute), now.Add(time.Minute)} {
		if _, err := b.aws.Attest(t.Context(), b.evidence(t, func(a *ask) { a.at = at })); err != nil {
			t.Errorf("signed at %v: %v", at, err)
		}
	}
}

// ways is a transport that records the URLs of requests and sends none.
type ways struct{ to []string }

func (w *ways) RoundTrip(r *http.Request) (*http.Response, error) {
	w.to = append(w.to, r.URL.String())
	return nil, errors.New("no request is sent in this test")
}

// The region selects the regional endpoint, and a signature is valid for one region.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, regions := range [][2]string{{"eu-west-1", "ap-southeast-2"}, {"cn-north-1", "cn-northwest-1"}, {"us-gov-west-1", "us-gov-east-1"}} {
		w := &ways{}
		b := newBed(t, func(c *aws.Config) { c.Endpoint, c.Regions, c.Fetch.Transport = "", regions[:], w })
		domain := ".amazonaws.com/"
		if strings.HasPrefix(regions[0], "cn-") {
			domain = ".amazonaws.com.cn/"
		}
		for i, r := range regions {
			url := "https://sts." + r + domain
			doc := b.document(t, func(a *ask) { a.region, a.url = r, url })
			doc["region"] = r
			if _, err := b.aws.Attest(t.Context(), b.shown(t, doc)); err == nil || errors.Is(err, attest.ErrRejected) {
				t.Errorf("%s: got %v", r, err)
			}
			if len(w.to) != i+1 || strings.TrimSuffix(w.to[i], "/") != strings.TrimSuffix(url, "/") {
				t.Errorf("%s: asked %v", r, w.to)
			}
			doc["region"] = regions[1-i]
			if _, err := b.aws.Attest(t.Context(), b.shown(t, doc)); !errors.Is(err, attest.ErrRejected) || len(w.to) != i+1 {
				t.Errorf("%s signed for %s: got %v", regions[1-i], r, err)
			}
		}
	}
}

// A request to STS needs the permission of attest.Costly, which is requested only after
// all other checks.
func TestAsksForLeave(t *testing.T) {
	t.Parallel()
	b := newBed(t, nil)
	ctx, asked := attesttest.Bounded(t.Context())
	for _, name := range []string{"nonce of another ebb", "nonce of another attestor", "old nonce", "wrong key", "no key", "unsigned nonce", "another region", "expired"} {
		if _, err := b.aws.Attest(ctx, b.bad()[name](t)); !errors.Is(err, attest.ErrRejected) || *asked != 0 {
			t.Errorf("%s: %v, asked %d times", name, err, *asked)
		}
	}
	if _, err := b.aws.Attest(ctx, b.evidence(t, nil)); !errors.Is(err, attesttest.ErrBound) || errors.Is(err, attest.ErrRejected) || *asked != 1 || b.requests() != 0 {
		t.Errorf("%v, asked %d times, STS %d times", err, *asked, b.requests())
	}
}
