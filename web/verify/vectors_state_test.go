package verify_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/web/verify"
)

func bytesOf(s string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(s) }

// thumbOf is the thumbprint of a JWK in the form of RFC 7638.
func thumbOf(core string) (string, [32]byte) {
	sum := sha256.Sum256([]byte(core))
	return b64(sum[:]), sum
}

// requests are the vectors about how token and proof are sent.
func (f *forge) requests() {
	type headers = [][2]string
	for name, c := range map[string]struct {
		want    string
		headers func(token, proof string) headers
	}{
		"no Authorization":     {"401", func(_, p string) headers { return headers{{"DPoP", p}} }},
		"empty Authorization":  {"401", func(_, p string) headers { return headers{{"Authorization", ""}, {"DPoP", p}} }},
		"Basic":                {"401", func(_, p string) headers { return headers{{"Authorization", "Basic dXNlcjpwYXNz"}, {"DPoP", p}} }},
		"Proxy-Authorization":  {"401", func(t, p string) headers { return headers{{"Proxy-Authorization", "DPoP " + t}, {"DPoP", p}} }},
		"tab after the scheme": {"401", func(t, p string) headers { return headers{{"Authorization", "DPoP\t" + t}, {"DPoP", p}} }},
		"scheme in lower case": {"allow", func(t, p string) headers { return headers{{"Authorization", "dpop " + t}, {"DPoP", p}} }},
		"two spaces":           {"allow", func(t, p string) headers { return headers{{"Authorization", "DPoP  " + t}, {"DPoP", p}} }},
		"scheme without token": {"400 invalid_request", func(_, p string) headers { return headers{{"Authorization", "DPoP"}, {"DPoP", p}} }},
		"space in the token":   {"400 invalid_request", func(t, p string) headers { return headers{{"Authorization", "DPoP x " + t}, {"DPoP", p}} }},
		"newline after token":  {"400 invalid_request", func(t, p string) headers { return headers{{"Authorization", "DPoP " + t + "\n"}, {"DPoP", p}} }},
		"NUL after token":      {"400 invalid_request", func(t, p string) headers { return headers{{"Authorization", "DPoP " + t + "\x00"}, {"DPoP", p}} }},
		"escape after token":   {"400 invalid_request", func(t, p string) headers { return headers{{"Authorization", "DPoP " + t + "\x1b[2J"}, {"DPoP", p}} }},
		"umlaut after token":   {"400 invalid_request", func(t, p string) headers { return headers{{"Authorization", "DPoP " + t + "\u00e9"}, {"DPoP", p}} }},
		"quotes around token":  {"400 invalid_request", func(t, p string) headers { return headers{{"Authorization", `DPoP "` + t + `"`}, {"DPoP", p}} }},
		"parameters":           {"400 invalid_request", func(t, p string) headers { return headers{{"Authorization", "DPoP token=" + t}, {"DPoP", p}} }},
		"equals signs only":    {"400 invalid_request", func(_, p string) headers { return headers{{"Authorization", "DPoP =="}, {"DPoP", p}} }},
		"JSON serialisation":   {"400 invalid_request", func(_, p string) headers { return headers{{"Authorization", `DPoP {"payload":"x"}`}, {"DPoP", p}} }},
		"two Authorization": {"400 invalid_request", func(t, p string) headers {
			return headers{{"Authorization", "DPoP " + t}, {"Authorization", "Bearer " + t}, {"DPoP", p}}
		}},
		"same Authorization": {"400 invalid_request", func(t, p string) headers {
			return headers{{"Authorization", "DPoP " + t}, {"authorization", "DPoP " + t}, {"DPoP", p}}
		}},
		"two tokens in one":     {"400 invalid_request", func(t, p string) headers { return headers{{"Authorization", "DPoP " + t + ", DPoP " + t}, {"DPoP", p}} }},
		"Bearer and a proof":    {badToken, func(t, p string) headers { return headers{{"Authorization", "Bearer " + t}, {"DPoP", p}} }},
		"Bearer without proof":  {badToken, func(t, _ string) headers { return headers{{"Authorization", "Bearer " + t}} }},
		"no proof":              {badProof, func(t, _ string) headers { return headers{{"Authorization", "DPoP " + t}} }},
		"the same proof twice":  {badProof, func(t, p string) headers { return headers{{"Authorization", "DPoP " + t}, {"DPoP", p}, {"dpop", p}} }},
		"an empty second proof": {badProof, func(t, p string) headers { return headers{{"Authorization", "DPoP " + t}, {"DPoP", p}, {"DPoP", ""}} }},
		"token in DPoP":         {badProof, func(t, _ string) headers { return headers{{"Authorization", "DPoP " + t}, {"DPoP", t}} }},
		"proof as token":        {badToken, func(_, p string) headers { return headers{{"Authorization", "DPoP " + p}, {"DPoP", p}} }},
		"huge proof header": {badProof, func(t, _ string) headers {
			return headers{{"Authorization", "DPoP " + t}, {"DPoP", strings.Repeat("a", 9000)}}
		}},
		"huge token": {badToken, func(_, p string) headers {
			return headers{{"Authorization", "DPoP " + strings.Repeat("a", 9000)}, {"DPoP", p}}
		}},
		"forwarding headers": {"allow", func(t, p string) headers {
			return headers{{"Authorization", "DPoP " + t}, {"DPoP", p}, {"X-Forwarded-Host", "evil.test"}, {"Forwarded", "host=evil.test;proto=http"}, {"X-Original-URL", "/admin"}}
		}},
	} {
		token := f.token(nil)
		r := &vectorRequest{Method: "GET", URL: base + path, Headers: c.headers(token, f.proof(token, nil, nil))}
		f.add("request: "+name, f.step(c.want, r))
	}
	for name, query := range map[string]string{"token in the query too": "access_token=x", "escaped name": "access%5Ftoken=x", "name without value": "q=1&access_token"} {
		token := f.token(nil)
		r := f.get(token, f.proof(token, nil, nil))
		r.URL += "?" + query
		f.add("request: query: "+name, f.step("400 invalid_request", r))
	}
	token := f.token(nil)
	r := f.get(token, f.proof(token, nil, nil))
	r.URL += "?ACCESS_TOKEN=x&my_access_token=y"
	f.add("request: query: similar names", f.step("allow", r))
}

