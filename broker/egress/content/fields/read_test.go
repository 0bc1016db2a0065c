package fields_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/fields"
)

func rule(t testing.TB, r fields.Rule) *fields.Rule {
	t.Helper()
	r.Check("body", func(format string, a ...any) { t.Errorf(format, a...) })
	return &r
}

func payment(t testing.TB) *fields.Rule {
	return rule(t, fields.Rule{Format: fields.JSON, Decimals: 2, Units: []string{"EUR", "USD"}, Fields: map[string]string{
		"/amount": "amount", "/currency": "unit", "/description": "show", "/metadata/**": "any", "/lines/*/amount": "amount", "/flags/*": "any",
	}})
}

func mail(t testing.TB) *fields.Rule {
	return rule(t, fields.Rule{Format: fields.JSON, Units: []string{"mails"}, Fields: map[string]string{
		"/personalizations/*/to/*/email": "email", "/personalizations/*/bcc/*/email": "email", "/personalizations/*/id": "count",
		"/subject": "show", "/content/**": "any",
	}})
}

func form(t testing.TB) *fields.Rule {
	return rule(t, fields.Rule{Format: fields.Form, Decimals: 2, Units: []string{"EUR"}, Fields: map[string]string{
		"/amount": "amount", "/currency": "unit", "/metadata/*": "show", "/expand/*": "any", "/customer": "object",
	}})
}

func post(media, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://api.example.com/v1/payments", strings.NewReader(body))
	r.Header.Set("Content-Type", media)
	return r
}

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

