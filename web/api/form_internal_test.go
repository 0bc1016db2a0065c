package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
)

// String and known agree on the parameter names.
func TestParamNames(t *testing.T) {
	t.Parallel()
	for p := range numParams {
		if got := known(p.String()); got != p {
			t.Errorf("%q is parsed as %d, want %d", p, got, p)
		}
	}
	if known("no such parameter") != numParams || known("") != numParams || known("Grant_Type") != numParams {
		t.Error("an unknown name is known")
	}
}

func post(target, contentType, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

const formType = "application/x-www-form-urlencoded"

func TestReadForm(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("x=1&", maxPairs) + "y=2"
	targets := strings.Repeat("resource=https%3A%2F%2Fa.test%2F&", maxTargets+1)
	for name, c := range map[string]struct {
		target, contentType, body string
		want                      broker.Kind
	}{
		"good":                          {"/", formType, "grant_type=a&scope=b", ""},
		"charset":                       {"/", formType + "; charset=UTF-8", "grant_type=a", ""},
		"no body":                       {"/", formType, "", ""},
		"A2 JSON":                       {"/", "application/json", `{"grant_type":"a"}`, broker.Invalid},
		"A2 no type":                    {"/", "", "grant_type=a", broker.Invalid},
		"A2 multipart":                  {"/", "multipart/form-data; boundary=x", "--x--", broker.Invalid},
		"A2 type with suffix":           {"/", formType + "x", "grant_type=a", broker.Invalid},
		"A3 query":                      {"/?grant_type=a", formType, "scope=b", broker.Invalid},
		"A3 query without values":       {"/?x", formType, "", broker.Invalid},
		"A4 repeated":                   {"/", formType, "grant_type=a&grant_type=a", broker.Invalid},
		"A4 repeated, escaped name":     {"/", formType, "scope=a&%73cope=b", broker.Invalid},
		"A4 repeated, one empty":        {"/", formType, "scope=a&scope=", broker.Invalid},
		"A4 repeated resource":          {"/", formType, "resource=https%3A%2F%2Fa&resource=https%3A%2F%2Fb&audience=x&audience=y", ""},
		"A5 empty":                      {"/", formType, "code=&grant_type=a&scope=", ""},
		"A6 unknown":                    {"/", formType, "foo=1&foo=2&grant_type=a", ""},
		"A6 unknown with odd text":      {"/", formType, "foo=%01%e2%80%ae", ""},
		"H45 targets":                   {"/", formType, targets, broker.InvalidTarget},
		"too many parameters":           {"/", formType, many, broker.Invalid},
		"bad escape":                    {"/", formType, "scope=%zz", broker.Invalid},
		"short escape":                  {"/", formType, "scope=%4", broker.Invalid},
		"NUL":                           {"/", formType, "reason=%00", broker.Invalid},
		"not UTF-8":                     {"/", formType, "reason=%ff", broker.Invalid},
		"overlong UTF-8":                {"/", formType, "reason=%c0%af", broker.Invalid},
		"raw byte":                      {"/", formType, "reason=\xe4", broker.Invalid},
		"raw newline":                   {"/", formType, "reason=a\nb", broker.Invalid},
		"H24 control character in a id": {"/", formType, "task_id=tsk_%0d%0a", broker.Invalid},
		"H24 bidi in an id":             {"/", formType, "client_id=%e2%80%ae", broker.Invalid},
		"newline in a reason":           {"/", formType, "reason=a%0ab", ""},
		"semicolons do not separate":    {"/", formType, "scope=a;scope=b", ""},
	} {
		_, err := readForm(post(c.target, c.contentType, c.body), 64<<10)
		got := broker.Kind("")
		if err != nil {
			got = broker.AsError(err).Kind
		}
		if got != c.want {
			t.Errorf("%s: got %q (%v), want %q", name, got, err, c.want)
		}
	}
}

func TestFormValues(t *testing.T) {
	t.Parallel()
	f, err := readForm(post("/", formType, "scope=a%3Ab%3Ac+d%3ae%3Af&resource=x&resource=y&code=&reason=%E2%82%AC%26%3D"), 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.get(pScope); got != "a:b:c d:e:f" {
		t.Errorf("scope %q", got)
	}
	if got := f.get(pReason); got != "\u20ac&=" {
		t.Errorf("reason %q", got)
	}
	if len(f.resources) != 2 || !f.has(pResource) || f.has(pAudience) || f.has(pGrantType) {
		t.Errorf("%+v", f)
	}
}

// A form accepted here has the same values for net/url, so that no other parser
// sees a different request.
func FuzzForm(f *testing.F) {
	for _, s := range []string{"", "grant_type=a&scope=b%20c", "a=b&a=b", "scope=%zz", "resource=a&resource=b", "&&=&=x", "%67rant_type=+", "scope=a;b", "reason=%F0%9F%98%80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseForm(s)
		if err != nil {
			return
		}
		if strings.Contains(s, ";") {
			return // net/url refuses what HTML forms allow
		}
		want, err := url.ParseQuery(s)
		if err != nil {
			t.Fatalf("%q: accepted here, refused by net/url: %v", s, err)
		}
		for p := range numParams {
			values := want[p.String()]
			switch p {
			case pResource, pAudience:
				var kept []string
				for _, v := range values {
					if v != "" {
						kept = append(kept, v)
					}
				}
				mine := got.resources
				if p == pAudience {
					mine = got.audiences
				}
				if strings.Join(kept, "\x00") != strings.Join(mine, "\x00") {
					t.Fatalf("%q: %s is %q, net/url says %q", s, p, mine, kept)
				}
			default:
				if len(values) > 1 {
					t.Fatalf("%q: %s was repeated and accepted", s, p)
				}
				if got.get(p) != want.Get(p.String()) {
					t.Fatalf("%q: %s is %q, net/url says %q", s, p, got.get(p), want.Get(p.String()))
				}
			}
		}
	})
}

func TestParseAuthorization(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values []string
		scheme string
		token  string
		bad    bool
	}{
		"none":                   {nil, "", "", false},
		"DPoP":                   {[]string{"DPoP abc.def-_~+/=="}, "DPoP", "abc.def-_~+/==", false},
		"scheme in another case": {[]string{"dpop abc"}, "DPoP", "abc", false},
		"Bearer":                 {[]string{"Bearer abc"}, "Bearer", "abc", false},
		"Basic":                  {[]string{"Basic YTpi"}, "Basic", "YTpi", false},
		"other":                  {[]string{"Negotiate abc"}, "other", "abc", false},
		"two headers":            {[]string{"DPoP a", "Bearer b"}, "", "", true},
		"two in one":             {[]string{"DPoP a, Bearer b"}, "", "", true},
		"no token":               {[]string{"DPoP"}, "", "", true},
		"only padding":           {[]string{"Bearer =="}, "", "", true},
		"inner space":            {[]string{"Bearer a b"}, "", "", true},
		"tab":                    {[]string{"Bearer\ta"}, "other", "", false},
		"quote":                  {[]string{`Bearer "a"`}, "", "", true},
		"padding inside":         {[]string{"Bearer a=b"}, "", "", true},
		"empty":                  {[]string{""}, "other", "", false},
	} {
		got, err := parseAuthorization(c.values)
		if (err != nil) != c.bad || got.scheme != c.scheme || got.token != c.token {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func FuzzAuthorization(f *testing.F) {
	for _, s := range []string{"", "DPoP a", "Bearer a.b.c", "dpop  x", "Basic YTpi", "DPoP a,b", "Bearer\x00a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseAuthorization([]string{s})
		if err != nil || got.scheme == "other" {
			return
		}
		if !jose.IsToken68(got.token) || !strings.EqualFold(s[:len(got.scheme)], got.scheme) || strings.TrimLeft(s[len(got.scheme):], " ") == s[len(got.scheme):] {
			t.Fatalf("%q: %+v", s, got)
		}
	})
}

func BenchmarkParseForm(b *testing.B) {
	form := url.Values{"grant_type": {grantExchange}, "subject_token": {strings.Repeat("e", 600)}, "subject_token_type": {typeTask},
		"resource": {"https://orders.test/"}, "scope": {"orders:eu/42:read"}, "reason": {"I need it"}}.Encode()
	b.Run("ebb", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := parseForm(form); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("net/url", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := url.ParseQuery(form); err != nil {
				b.Fatal(err)
			}
		}
	})
}