// states are the vectors about replay, revocation, staleness, and renewed keys.
func (f *forge) states() {
	f.replays()
	f.starts()
	f.revocations()
	f.feeds()
	f.renewedKeys()
}

func (f *forge) replays() {
	token := f.token(nil)
	p := f.proof(token, nil, nil)
	f.add("replay: the same proof", f.step("allow", f.get(token, p)), f.step(badProof, f.get(token, p)))
	f.add("replay: the other signature of the same proof", f.step("allow", f.get(token, p)),
		f.step(badProof, f.get(token, f.resigned(p, signatures()["the other of the two s values"].change))))
	f.add("replay: the same jti in another proof", f.step("allow", f.get(token, f.proof(token, nil, object{"jti": "j1"}))),
		f.step(badProof, f.get(token, f.proof(token, nil, object{"jti": "j1", "x": 1}))))
	f.add("replay: the same jti in another letter case", f.step("allow", f.get(token, f.proof(token, nil, object{"jti": "j1"}))),
		f.step("allow", f.get(token, f.proof(token, nil, object{"jti": "J1"}))))
	second := f.token(nil)
	f.add("replay: the same jti with another token", f.step("allow", f.get(token, f.proof(token, nil, object{"jti": "j1"}))),
		f.step(badProof, f.get(second, f.proof(second, nil, object{"jti": "j1"}))))
	other := f.get(token, f.proof(token, nil, object{"jti": "j1", "htu": base + "/api/eu/43"}))
	other.URL = base + "/api/eu/43"
	f.add("replay: the same jti for another URL", f.step("allow", f.get(token, f.proof(token, nil, object{"jti": "j1"}))), f.step("allow", other))
	foreign := f.token(object{"cnf": object{"jkt": thumb(f.t, f.mallory)}})
	f.add("replay: the same jti of another key", f.step("allow", f.get(token, f.proof(token, nil, object{"jti": "j1"}))),
		f.step("allow", f.get(foreign, f.proofBy(f.mallory, foreign, nil, object{"jti": "j1"}))))
	f.add("replay: 60 s later", f.step("allow", f.get(token, p)), vectorStep{Advance: 60}, vectorStep{Feed: &vectorFeed{Cursor: "c0", Status: 200, Body: f.page("c1")}}, f.step(badProof, f.get(token, p)))
	narrow := f.token(object{"scope": "orders:eu/43:read"})
	q := f.proof(narrow, nil, nil)
	f.add("replay: a proof counts as used when the scope is refused", f.step("403 insufficient_scope", f.get(narrow, q)), f.step(badProof, f.get(narrow, q)))
	f.add("replay: a refused proof does not use up its jti", f.step(badProof, f.get(token, f.proof(token, nil, object{"jti": "j1", "ath": "x"}))),
		f.step("allow", f.get(token, f.proof(token, nil, object{"jti": "j1"}))))
	f.add("replay: a proof of another key does not use up a jti", f.step(badToken, f.get(token, f.proofBy(f.mallory, token, nil, object{"jti": "j1"}))),
		f.step("allow", f.get(token, f.proof(token, nil, object{"jti": "j1"}))))
	f.add("cache: a changed token is not the known one", f.step("allow", f.get(token, f.proof(token, nil, nil))),
		f.step(badToken, f.get(token[:len(token)-2]+"AA", f.proof(token[:len(token)-2]+"AA", nil, nil))))
	short := f.token(object{"exp": vectorNow + 5})
	f.add("cache: a known token expires", f.step("allow", f.get(short, f.proof(short, nil, nil))), vectorStep{Advance: 5}, f.step(badToken, f.get(short, f.proof(short, nil, nil))))
}