// said describes facts in one line.
func said(f content.Facts) string {
	var b strings.Builder
	for _, o := range f.Operations {
		fmt.Fprintf(&b, "%s %s", o.Action, o.Object)
		if o.Amount != "" {
			b.WriteString(" " + o.Amount)
		}
		if len(o.Details) > 0 {
			fmt.Fprintf(&b, " %v", o.Details)
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule             *fields.Rule
		media, body, say string
	}{
		{payment(t), asJSON, `{"amount":1250,"currency":"eur"}`, "pay charges EUR 12.5"},
		{payment(t), "Application/JSON ;charset=\"UTF-8\"", `{"amount":1,"currency":"EUR"}`, "pay charges EUR 0.01"}, {payment(t), asJSON + ";", `{"amount":1,"currency":"EUR"}`, "pay charges EUR 0.01"},
		{payment(t), asJSON + "; charset=UTF-8", `{"currency":"USD","amount":"5","description":"two \u0062ooks"}`, "pay charges USD 0.05 map[/description:two books]"},
		{payment(t), asJSON, `{"lines":[{"amount":100},{"amount":250}],"currency":"EUR","metadata":{"a":{"b":[1,null,{}]}},"flags":[true,[]]}`, "pay charges EUR 3.5"},
		{payment(t), asJSON, `{"\u0061mount":1,"currency":"EUR","metadata":{}}`, "pay charges EUR 0.01"},
		{mail(t), asJSON, `{"personalizations":[{"id":1,"to":[{"email":"Bob@Example.COM"},{"email":"eve+x@a-b.org"}]},{"id":2,"bcc":[{"email":"z@example.com"}]}],"subject":"Hi","content":[{"value":"x"}]}`,
			"pay charges mails 2 map[/subject:Hi]; pay charges/example.com/Bob; pay charges/a-b.org/eve+x; pay charges/example.com/z"},
		{form(t), asForm, `amount=1250&currency=eur&customer=cus_1&metadata[order]=a%26b&expand[]=x&expand[]=y`, "pay charges EUR 12.5 map[/metadata/order:a&b]; pay charges/cus_1"},
	} {
		r := post(tt.media, tt.body)
		f, err := tt.rule.Read(r, "charges", "pay")
		if err != nil || said(f) != tt.say || f.Kind != tt.rule.Format || len(f.Body) != 64 {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", tt.body, said(f), err, tt.say)
		}
		if again, err := io.ReadAll(r.Body); err != nil || string(again) != tt.body || r.ContentLength != int64(len(tt.body)) {
			t.Errorf("%s: the body is then %q, %v", tt.body, again, err)
		}
	}
}

// TestHostileBodies: no body that a server may read as something else has facts.
//
//ebb:invariant I6 A request whose body has amounts or recipients is refused if two servers could read its fields in different ways
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	const utf7 = `{"amount":1,"currency":"EUR","description":"+ACI-,+ACI-amount+ACI-:9,+ACI-x+ACI-:+ACI-"}`
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for _, tt := range []struct {
		rule        *fields.Rule
		media, body string
	}{
		// Twice, by case, by escape, by Unicode.
		{payment(t), asJSON, `{"amount":1,"amount":100000,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":1,"\u0061mount":9,"currency":"EUR"}`},
		{payment(t), asJSON, `{"amount":1,"Amount":9,"currency":"EUR"}`}, {payment(t), asJSON, `{"AMOUNT":1,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR","Metadata":{}}`},
		{payment(t), asJSON, `{"amount":1,"currency":"EUR","currency":"USD"}`}, {payment(t), asJSON, `{"lines":[{"amount":1,"amounT":9}],"currency":"EUR"}`}, {payment(t), asJSON, "{\"amount\":1,\"currency\":\"EUR\",\"flag\u017f\":[1]}"},
		// Unlisted, or at another place.
		{payment(t), asJSON, `{"amount":1,"currency":"EUR","tip":9}`}, {payment(t), asJSON, `{"amount":{"value":9},"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":[9],"currency":"EUR"}`},
		{payment(t), asJSON, `{"amount":1,"currency":"EUR","lines":[]}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR","lines":{"0":{"amount":1},"x":{"price":1}}}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR","":9}`},
		// Read as another name, or left out.
		{payment(t), asJSON, `{"amount":1,"currency":"EUR","metadata":{"a\u0000b":1}}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR","metadata":{"__proto__":{"a":1}}}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR","metadata":{"\u005f_proto__":{"a":{"b":1}}}}`},
		{form(t), asForm, "amount=1&customer=c&metadata[__proto__]=1&currency=eur"}, {form(t), asForm, "amount=1&customer=c" + strings.Repeat("&expand[]=1", 1000) + "&currency=eur"},
		// Missing.
		{payment(t), asJSON, `{}`}, {payment(t), asJSON, `{"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":1}`}, {payment(t), asJSON, `{"metadata":{"amount":1},"currency":"EUR"}`},
		{mail(t), asJSON, `{"subject":"x"}`}, {mail(t), asJSON, `{"personalizations":[{"id":1}]}`}, {mail(t), asJSON, `{"personalizations":[{"to":[{"email":"a@b.c"}]}]}`},
		// Numbers. Many servers use a default instead of 0.
		{payment(t), asJSON, `{"amount":0,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":"0.00","currency":"EUR"}`}, {payment(t), asJSON, `{"lines":[{"amount":1},{"amount":0}],"currency":"EUR"}`},
		{payment(t), asJSON, `{"amount":-1,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":1e3,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":1E-2,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":"1,000","currency":"EUR"}`},
		{payment(t), asJSON, `{"amount":0.001,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":"0x10","currency":"EUR"}`}, {payment(t), asJSON, `{"amount":"","currency":"EUR"}`}, {payment(t), asJSON, `{"amount":null,"currency":"EUR"}`},
		{payment(t), asJSON, `{"amount":true,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":" 1","currency":"EUR"}`}, {payment(t), asJSON, `{"amount":99999999999999999999,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":01,"currency":"EUR"}`},
		{payment(t), asJSON, `{"amount":NaN,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":"١","currency":"EUR"}`},
		{payment(t), asJSON, `{"lines":[{"amount":1},{"amount":-1}],"currency":"EUR"}`},
		// Units.
		{payment(t), asJSON, `{"amount":1,"currency":"JPY"}`}, {payment(t), asJSON, `{"amount":1,"currency":["EUR"]}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR "}`}, {payment(t), asJSON, `{"amount":1,"currency":""}`}, {payment(t), asJSON, `{"amount":1,"currency":978}`},
		// No JSON object.
		{payment(t), asJSON, ``}, {payment(t), asJSON, `[{"amount":1,"currency":"EUR"}]`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR"}{"amount":9}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR"} x`},
		{payment(t), asJSON, "\ufeff" + `{"amount":1,"currency":"EUR"}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR",}`}, {payment(t), asJSON, `{"amount":1,/* */"currency":"EUR"}`}, {payment(t), asJSON, `{'amount':1,"currency":"EUR"}`},
		{payment(t), asJSON, "{\"amount\":1,\"currency\":\"EUR\",\"description\":\"\xff\"}"}, {payment(t), asJSON, `{"amount":1,"currency":"EUR","description":"\ud800"}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR"`},
		{payment(t), asJSON, `{"amount":1,"currency":"EUR","metadata":` + deep + `}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR","flags":[` + strings.Repeat("1,", 3000) + `1]}`}, {payment(t), asJSON, `{"amount":1,"currency":"EUR","description":"` + strings.Repeat("x", 1<<20) + `"}`},
		// Recipients.
		{mail(t), asJSON, recipient("Bob <bob@example.com>")}, {mail(t), asJSON, recipient("bob@example.com,eve@evil.example")}, {mail(t), asJSON, recipient("bob@example.com\n")}, {mail(t), asJSON, recipient("bob")}, {mail(t), asJSON, recipient("@example.com")},
		{mail(t), asJSON, recipient("bob@")}, {mail(t), asJSON, recipient("a@b@c")}, {mail(t), asJSON, recipient(`\"a b\"@c.d`)}, {mail(t), asJSON, recipient("a/b@c.d")}, {mail(t), asJSON, recipient("*@c.d")}, {mail(t), asJSON, recipient("a@c..d")}, {mail(t), asJSON, recipient("a@c.d.")},
		{mail(t), asJSON, recipient("b\u00f6b@c.d")}, {mail(t), asJSON, recipient(strings.Repeat("x", 65) + "@c.d")},
		// Content-Type.
		{payment(t), asForm, `{"amount":1,"currency":"EUR"}`}, {payment(t), "text/plain", `{"amount":1,"currency":"EUR"}`}, {payment(t), asJSON + "; charset=utf-16", `{"amount":1,"currency":"EUR"}`}, {payment(t), "application/json+x", `{"amount":1,"currency":"EUR"}`}, {payment(t), "", `{"amount":1,"currency":"EUR"}`},
		{payment(t), asJSON + "; charset=utf-7; charset*=utf-8''utf-8", utf7}, {payment(t), asJSON + "; charset*=utf-8''utf-8; charset=utf-7", utf7}, {payment(t), asJSON + "; charset=utf-7; charset*0=utf-8", utf7}, {payment(t), asJSON + "; charset=utf-8; charset=utf-7", utf7},
		{payment(t), asJSON + "; charset*=utf-8''utf-8", utf7}, {payment(t), asJSON + `; charset="utf\-7"`, utf7}, {payment(t), asJSON + "; x=y", utf7}, {payment(t), asJSON + ", " + asForm, utf7}, {form(t), asForm + "; charset=utf-7; charset*=utf-8''utf-8", "amount=1&currency=eur&customer=c"},
		{form(t), "multipart/form-data; boundary=x", "--x\r\n"}, {form(t), asJSON, "amount=1&currency=eur&customer=c"},
		// Forms.
		{form(t), asForm, "amount=1&amount=9&currency=eur&customer=c"}, {form(t), asForm, "amount=1&amoun%74=9&currency=eur&customer=c"}, {form(t), asForm, "amount=1&amount[]=9&currency=eur&customer=c"}, {form(t), asForm, "amount=1&amount[x]=9&currency=eur&customer=c"},
		{form(t), asForm, "amount=1;amount=9&currency=eur&customer=c"}, {form(t), asForm, "amount=1&Amount=9&currency=eur&customer=c"}, {form(t), asForm, "amount=1&currency=eur&customer=c&x=1"}, {form(t), asForm, "amount=1&currency=eur&customer=c&"},
		{form(t), asForm, "amount=1&currency=eur&customer=c&metadata[a]=1&metadata[a]=2"}, {form(t), asForm, "amount=1&currency=eur&customer=c&metadata[a=1"}, {form(t), asForm, "amount=1&currency=eur&customer=c&metadata[a]b=1"}, {form(t), asForm, "amount=1&currency=eur&customer=c&[metadata]=1"},
		{form(t), asForm, "amount=1&currency=eur&customer=c&metadata%00[a]=1"}, {form(t), asForm, "amount=1&currency=eur&customer=c&metadata[a]=%00"}, {form(t), asForm, "amount=1&currency=eur&customer=c&metadata[a]=%ff"}, {form(t), asForm, "amount=1&currency=eur&customer=c&metadata[a]=%zz"},
		{form(t), asForm, "amount=1&currency=eur&customer"}, {form(t), asForm, "amount=1&currency=eur"}, {form(t), asForm, ""}, {form(t), asForm, "amount=1&currency=eur&customer=c&expand=1&expand[]=2"}, {form(t), asForm, " amount=1&currency=eur&customer=c"}, {form(t), asForm, "amount.x=1&amount=1&currency=eur&customer=c"},
		{form(t), asForm, "amount=1&currency=eur&customer=c&metadata[]=1&metadata[0]=2"}, {form(t), asForm, "amount=1&currency=eur&customer=c&metadata[1]=1&metadata[]=2"}, {form(t), asForm, "amount=1&currency=eur&customer=c&metadata[a]=1&metadata[]=2"},
		{form(t), asForm, "amount=+1&currency=eur&customer=c"}, {form(t), asForm, "amount=1&currency=eur&customer=a/b"}, {form(t), asForm, "amount=1&currency=eur&customer="}, {form(t), asForm, "amount=1&currency=eur&customer=" + strings.Repeat("c", 500)},
	} {
		r := post(tt.media, tt.body)
		if tt.media == "" {
			r.Header.Del("Content-Type")
		}
		f, err := tt.rule.Read(r, "charges", "pay")
		if !errors.As(err, new(*content.Error)) {
			t.Errorf("%.200s: %s, %v", tt.body, said(f), err)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"encoding":  func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") },
		"two types": func(r *http.Request) { r.Header.Add("Content-Type", asForm) },
		"trailer":   func(r *http.Request) { r.Trailer = http.Header{"X": nil} },
	} {
		r := post(asJSON, `{"amount":1,"currency":"EUR"}`)
		change(r)
		if f, err := payment(t).Read(r, "charges", "pay"); !errors.As(err, new(*content.Error)) {
			t.Errorf("%s: %s, %v", name, said(f), err)
		}
	}
}

func recipient(address string) string {
	return `{"personalizations":[{"id":1,"to":[{"email":"` + strings.ReplaceAll(address, "\n", `\n`) + `"}]}]}`
}

// TestPrecedence: the most exact place of a field decides.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	r := rule(t, fields.Rule{Format: fields.JSON, Fields: map[string]string{"/**": "any", "/a/*": "show", "/a/b": "object", "/x~1y/~0": "show"}})
	f, err := r.Read(post(asJSON, `{"a":{"b":"o","c":"s"},"z":{"b":1},"x/y":{"~":"t"}}`), "res", "do")
	if want := "do res map[/a/c:s /x~1y/~0:t]; do res/o"; err != nil || said(f) != want {
		t.Errorf("%s, %v; want %s", said(f), err, want)
	}
}

