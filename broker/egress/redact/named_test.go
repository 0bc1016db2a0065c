package redact_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ebb-broker/ebb/broker/egress/redact"
)

func named(t testing.TB) *redact.Named {
	t.Helper()
	n, err := redact.NewNamed([]string{"access_token", "SecretAccessKey"}, []string{"jwt", "token"})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// E89: values with the name of a credential are marked in each form of a response, and similar text
// is not.
//
//ebb:invariant I8 The redactor finds values with the name of a credential wherever the response is split into reads
func TestNamed(t *testing.T) {
	t.Parallel()
	n := named(t)
	for in, want := range map[string]string{
		`{"access_token":"v9"}`:                                                           `{"access_token":"[redacted]"}`,
		"{ \"access_token\" :\n\t\"v9\", \"a\": 1}":                                       "{ \"access_token\" :\n\t\"[redacted]\", \"a\": 1}",
		`{"access_token":"v9\"v9","b":"v"}`:                                               `{"access_token":"[redacted]","b":"v"}`,
		`{"access_token":"v9\\","b":"v"}`:                                                 `{"access_token":"[redacted]","b":"v"}`,
		`{"access_token":""}`:                                                             `{"access_token":""}`,
		`{"access_token":null,"b":"v"}`:                                                   `{"access_token":null,"b":"v"}`,
		`{"access_token":12.5e9,"b":"v"}`:                                                 `{"access_token":"[redacted]","b":"v"}`,
		`{"access_token":{"v9":["}",{"v9":1}]},"b":"v"}`:                                  `{"access_token":"[redacted]","b":"v"}`,
		`{"access_token":["v9","v9"],"b":"v"}`:                                            `{"access_token":"[redacted]","b":"v"}`,
		`["access_token","v"]`:                                                            `["access_token","v"]`,
		`{"my_access_token":"v","access_tokens":"v"}`:                                     `{"my_access_token":"v","access_tokens":"v"}`,
		`{"t":"access_token","x":"v"}`:                                                    `{"t":"access_token","x":"v"}`,
		`{"b":"{\"access_token\":\"v9\",\"x\":\"v\"}"}`:                                   `{"b":"{\"access_token\":\"[redacted]\",\"x\":\"v\"}"}`,
		`{"b":"{\"access_token\": \n\"v9\\\"v9\"}"}`:                                      `{"b":"{\"access_token\": \n\"[redacted]\"}"}`,
		`{"b":"{\"access_token\":\"\",\"x\":\"v\"}"}`:                                     `{"b":"{\"access_token\":\"\",\"x\":\"v\"}"}`,
		`{"b":"{\"access_token\":[\"v9]\"],\"x\":\"v\"}"}`:                                `{"b":"{\"access_token\":\"[redacted]\",\"x\":\"v\"}"}`,
		"data: {\"access_token\":\"v9\"}\n\ndata: x\n":                                    "data: {\"access_token\":\"[redacted]\"}\n\ndata: x\n",
		`{'access_token': 'v9', 'b': "v"}`:                                                `{'access_token': '[redacted]', 'b': "v"}`,
		`<SecretAccessKey>v9+/=</SecretAccessKey><a>v</a>`:                                `<SecretAccessKey>[redacted]</SecretAccessKey><a>v</a>`,
		`<s:SecretAccessKey a="v">v9</s:SecretAccessKey>`:                                 `<s:SecretAccessKey a="v">[redacted]</s:SecretAccessKey>`,
		`<SecretAccessKey/><a>v</a>`:                                                      `<SecretAccessKey/><a>v</a>`,
		`<SecretAccessKey a="v"/><a>v</a>`:                                                `<SecretAccessKey a="v"/><a>v</a>`,
		`<SecretAccessKey></SecretAccessKey>`:                                             `<SecretAccessKey></SecretAccessKey>`,
		`<SecretAccessKey><![CDATA[v9]]></SecretAccessKey>`:                               `<SecretAccessKey>[redacted]</SecretAccessKey>`,
		`{"u":"https://raw/a?token=v9&x=v"}`:                                              `{"u":"https://raw/a?token=[redacted]&x=v"}`,
		`{"u":"https://i/a?x=v\u0026jwt=v9.v9-_~\u0026y"}`:                                `{"u":"https://i/a?x=v\u0026jwt=[redacted]\u0026y"}`,
		`<img src="https://i/a?x=v&amp;jwt=v9&amp;y=v">`:                                  `<img src="https://i/a?x=v&amp;jwt=[redacted]&amp;y=v">`,
		`access_token=v9&scope=repo&token_type=bearer`:                                    `access_token=[redacted]&scope=repo&token_type=bearer`,
		`app://cb#access_token=v9&state=v`:                                                `app://cb#access_token=[redacted]&state=v`,
		`/login?to=https%3A%2F%2Fr%2Fa%3Ftoken%3Dv9 x`:                                    `/login?to=https%3A%2F%2Fr%2Fa%3Ftoken%3D[redacted] x`,
		`?next_token=v&tokens=v&mytoken=v`:                                                `?next_token=v&tokens=v&mytoken=v`,
		`?token=&x=v`:                                                                     `?token=&x=v`,
		`"token":"v"`:                                                                     `"token":"v"`, // a parameter, not a member
		`<s:SecretAccessKey>v9</s:SecretAccessKey> <b>v</b>`:                              `<s:SecretAccessKey>[redacted]</s:SecretAccessKey> <b>v</b>`,
		`<SecretAccessKey a="?token=v9">v9</SecretAccessKey>`:                             `<SecretAccessKey a="?token=[redacted]">[redacted]</SecretAccessKey>`,
		`<SecretAccessKey a="/>">v9</SecretAccessKey>`:                                    `<SecretAccessKey a="/>[redacted]</SecretAccessKey>`,
		`<SecretAccessKey a="'/>'" b='"/>'>v9</SecretAccessKey>`:                          `<SecretAccessKey a="'/>[redacted]</SecretAccessKey>`,
		"<SecretAccessKey\n\ta=\"v\">v9</SecretAccessKey>":                                "<SecretAccessKey\n\ta=\"v\">[redacted]</SecretAccessKey>",
		"<s:SecretAccessKey\t>v9</s:SecretAccessKey\n>":                                   "<s:SecretAccessKey\t>[redacted]</s:SecretAccessKey\n>",
		`<access_token><SecretAccessKey>v9</SecretAccessKey>`:                             `<access_token><SecretAccessKey>[redacted]</SecretAccessKey>`,
		`{"access\u005ftoken":"v9","b":"v"}`:                                              `{"access\u005ftoken":"[redacted]","b":"v"}`,
		`{"b":"{\"access\\u005Ftoken\":\"v9\"}"}`:                                         `{"b":"{\"access\\u005Ftoken\":\"[redacted]\"}"}`,
		`{"Access_Token":"v9","ACCESS_TOKEN":"v9","accesstoken":"v"}`:                     `{"Access_Token":"[redacted]","ACCESS_TOKEN":"[redacted]","accesstoken":"v"}`,
		`/cb?access%5Ftoken=v9&access%5ftoken=v9&Token=v9`:                                `/cb?access%5Ftoken=[redacted]&access%5ftoken=[redacted]&Token=[redacted]`,
		`/login?to=%2F%3Faccess%255Ftoken%3Dv9 x`:                                         `/login?to=%2F%3Faccess%255Ftoken%3D[redacted] x`,
		`<input type="hidden" name="access_token" value="v9"/><input name="b" value="v">`: `<input type="hidden" name="access_token" value="[redacted]"/><input name="b" value="v">`,
		"<input name='access_token' type='hidden'\n\tVALUE='v9' data-value='v'>":          "<input name='access_token' type='hidden'\n\tVALUE='[redacted]' data-value='v'>",
		`<meta name="access_token" title=">" content="v9"><meta name="b" content="v">`:    `<meta name="access_token" title=">" content="[redacted]"><meta name="b" content="v">`,
		`{"b":"<input name=\"access_token\" value=\"v9\"><a value=\"v\">"}`:               `{"b":"<input name=\"access_token\" value=\"[redacted]\"><a value=\"v\">"}`,
		`<SecretAccessKey name="access_token" value="v9">v9</SecretAccessKey>`:            `<SecretAccessKey name="access_token" value="[redacted]">[redacted]</SecretAccessKey>`,
		`<input name="b" value="v">x="access_token" y="v"`:                                `<input name="b" value="v">x="access_token" y="v"`,
		`{"a":"see: SecretAccessKey > b, x:SecretAccessKey > b","b":"v"}`:                 `{"a":"see: SecretAccessKey > b, x:SecretAccessKey > b","b":"v"}`,
	} {
		if out, _ := n.Text(in); out != want {
			t.Errorf("%s\n is %s\nwant %s", in, out, want)
		}
		for _, r := range []io.Reader{iotest.OneByteReader(strings.NewReader(in)), iotest.HalfReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
			out, err := io.ReadAll(n.Reader(io.NopCloser(r), nil))
			if err != nil || string(out) != want {
				t.Errorf("%s in a stream: %s, %v", in, out, err)
			}
		}
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a b", `a"b`, "a<b", "a=b", "é", strings.Repeat("x", 65)} {
		if _, err := redact.NewNamed([]string{bad}, nil); err == nil {
			t.Errorf("%q", bad)
		}
	}
	if _, err := redact.NewNamed(nil, nil); err == nil {
		t.Error("none")
	}
	if _, err := redact.NewNamed(make([]string, 65), nil); err == nil {
		t.Error("65")
	}
}

// hidden are members of a response that a sandbox may influence: each tries to hide the name of the
// member after it, or its value.
var hidden = []string{
	`x:access_token y`, `<access_token y`, `<x:access_token y`, `x:access_token>`, `<access_token>`, `<access_token y>`,
	`'access_token':`, `'access_token':'`, `'access_token':"`, `'access_token': `, `'access_token':[`, `'access_token':{`, `'access_token'`,
	`"access_token":`, `"access_token":"`, `"access_token":{`, `"access_token"`, `\"access_token\":`, `\"access_token\":\"`,
	`?access_token=`, `&access_token=a`, `%26access_token%3D`, `access_token`, `,"`, `'`, `<!`, `<![CDATA[`, `/>`, `>`, `</`,
	`="access_token" `, `="access_token" value=`, `="access_token" value="`, `='access_token' content='`, `="access_token" value=\"`, ` value=`, ` value="`, `"Access_Token":`, `"access\u005ftoken":"`, `&access%5Ftoken=`,
}

// TestNamedIsNotHidden: no text that a sandbox gets into a response prevents the redactor from
// removing a named secret.
//
//ebb:invariant I8 Text that a sandbox makes the upstream repeat before a named credential, also in XML or HTML attributes, does not hide that credential
//ebb:invariant I8 The redactor also finds a credential's name that begins or lies inside an apparent value, so that the value does not hide the credential
func TestNamedIsNotHidden(t *testing.T) {
	t.Parallel()
	n := named(t)
	for _, first := range hidden {
		for _, second := range append([]string{""}, hidden...) {
			notHidden(t, n, first, second)
		}
	}
}

func notHidden(t *testing.T, n *redact.Named, first, second string) {
	t.Helper()
	for _, form := range []string{
		`{"a":%s,"b":%s,"access_token":"never-said"}`, `{"a":%s,"n":{"b":%s},"access_token": "never-said"}`, `[{"a":%s},{"b":%s,"access_token":12345}]`,
		`{"a":%s,"access_token":"other","b":%s,"SecretAccessKey":"never-said"}`,
	} {
		never(t, n, fmt.Sprintf(form, quoted(first), quoted(second)))
	}
	for _, form := range []string{
		`%s failed: %s{"access_token":"never-said"}`, "%s\n%s\n\"access_token\":\"never-said\"", `%s %s{'access_token': 'never-said'}`, `https://x/?a=%s&b=%s&token=never-said`, `%s&token=never-said&%s`, `%s?token=never-said %s`,
	} {
		in := fmt.Sprintf(form, first, second)
		never(t, n, fmt.Sprintf(`{"a":%s}`, quoted(in)))
		all, _ := json.Marshal(map[string]string{"a": in})
		never(t, n, string(all))
	}
	never(t, n, fmt.Sprintf("<k><a b=%s>%s</a><SecretAccessKey>never-said</SecretAccessKey></k>", escaped(quoted(first)), escaped(second)))
	// Most serializers leave quotes in a text unescaped, and > in an attribute.
	for _, form := range []string{`<k><a>%s</a><b>%s</b><access_token type="bearer">never-said</access_token></k>`, `<k><a>%s</a><b>%s</b><a:access_token type='bearer'>never-said</a:access_token></k>`} {
		in := fmt.Sprintf(form, inElements.Replace(first), inElements.Replace(second))
		never(t, n, in)
		never(t, n, quoted(in))
	}
	for _, form := range []string{
		`<input title="%s" name="access_token" alt="%s" value="never-said">`, `<input name='access_token' title="%s" alt="%s" value='never-said'>`, `<meta title="%s" content="%s" name="access_token" content="never-said">`,
	} {
		in := fmt.Sprintf(form, inAttributes.Replace(first), inAttributes.Replace(second))
		never(t, n, in)
		never(t, n, quoted(in))
	}
	never(t, n, fmt.Sprintf(`<access_token a="%s" b="%s">never-said</access_token>`, inAttributes.Replace(first), inAttributes.Replace(second)))
}

var (
	inElements   = strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;")
	inAttributes = strings.NewReplacer(`"`, "&#34;", "<", "&lt;", "&", "&amp;")
)

func never(t *testing.T, n *redact.Named, in string) {
	t.Helper()
	if out, _ := n.Text(in); strings.Contains(out, "never-said") || strings.Contains(out, "12345") {
		t.Errorf("%s\n is %s", in, out)
	}
}

// quoted returns a JSON string in which < > & are not escaped.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

func FuzzNamedIsNotHidden(f *testing.F) {
	for i, first := range hidden {
		f.Add(first, hidden[(i+7)%len(hidden)])
	}
	f.Add("\x012345", "\x12345") // as JSON escapes both end in 12345, which is not a hidden value
	n := named(f)
	f.Fuzz(func(t *testing.T, first, second string) {
		if strings.Contains(first+second, "never-said") || strings.Contains(first+second, "345") {
			return
		}
		notHidden(t, n, first, second)
	})
}

// However a response is split, it is marked as the whole is. The value that JSON and XML parsers
// read is gone, the text beside it is not, and JSON stays JSON.
func FuzzNamed(f *testing.F) {
	f.Add("v9", "beside", "text", uint64(1))
	f.Add(`a"b\`, `\"`, `"access_token":`, uint64(2))
	f.Add("<&é\u2028", "]]>", "?token=x&", uint64(3))
	f.Add(" ", "", "", uint64(4))
	f.Add("  a ", "", "", uint64(5))
	f.Add("v9", `"ACCESS_TOKEN":"x"`, "", uint64(6))
	f.Add("v9", "%26jwt%3Dx", "", uint64(7))
	n := named(f)
	f.Fuzz(func(t *testing.T, value, beside, text string, seed uint64) {
		want, marks := n.Text(text)
		rng := rand.New(rand.NewPCG(seed, 1))
		var pieces [][]byte
		for rest := []byte(text); len(rest) > 0; {
			k := min(len(rest), 1+rng.IntN(9))
			pieces, rest = append(pieces, rest[:k]), rest[k:]
		}
		for _, room := range rooms {
			got := 0
			out, err := drain(n.Reader(io.NopCloser(&cut{pieces: slices.Clone(pieces), err: io.EOF}), func(k int) { got += k }), room)
			if err != nil || out != want || got != marks {
				t.Fatalf("%q in pieces, read by %d: %q (%d), %v; want %q (%d)", text, room, out, got, err, want, marks)
			}
		}
		doc := map[string]string{"access_token": value, "beside": beside}
		in, _ := json.Marshal(doc)
		var back map[string]string
		safe := !slices.ContainsFunc([]string{"=", "token", "jwt", "secretaccesskey"}, func(w string) bool { return strings.Contains(strings.ToLower(beside), w) })
		if s, _ := n.Text(string(in)); safe && json.Valid(in) {
			if err := json.Unmarshal([]byte(s), &back); err != nil || value != "" && back["access_token"] != redact.Mark || back["beside"] != fmt.Sprint(again(in)["beside"]) {
				t.Fatalf("%s is %s, %v", in, s, err)
			}
		}
		text = escaped(value)
		marked := text[:len(text)-len(strings.TrimLeft(text, " "))] // white space is never secret
		if marked != text {
			marked += redact.Mark
		}
		if s, _ := n.Text("<SecretAccessKey>" + text + "</SecretAccessKey>"); s != "<SecretAccessKey>"+marked+"</SecretAccessKey>" {
			t.Fatalf("%q in XML is %q", value, s)
		}
		if s, _ := n.Text("https://x/?a=1&jwt=" + url.QueryEscape(value) + "&b=1"); value != "" && s != "https://x/?a=1&jwt="+redact.Mark+"&b=1" {
			t.Fatalf("%q in a URL is %q", value, s)
		}
	})
}

func again(in []byte) (out map[string]string) {
	_ = json.Unmarshal(in, &out)
	return out
}

func BenchmarkNamed(b *testing.B) {
	line := `{"id": 4711, "name": "a repository", "private": false, "html_url": "https://github.com/acme/web?x=1&y=2"`
	n := named(b)
	for name, line := range map[string]string{"none": line + "},\n", "each line": line + `, "access_token": "0123456789"},` + "\n"} {
		text := []byte(strings.Repeat(line, 500))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := io.Copy(io.Discard, n.Reader(io.NopCloser(bytes.NewReader(text)), nil)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