// starts are requests shortly after the start of the verifier, which does not know the proofs of before.
func (f *forge) starts() {
	token := f.token(nil)
	for up, want := range map[int]string{0: "401 use_dpop_nonce", 60: "401 use_dpop_nonce", 120: "401 use_dpop_nonce", 121: "allow"} {
		f.add(fmt.Sprintf("start: %d s ago", up), f.step(want, f.get(token, f.proof(token, nil, nil)))).Up = &up
	}
	zero := 0
	f.add("start: nonce of another server", f.step("401 use_dpop_nonce", f.get(token, f.proof(token, nil, object{"nonce": "abc"})))).Up = &zero
	f.add("start: iat ahead does not help", f.step("401 use_dpop_nonce", f.get(token, f.proof(token, nil, object{"iat": vectorNow + 60})))).Up = &zero
	f.add("start: a bad proof is not asked for a nonce", f.step(badProof, f.get(token, f.proof(token, nil, object{"htm": "POST"})))).Up = &zero
	f.add("start: a proof of another key is not asked for a nonce", f.step(badToken, f.get(token, f.proofBy(f.mallory, token, nil, nil)))).Up = &zero
}

// page is a response of the feed with events for the ids.
func (f *forge) page(cursor string, ids ...string) string {
	events := []object{}
	for _, id := range ids {
		e := object{"at": stamp(0), "until": stamp(600)}
		if task, lease, both := strings.Cut(id, "/"); both {
			e["task_id"], e["lease_id"] = task, lease
		} else {
			e["task_id"] = id
		}
		events = append(events, e)
	}
	return text(object{"events": events, "cursor": cursor, "max_age_seconds": 10})
}

func stamp(after int64) string {
	return time.Unix(vectorNow+after, 123456789).UTC().Format(time.RFC3339Nano)
}

func (f *forge) heard(cursor, body string) vectorStep {
	return vectorStep{Feed: &vectorFeed{Cursor: cursor, Status: http.StatusOK, Body: body}}
}