// TestOtherType: a place with wildcards does not take fields from a place that reads them, when the
// sandbox sends a list or an object instead of one value, or one value instead of those.
//
//ebb:invariant I6 No wildcard in the configuration of a body hides an amount, a recipient or a shown text that is sent with another JSON type
func TestOtherType(t *testing.T) {
	t.Parallel()
	wild := map[string]string{"/**": "any", "/*/*": "any", "/cc": "email", "/to/*/email": "email", "/sum": "amount", "/note": "show", "/list": "email", "/list/*": "email", "/free/*/x": "show", "/free/**": "any"}
	r := rule(t, fields.Rule{Format: fields.JSON, Units: []string{"EUR"}, Fields: wild})
	const sound = `{"sum":1,"to":[{"email":"a@b.c"}]`
	for _, more := range []string{
		`"cc":["eve@evil.example"]`, `"CC":["eve@evil.example"]`, `"cc":{"email":"eve@evil.example"}`, `"cc":[[["eve@evil.example"]]]`, `"to":"eve@evil.example"`, `"note":["x"]`, `"note":{"a":{"b":"x"}}`, `"free":["x"]`,
	} {
		if f, err := r.Read(post(asJSON, strings.Replace(sound, `"to":[{"email":"a@b.c"}]`, `"list":"a@b.c",`+more, 1)+"}"), "charges", "pay"); !errors.As(err, new(*content.Error)) {
			t.Errorf("%s: %s, %v", more, said(f), err)
		}
	}
	for _, sum := range []string{`{"sum":1,"to":["eve@evil.example"],"cc":"a@b.c"}`, `{"sum":1,"to":[{"email":"a@b.c"},{"email":{"x":"eve@evil.example"}}]}`, `{"sum":[9],"list":"a@b.c"}`} {
		if f, err := r.Read(post(asJSON, sum), "charges", "pay"); !errors.As(err, new(*content.Error)) {
			t.Errorf("%s: %s, %v", sum, said(f), err)
		}
	}
	f, err := r.Read(post(asJSON, sound+`,"list":["a@b.c"],"other":[{"cc":["x"]}],"free":[{"y":[1],"x":"s"}]}`), "charges", "pay")
	if want := "pay charges EUR 1 map[/free/0/x:s]; pay charges/b.c/a; pay charges/b.c/a"; err != nil || said(f) != want {
		t.Errorf("%s, %v; want %s", said(f), err, want)
	}
}

