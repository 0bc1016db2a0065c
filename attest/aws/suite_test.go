package aws_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/aws"
)

// bent returns valid evidence with a change of the document.
func (b *bed) bent(change func(map[string]string)) func(*testing.T) attest.Evidence {
	return func(t *testing.T) attest.Evidence {
		doc := b.document(t, nil)
		change(doc)
		return b.shown(t, doc)
	}
}

// signed returns evidence with a change of the values before they are signed.
func (b *bed) signed(change func(*ask)) func(*testing.T) attest.Evidence {
	return func(t *testing.T) attest.Evidence { return b.evidence(t, change) }
}

func replaced(from, to string) func(map[string]string) {
	return func(d map[string]string) { d["authorization"] = strings.Replace(d["authorization"], from, to, 1) }
}

func (b *bed) bad() map[string]func(*testing.T) attest.Evidence {
	now := b.clock.Now()
	out := map[string]func(*testing.T) attest.Evidence{
		// Changed before signing.
		"wrong audience":           b.signed(func(a *ask) { a.iss = "https://ebb.example.evil" }),
		"another ebb, by a slash":  b.signed(func(a *ask) { a.iss = issuer + "/" }),
		"wrong issuer":             b.signed(as(foreignLogin)),
		"expired":                  b.signed(func(a *ask) { a.at = now.Add(-61 * time.Second) }),
		"not yet valid":            b.signed(func(a *ask) { a.at = now.Add(61 * time.Second) }),
		"15 minutes old":           b.signed(func(a *ask) { a.at = now.Add(-15 * time.Minute) }),
		"clock slow by 5 minutes":  b.signed(func(a *ask) { a.at = now.Add(-5 * time.Minute) }),
		"clock fast by 5 minutes":  b.signed(func(a *ask) { a.at = now.Add(5 * time.Minute) }),
		"wrong host":               b.signed(func(a *ask) { a.url = "https://sts.evil.example/" }),
		"the global endpoint":      b.signed(func(a *ask) { a.url = "https://sts.amazonaws.com/" }),
		"GET":                      b.signed(func(a *ask) { a.method = "GET" }),
		"another path":             b.signed(func(a *ask) { a.url += "x" }),
		"an extra query":           b.signed(func(a *ask) { a.url += "?Action=GetSessionToken" }),
		"a second action":          b.signed(func(a *ask) { a.body += "&Action=AssumeRole" }),
		"another action":           b.signed(func(a *ask) { a.body = "Action=GetSessionToken&Version=2011-06-15" }),
		"no body":                  b.signed(func(a *ask) { a.body = "" }),
		"another region":           b.signed(func(a *ask) { a.region = "us-east-1" }),
		"another service":          b.signed(func(a *ask) { a.service = "s3" }),
		"unsigned nonce":           b.signed(func(a *ask) { a.nonce = "" }),
		"unsigned issuer":          b.signed(func(a *ask) { a.iss = "" }),
		"another nonce signed":     b.signed(func(a *ask) { a.nonce, _ = b.nonce.Issue("cloud", b.key.JKT, now) }),
		"nonce in two values":      b.signed(func(a *ask) { a.nonce += "," + a.nonce }),
		"another header signed":    b.signed(func(a *ask) { a.header.Set("x-amz-target", "x") }),
		"accept signed":            b.signed(func(a *ask) { a.header.Set("Accept", "text/html") }),
		"another content type":     b.signed(func(a *ask) { a.header.Set("Content-Type", "application/json") }),
		"a body that is not sent":  b.signed(func(a *ask) { a.header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD") }),
		"a key that is not theirs": b.signed(func(a *ask) { a.login.secret += "x" }),
		"an unknown key":           b.signed(func(a *ask) { a.login.id = "ASIAUNKNOWNUNKNOWNUN" }),
		"expired credentials":      b.signed(as(expiredLogin)),
		"a user's key":             b.signed(as(userLogin)),
		"a user's session":         b.signed(as(sessionLogin)),
		"a federated user":         b.signed(as(federatedLogin)),
		"root":                     b.signed(as(rootLogin)),
		// Changed after signing.
		"another region named":   b.bent(func(d map[string]string) { d["region"] = "us-east-1" }),
		"no such region":         b.bent(func(d map[string]string) { d["region"] = "evil.example/#" }),
		"no region":              b.bent(func(d map[string]string) { delete(d, "region") }),
		"no nonce":               b.bent(func(d map[string]string) { delete(d, "nonce") }),
		"no token":               b.bent(func(d map[string]string) { delete(d, "x_amz_security_token") }),
		"another's token":        b.bent(func(d map[string]string) { d["x_amz_security_token"] = ec2Login.token }),
		"newline in the token":   b.bent(func(d map[string]string) { d["x_amz_security_token"] += "\r\nHost: evil.example" }),
		"huge token":             b.bent(func(d map[string]string) { d["x_amz_security_token"] = strings.Repeat("A", 8<<10+1) }),
		"date with a fraction":   b.bent(func(d map[string]string) { d["x_amz_date"] = strings.Replace(d["x_amz_date"], "Z", ".0Z", 1) }),
		"newline in the date":    b.bent(func(d map[string]string) { d["x_amz_date"] += "\nX: y" }),
		"another date":           b.bent(func(d map[string]string) { d["x_amz_date"] = now.Add(-30 * time.Second).Format("20060102T150405Z") }),
		"headers":                b.bent(func(d map[string]string) { d["headers"] = "Host: evil.example" }),
		"upper-case member":      b.bent(func(d map[string]string) { d["Region"] = "us-east-1" }),
		"SigV4A":                 b.bent(replaced("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256")),
		"another scope's day":    b.bent(replaced("/"+now.Format("20060102")+"/", "/"+now.AddDate(0, 0, 1).Format("20060102")+"/")),
		"no nonce among signed":  b.bent(replaced(";x-ebb-nonce", "")),
		"a name twice":           b.bent(replaced("host;", "host;host;")),
		"an upper-case name":     b.bent(replaced("x-ebb-nonce", "X-Ebb-Nonce")),
		"both cases":             b.bent(replaced("x-ebb-nonce", "x-ebb-nonce;X-Ebb-Nonce")),
		"not sorted":             b.bent(replaced("x-ebb-issuer;x-ebb-nonce", "x-ebb-nonce;x-ebb-issuer")),
		"newline in the header":  b.bent(replaced("Signature=", "Signature=\r\nHost: evil.example")),
		"a second Authorization": b.bent(func(d map[string]string) { d["authorization"] += ", " + d["authorization"] }),
		"upper-case signature": b.bent(func(d map[string]string) {
			d["authorization"] = d["authorization"][:len(d["authorization"])-64] + strings.Repeat("A", 64)
		}),
		"empty signature": b.bent(func(d map[string]string) { d["authorization"] = d["authorization"][:len(d["authorization"])-64] }),
	}
	out["duplicate members"] = func(t *testing.T) attest.Evidence {
		e := b.evidence(t, nil)
		e.Document = []byte(strings.Replace(string(e.Document), "{", `{"region":"us-east-1",`, 1))
		return e
	}
	out["wrong key"] = func(t *testing.T) attest.Evidence {
		e := b.evidence(t, nil)
		e.Key = attesttest.NewKey(t)
		return e
	}
	out["no key"] = func(t *testing.T) attest.Evidence {
		e := b.evidence(t, nil)
		e.Key = attest.Key{X5T: "x"}
		return e
	}
	for name, n := range map[string]struct {
		fill     byte
		attestor string
		at       time.Time
	}{
		"nonce of another ebb": {2, "cloud", now}, "nonce of another attestor": {1, "cluster", now},
		"old nonce": {1, "cloud", now.Add(-attest.NonceLife)}, "nonce of the future": {1, "cloud", now.Add(2 * attest.NonceLife)},
	} {
		out[name] = func(t *testing.T) attest.Evidence {
			nonce, _ := nonces(t, n.fill).Issue(n.attestor, b.key.JKT, n.at)
			doc := b.document(t, func(a *ask) { a.nonce = nonce })
			doc["nonce"] = nonce
			return b.shown(t, doc)
		}
	}
	return out
}

func TestSuite(t *testing.T) {
	t.Parallel()
	b := newBed(t, nil)
	attesttest.Run(t, attesttest.Suite{
		Attestor: b.aws, Clock: b.clock, Fresh: attest.NonceLife,
		Good: b.signed(nil), Bad: b.bad(),
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			down := newBed(t, nil)
			down.says(500, "")
			return down.aws, down.evidence(t, nil)
		},
		Lures: func(t *testing.T, url string) []attest.Evidence {
			host := strings.TrimPrefix(url, "http://")
			var out []attest.Evidence
			for _, change := range []func(map[string]string){
				func(d map[string]string) { d["region"] = host + "/" },
				func(d map[string]string) { d["region"] = region + "@" + host },
				func(d map[string]string) { d["url"] = url },
				func(d map[string]string) { d["host"] = host },
				func(d map[string]string) { d["authorization"] = url },
				replaced("/"+region+"/", "/"+host+"/"),
				func(d map[string]string) { d["x_amz_security_token"] = url },
				func(d map[string]string) { d["nonce"] = url },
			} {
				out = append(out, b.bent(change)(t))
			}
			return append(out, b.evidence(t, func(a *ask) { a.url = url + "/" }))
		},
	})
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *aws.Config) {
		c.AllowUsers, c.EC2Roles, c.Lifetime = true, []string{account + "/box"}, time.Hour
	})
	role := func(name, session, id, userID string) map[string]string {
		m := map[string]string{"account": account, "region": region, "arn": "arn:aws:sts::" + account + ":assumed-role/" + name + "/" + session,
			"role": name, "session": session, "user_id": userID}
		if id != "" {
			m["principal_id"] = id
		}
		return m
	}
	ec2 := role("box", "i-0123456789abcdef0", "AROABOXBOXBOXBOXBOXBX", ec2Login.userID)
	ec2["instance_id"] = "i-0123456789abcdef0"
	self := role("aws:ec2-instance", "i-0123456789abcdef0", "", identityLogin.userID)
	self["instance_id"] = "i-0123456789abcdef0"
	user := map[string]string{"account": account, "region": region, "arn": userLogin.arn, "user": "ann", "user_id": userLogin.userID, "principal_id": userLogin.userID}
	for _, tc := range []struct {
		login login
		want  map[string]string
	}{
		{roleLogin, role("worker", "task-42", "AROAABCDEFGHIJKLMNOPQ", roleLogin.userID)}, {ec2Login, ec2}, {identityLogin, self}, {userLogin, user}, {sessionLogin, user},
		{federatedLogin, map[string]string{"account": account, "region": region, "arn": federatedLogin.arn, "user_id": federatedLogin.userID}},
	} {
		doc := b.document(t, as(tc.login))
		id, err := b.aws.Attest(t.Context(), b.shown(t, doc))
		if err != nil {
			t.Errorf("%s: %v", tc.login.arn, err)
			continue
		}
		if !same(id.Selectors, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.login.arn, id.Selectors, tc.want)
		}
		if id.Subject != tc.login.userID || id.Class != attest.ClassSigned || id.Attestor != "cloud" || id.TaskID != "" {
			t.Errorf("got %+v", id)
		}
		if id.Key != b.key.JKT || id.ReplayID != doc["nonce"] || !id.NotAfter.Equal(b.clock.Now().Add(time.Hour)) {
			t.Errorf("got key %q, replay id %q, until %v", id.Key, id.ReplayID, id.NotAfter)
		}
	}
	// Without ec2_roles a session name that looks like an instance id gives no
	// instance_id.
	plain := newBed(t, nil)
	id, err := plain.aws.Attest(t.Context(), plain.evidence(t, as(ec2Login)))
	if _, found := id.Selectors["instance_id"]; err != nil || found {
		t.Errorf("got %+v, %v", id, err)
	}
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}