func (f *forge) revocations() {
	fresh := func(token string) *vectorRequest { return f.get(token, f.proof(token, nil, nil)) }
	for _, c := range []struct {
		name, id, want string
		claims         object
	}{
		{"the task", "tsk_1", badToken, nil},
		{"another task", "tsk_2", "allow", nil},
		{"the token", "tsk_1/lse_a", badToken, object{"jti": "lse_a"}},
		{"another token of the task", "tsk_1/lse_b", "allow", object{"jti": "lse_a"}},
		{"the task in capitals", "TSK_1", "allow", nil},
		{"an ancestor", "tsk_00", badToken, object{issuer + verify.AncestorsClaim: "tsk_0 tsk_00"}},
		{"a parent", "tsk_0/lse_0", badToken, object{issuer + verify.ParentsClaim: "lse_00 lse_0"}},
		{"a task named in parents", "tsk_0", "allow", object{issuer + verify.ParentsClaim: "lse_0"}},
		{"a task id that is a property of every object", "constructor", badToken, object{issuer + verify.TaskClaim: "constructor"}},
	} {
		token := f.token(c.claims)
		f.add("revoked: "+c.name, f.step("allow", fresh(token)), f.heard("c0", f.page("c1", c.id)), f.step(c.want, fresh(token)))
	}
	token := f.token(object{issuer + verify.TaskClaim: "__proto__"})
	f.add("revoked: an unrelated task is not found by a property of every object", f.heard("c0", f.page("c1", "tsk_2")), f.step("allow", fresh(token)))
	token = f.token(nil)
	f.add("revoked: once, seen again", f.heard("c0", f.page("c1", "tsk_1")), f.heard("c1", f.page("c2")), f.step(badToken, fresh(token)), f.step(badToken, fresh(token)))
	f.add("revoked: the scope does not matter", f.heard("c0", f.page("c1", "tsk_1")), f.step(badToken, fresh(f.token(object{"scope": "orders:x:read"}))))
	f.add("revoked: a bad proof is named first", f.heard("c0", f.page("c1", "tsk_1")), f.step(badProof, f.get(token, f.proof(token, nil, object{"htm": "POST"}))))
}