// TestShown: each field with the role show is shown, under a name that looks like no other detail.
//
//ebb:invariant I7 No field of a body hides another one from approvers, and none looks like another one
func TestShown(t *testing.T) {
	t.Parallel()
	r := rule(t, fields.Rule{Format: fields.JSON, Fields: map[string]string{"/a/**": "show"}})
	f, err := r.Read(post(asJSON, `{"a":{"b":{"c":"first"},"b/c":"second","b~1c":"third","x: “1”, /a":"fourth","request":"fifth"}}`), "charges", "pay")
	if want := "pay charges map[/a/b/c:first /a/b~01c:third /a/b~1c:second /a/request:fifth /a/x:%20%E2%80%9C1%E2%80%9D%2C%20~1a:fourth]"; err != nil || said(f) != want {
		t.Errorf("%s, %v; want %s", said(f), err, want)
	}
	list := rule(t, fields.Rule{Format: fields.Form, Units: []string{"EUR"}, Fields: map[string]string{"/a/*": "show", "/b/0": "amount", "/b/*": "any"}})
	f, err = list.Read(post(asForm, "a[]=first&a[]=second&b[]=5&b[]=6"), "charges", "pay")
	if want := "pay charges EUR 5 map[/a/0:first /a/1:second]"; err != nil || said(f) != want {
		t.Errorf("%s, %v; want %s", said(f), err, want)
	}
}

