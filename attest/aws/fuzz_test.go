package aws_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/aws"
	"github.com/ebb-broker/ebb/attest/jose"
)

// FuzzAuthorization checks that String returns the text which was parsed.
func FuzzAuthorization(f *testing.F) {
	b := newBed(f, nil)
	good := b.document(f, nil)["authorization"]
	for _, s := range []string{good, "", "AWS4-HMAC-SHA256 Credential=", strings.ToLower(good), good + "\n", strings.Replace(good, ";", ";;", 1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if again, err := aws.ReadAuthorization(s); err == nil && again != s {
			t.Errorf("%q became %q", s, again)
		}
	})
}

// FuzzEvidence checks that a document is accepted or rejected, and never gives another
// error.
func FuzzEvidence(f *testing.F) {
	b := newBed(f, nil)
	f.Add(b.evidence(f, nil).Document)
	f.Add([]byte(`{"region":"eu-west-1","region":"x"}`))
	f.Add([]byte(`{"x_amz_security_token":"\r\n"}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if err := aws.ReadShown(doc); err != nil && !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%q: %v", doc, err)
		}
	})
}

// FuzzAnswer checks that an arbitrary response gives either no identity or one that can
// be displayed and registered.
func FuzzAnswer(f *testing.F) {
	for _, l := range []login{roleLogin, ec2Login, identityLogin, userLogin, federatedLogin, rootLogin} {
		f.Add(200, []byte(identity(l.account, l.arn, l.userID)))
	}
	_, refused := refusal(403, "ExpiredToken")
	f.Add(403, []byte(refused))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		id, err := aws.ReadAnswer(status, body, "aws")
		if err != nil {
			return
		}
		if status != 200 || id.Subject == "" || !jose.Plain(id.Subject) {
			t.Errorf("%d %q became %+v", status, body, id)
		}
		if err := attest.SelectorMatch(id.Selectors, id); err != nil {
			t.Errorf("%q: %v", body, err)
		}
	})
}

// BenchmarkAttest measures one Attest with an STS on loopback.
func BenchmarkAttest(b *testing.B) {
	bed := newBed(b, nil)
	e := bed.evidence(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bed.aws.Attest(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}