func (f *forge) feeds() {
	fresh := func(change object) *vectorRequest {
		token := f.token(change)
		return f.get(token, f.proof(token, nil, object{"iat": vectorNow + 10}))
	}
	f.add("feed: never read", f.step("503", fresh(nil))).Unread = true
	f.add("feed: never read, bad token", f.step(badToken, fresh(object{"iss": "https://evil.test"}))).Unread = true
	f.add("feed: never read, other scope", f.step("503", fresh(object{"scope": "orders:x:read"}))).Unread = true
	f.add("feed: 10 s old", vectorStep{Advance: 10}, f.step("allow", fresh(nil)))
	f.add("feed: 11 s old", vectorStep{Advance: 11}, f.step("503", fresh(nil)))
	f.add("feed: stale, then read again", vectorStep{Advance: 11}, f.step("503", fresh(nil)), f.heard("c0", f.page("c1")), f.step("allow", fresh(nil)))
	f.add("feed: stale and revoked meanwhile", vectorStep{Advance: 11}, f.step("503", fresh(nil)), f.heard("c0", f.page("c1", "tsk_1")), f.step(badToken, fresh(nil)))
	limit := func(seconds int) string {
		return fmt.Sprintf(`{"events":[],"cursor":"c1","max_age_seconds":%d}`, seconds)
	}
	f.add("feed: the issuer allows 4 s, 4 s old", f.heard("c0", limit(4)), vectorStep{Advance: 4}, f.step("allow", fresh(nil)))
	f.add("feed: the issuer allows 4 s, 5 s old", f.heard("c0", limit(4)), vectorStep{Advance: 5}, f.step("503", fresh(nil)))
	f.add("feed: the issuer allows more than the server", f.heard("c0", limit(3600)), vectorStep{Advance: 11}, f.step("503", fresh(nil)))
	for name, a := range map[string]vectorFeed{
		"the connection fails": {Status: 0}, "503": {Status: 503, Body: "{}"}, "301": {Status: 301}, "204": {Status: 204}, "not JSON": {Status: 200, Body: "<html>"},
		"cut off": {Status: 200, Body: `{"events":[],"cur`}, "HTML with JSON in it": {Status: 200, Type: "text/html", Body: f.page("c1")}, "events are an object": {Status: 200, Body: `{"events":{},"cursor":"c1"}`},
		"a task id is a number": {Status: 200, Body: `{"events":[{"task_id":1,"until":"` + stamp(600) + `"}],"cursor":"c1"}`},
		"a time is not a time":  {Status: 200, Body: `{"events":[{"task_id":"tsk_1","until":"soon"}],"cursor":"c1"}`},
		"for other servers":     {Status: 200, Body: `{"events":[],"cursor":"c1","audiences":["https://billing.test"]}`},
		"an array":              {Status: 200, Body: "[]"},
	} {
		f.add("feed: not renewed by: "+name, vectorStep{Advance: 10}, vectorStep{Feed: &vectorFeed{Cursor: "c0", Status: a.Status, Type: a.Type, Body: a.Body}},
			vectorStep{Advance: 1}, f.step("503", fresh(nil)))
	}
	f.add("feed: for this server among others", f.heard("c0", `{"events":[],"cursor":"c1","audiences":["https://billing.test","`+resource+`"]}`), f.step("allow", fresh(nil)))
	f.add("feed: names this server does not know", f.heard("c0", `{"events":[{"task_id":"tsk_1","until":"`+stamp(600)+`","why":"x"}],"cursor":"c1","more":1}`), f.step(badToken, fresh(nil)))
	gone := vectorStep{Feed: &vectorFeed{Cursor: "c1", Status: http.StatusGone, Type: "application/problem+json", Body: `{"type":"` + issuer + `/problems/gone"}`}}
	unknown := vectorStep{Feed: &vectorFeed{Cursor: "c1", Status: 400, Type: "application/problem+json", Body: `{"type":"` + issuer + `/problems/invalid_request"}`}}
	for name, reset := range map[string]vectorStep{"410": gone, "400": unknown} {
		f.add("feed: cursor unknown ("+name+"), read from the start, the revocations stay", f.heard("c0", f.page("c1", "tsk_1")), reset, f.step(badToken, fresh(nil)),
			vectorStep{Advance: 1}, f.heard("", f.page("d1")), f.step(badToken, fresh(nil)), f.step("allow", fresh(object{issuer + verify.TaskClaim: "tsk_2"})))
		f.add("feed: cursor unknown ("+name+") does not renew it", f.heard("c0", f.page("c1")), reset, vectorStep{Advance: 11}, f.step("503", fresh(nil)))
	}
}

func (f *forge) renewedKeys() {
	sign := func(kid string) *vectorRequest {
		token := attesttest.Forge(f.t, f.next, f.head(object{"kid": kid}), f.claims(nil))
		return f.get(token, f.proof(token, nil, object{"iat": vectorNow + 10}))
	}
	wait := []vectorStep{{Advance: 11}, f.heard("c0", f.page("c1"))}
	f.add("keys: a new one is read for an unknown kid", append(wait, f.step("allow", sign("k3")))...).JWKS = []string{"issuer", "rotated"}
	f.add("keys: not again within 10 s", f.step(badToken, sign("k3"))).JWKS = []string{"issuer", "rotated"}
	f.add("keys: unknown, and the endpoint is down", append(wait, f.step("503", sign("k3")))...).JWKS = []string{"issuer", "down"}
	old := f.token(nil)
	f.add("keys: a known token whose key is gone", append([]vectorStep{f.step("allow", f.get(old, f.proof(old, nil, nil)))}, append(wait,
		f.step("allow", sign("k3")), f.step(badToken, f.get(old, f.proof(old, nil, nil))))...)...).JWKS = []string{"issuer", "rotated"}
	f.add("keys: the last good set stays when a later one is bad", append(wait, f.step("503", sign("k3")), f.step("allow", f.get(old, f.proof(old, nil, nil))))...).JWKS = []string{"issuer", "not-json"}
}