// TestCutDetails: a long text is cut between characters, and ends with [cut].
func TestCutDetails(t *testing.T) {
	t.Parallel()
	f, err := payment(t).Read(post(asJSON, `{"amount":1,"currency":"EUR","description":"`+strings.Repeat("é", 300)+`"}`), "charges", "pay")
	if got := f.Operations[0].Details["/description"]; err != nil || len(got) > content.MaxDetail || !strings.HasSuffix(got, "é [cut]") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWrongRules(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]fields.Rule{
		"format":        {Format: "xml", Fields: map[string]string{"/a": "any"}},
		"no fields":     {Format: "json"},
		"role":          {Format: "json", Fields: map[string]string{"/a": "amuont"}},
		"no slash":      {Format: "json", Fields: map[string]string{"a": "any"}},
		"empty part":    {Format: "json", Fields: map[string]string{"/a//b": "any"}},
		"escape":        {Format: "json", Fields: map[string]string{"/a~2": "any"}},
		"rest":          {Format: "json", Fields: map[string]string{"/**/a": "any"}},
		"part of *":     {Format: "json", Fields: map[string]string{"/a*": "any"}},
		"deep amount":   {Format: "json", Fields: map[string]string{"/a/**": "amount"}, Units: []string{"EUR"}},
		"case":          {Format: "json", Fields: map[string]string{"/a": "any", "/A": "show"}},
		"no unit":       {Format: "json", Fields: map[string]string{"/a": "amount"}},
		"which unit":    {Format: "json", Fields: map[string]string{"/a": "amount"}, Units: []string{"EUR", "USD"}},
		"useless unit":  {Format: "json", Fields: map[string]string{"/a": "any"}, Units: []string{"EUR"}},
		"unit name":     {Format: "json", Fields: map[string]string{"/a": "amount"}, Units: []string{"Euro"}},
		"unit twice":    {Format: "json", Fields: map[string]string{"/a": "amount", "/b": "unit"}, Units: []string{"EUR", "eur"}},
		"both":          {Format: "json", Fields: map[string]string{"/a": "amount", "/b": "count"}, Units: []string{"EUR"}},
		"decimals":      {Format: "json", Fields: map[string]string{"/a": "amount"}, Units: []string{"EUR"}, Decimals: 5},
		"negative":      {Format: "json", Fields: map[string]string{"/a": "amount"}, Units: []string{"EUR"}, Decimals: -1},
		"lone unit":     {Format: "json", Fields: map[string]string{"/b": "unit"}},
		"lone decimals": {Format: "json", Fields: map[string]string{"/b": "any"}, Decimals: 2},
	} {
		n := 0
		r.Check("body", func(string, ...any) { n++ })
		if n == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
}

// FuzzRead: for every body, Read returns facts with an amount and within their bounds, or a
// *content.Error.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"amount":1250,"currency":"eur"}`, `{"lines":[{"amount":1}],"currency":"USD"}`, `{"amount":1,"Amount":2}`, `{"a":{"b":[]}}`, "amount=1&currency=eur&customer=c", "a[b][]=1&a[b][]=2", recipient("a@b.c")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, tt := range []struct {
			rule  *fields.Rule
			media string
		}{{payment(t), asJSON}, {mail(t), asJSON}, {form(t), asForm}} {
			facts, err := tt.rule.Read(post(tt.media, body), "charges", "pay")
			if err != nil {
				if !errors.As(err, new(*content.Error)) {
					t.Fatalf("%q: %v", body, err)
				}
				continue
			}
			sum, err := facts.Amount()
			if err != nil || sum.Unit == "" || len(facts.Operations) > content.MaxOperations {
				t.Fatalf("%q: %s, %v", body, said(facts), err)
			}
			for _, o := range facts.Operations {
				if len(o.Object) > content.MaxObject {
					t.Fatalf("%q: %s", body, said(facts))
				}
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	r := payment(b)
	body := `{"lines":[{"amount":100},{"amount":250}],"currency":"EUR","description":"two books","metadata":{"order":"42","a":{"b":[1,null,{}]}},"flags":[true]}`
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Read(post(asJSON, body), "charges", "pay"); err != nil {
			b.Fatal(err)
		}
	}
}
