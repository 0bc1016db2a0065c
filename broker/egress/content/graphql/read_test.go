package graphql_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/graphql"
)

// request is a GraphQL request with a body.
func request(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://api.example.com/graphql", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	return r
}

// query is a body with only a query.
func query(text string) string { return `{"query":` + quote(text) + `}` }

// quote encodes JSON. strconv.Quote differs only for characters that no test has here.
func quote(text string) string {
	return `"` + strings.NewReplacer("\\", `\\`, "\"", `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\b", `\b`, "\x00", `\u0000`, "\x0b", `\u000b`).Replace(text) + `"`
}

// show writes a document as one line.
func show(d *graphql.Document) string { return d.Action + fields(d.Fields) }

func fields(all []graphql.Field) string {
	var b strings.Builder
	b.WriteString("{")
	for i, f := range all {
		if i > 0 {
			b.WriteString(" ")
		}
		if f.On != "" {
			b.WriteString(f.On + ".")
		}
		b.WriteString(f.Name)
		if len(f.Arguments) > 0 {
			b.WriteString(value(f.Arguments))
		}
		if f.Fields != nil {
			b.WriteString(fields(f.Fields))
		}
	}
	return b.String() + "}"
}

func value(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+":"+value(v[k]))
		}
		return "(" + strings.Join(parts, " ") + ")"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, value(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case string:
		return strconv.Quote(v)
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}

// TestRead: the fields that run, for every construct of the grammar.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, want string }{
		{"shorthand", query(`{a}`), `query{a}`},
		{"named", query(`query Q{a}`), `query{a}`},
		{"keywords as names", query(`query query{fragment mutation subscription on true null}`), `query{fragment mutation subscription on true null}`},
		{"mutation", query(`mutation{b(input:{id:"1"}){c}}`), `mutation{b(input:(id:"1")){c}}`},
		{"alias", query(`{viewer:deleteRef a:b}`), `query{deleteRef b}`},
		{"alias of another's name", query(`mutation{addComment:mergePullRequest(input:{}){x}}`), `mutation{mergePullRequest(input:()){x}}`},
		{"values", query(`{a(i:-0,f:1.5e+3,s:"x",t:true,n:null,e:OPEN,l:[1,[2]],o:{p:{q:"r"}})}`), `query{a(e:OPEN f:1.5e+3 i:-0 l:[1 [2]] n:null o:(p:(q:"r")) s:"x" t:true)}`},
		{"huge integer", query(`{a(i:99999999999999999999999999999999)}`), `query{a(i:99999999999999999999999999999999)}`},
		{"huge number of a variable", `{"query":"query($v:Int){a(i:$v)}","variables":{"v":1e999}}`, `query{a(i:1e999)}`},
		{"commas and comments", query("{,a#b\n,,c # \"}\r\n}"), `query{a c}`},
		{"comment of a quote", query("{a(s:\"#\")}#"), `query{a(s:"#")}`},
		{"string escapes", query(`{a(s:"\"\\\/\b\f\n\r\t\u0041\uD83D\uDE00é\uffff")}`), `query{a(s:"\"\\/\b\f\n\r\tA😀é\uffff")}`},
		{"escaped owner", query(`{a(s:"\u0061cme")}`), `query{a(s:"acme")}`},
		{"astral character", query(`{a(s:"😀")}`), `query{a(s:"😀")}`},
		{"byte order mark in a string", query("{a(s:\"\ufeff\")}"), `query{a(s:"\ufeff")}`},
		{"block string", query("{a(s:\"\"\"\n    x\n      y\n\n    z\n  \"\"\")}"), `query{a(s:"x\n  y\n\nz")}`},
		{"block string of one line", query(`{a(s:"""  x " "" \n """)}`), `query{a(s:"  x \" \"\" \\n ")}`},
		{"block string with quotes", query(`{a(s:"""\"""x\\""" """)}`), `query{a(s:"\"\"\"x\\\"\"\" ")}`},
		{"empty block string", query(`{a(s:"""""")}`), `query{a(s:"")}`},
		{"block string of blank lines", query("{a(s:\"\"\"\n \r\n\t\n\"\"\")}"), `query{a(s:"")}`},
		{"empty string", query(`{a(s:"")}`), `query{a(s:"")}`},
		{"fragment", query(`{...F} fragment F on Query{a{...G}} fragment G on A{b}`), `query{Query.a{A.b}}`},
		{"fragment before", query(`fragment F on Query{a} {...F}`), `query{Query.a}`},
		{"fragment twice", query(`{...F ...F} fragment F on Query{a}`), `query{Query.a Query.a}`},
		{"unused fragment", query(`{a} fragment F on Query{b}`), `query{a}`},
		{"inline fragments", query(`{...{a} ...on T{b ...{c} ...on U{d}} e}`), `query{a T.b T.c U.d e}`},
		{"fragment named like a type", query(`mutation{...Query} fragment Query on Mutation{b}`), `mutation{Mutation.b}`},
		{"skip", query(`mutation{b @skip(if:true) c @include(if:false) @skip(if:false)}`), `mutation{b c}`},
		{"skipped fragments", query(`query($v:Boolean=true){...F@skip(if:$v) ...@include(if:false){a}} fragment F on Query{b}`), `query{Query.b a}`},
		{"variable", `{"query":"query($v:String!){a(s:$v)}","variables":{"v":"x"}}`, `query{a(s:"x")}`},
		{"default", query(`query($v:[String!]! = ["x"]){a(s:$v)}`), `query{a(s:["x"])}`},
		{"default replaced", `{"variables":{"v":"y"},"query":"query($v:String=\"x\"){a(s:$v)}"}`, `query{a(s:"y")}`},
		{"default replaced by null", `{"query":"query($v:String=\"x\"){a(s:$v)}","variables":{"v":null}}`, `query{a(s:null)}`},
		{"default in a fragment", query(`query($v:String="x"){...F} fragment F on Query{a(s:$v)}`), `query{Query.a(s:"x")}`},
		{"default object", query(`query($v:I={id:"x",e:E}){a(input:$v)}`), `query{a(input:(e:E id:"x"))}`},
		{"no value", query(`query($v:String){a(s:$v o:{p:$v q:1} l:[$v 1])}`), `query{a(l:[null 1] o:(q:1))}`},
		{"values within values", `{"query":"query($v:I,$w:ID){a(input:{p:$v,q:[$w,{r:$w}]})}","variables":{"v":{"x":[1,"2",true,null,{}]},"w":"z"}}`, `query{a(input:(p:(x:[1 "2" true null ()]) q:["z" (r:"z")]))}`},
		{"dollar in a variable's text", `{"query":"query($v:ID,$w:ID){a(s:$v)}","variables":{"v":"$w","w":"x"}}`, `query{a(s:"$w")}`},
		{"variable that nobody uses", `{"query":"query($v:ID){a}","variables":{"v":1,"other":2}}`, `query{a}`},
		{"operation by name", `{"query":"query A{a} mutation B{b}","operationName":"B"}`, `mutation{b}`},
		{"operation by name, before the query", `{"operationName":"A","query":"mutation B{b} query A{a}"}`, `query{a}`},
		{"variables of the operation that runs", `{"query":"query A($v:ID=1){...F} query B($v:ID=2){...F} fragment F on Query{a(id:$v)}","operationName":"B"}`, `query{Query.a(id:2)}`},
		{"nulls", `{"query":"{a}","operationName":null,"variables":null,"extensions":null}`, `query{a}`},
		{"escapes in the query", `{"query":"\u007b\u0061}"}`, `query{a}`},
		{"extension", `{"query":"{a}","extensions":{"clientLibrary":{"name":"x"}}}`, `query{a}`},
		{"introspection", query(`{__schema{types{name}} __type(name:"X"){name} __typename}`), `query{__schema{types{name}} __type(name:"X"){name} __typename}`},
		{"white space around", " \r\n" + query(`{a}`) + "\n\n", `query{a}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := request(tt.body)
			d, err := graphql.Read(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(d); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			again(t, r, tt.body)
		})
	}
}

// again checks that a request still has a body, and announces its length.
func again(t *testing.T, r *http.Request, body string) {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil || string(b) != body || r.ContentLength != int64(len(body)) || r.TransferEncoding != nil {
		t.Errorf("forwards %q (%v) of length %d, want %q", b, err, r.ContentLength, body)
	}
}

// TestRefused: bodies that two servers can read differently, that break the grammar, or that take
// too much work. Each stands for a class.
//
//ebb:invariant I6 A GraphQL request whose operation, arguments or fields two servers could read differently is refused
//ebb:invariant I12 Aliases, fragments, nesting and values of a GraphQL request cannot multiply the work of reading it
func TestRefused(t *testing.T) {
	t.Parallel()
	const grammar = "grammar"
	for _, tt := range []struct{ name, body, why string }{
		// The JSON of the body.
		{"empty", ``, "JSON"},
		{"not JSON", `query{a}`, "JSON"},
		{"string", `"{a}"`, "JSON"},
		{"null", `null`, "JSON"},
		{"batch", `[{"query":"{a}"}]`, "batch"},
		{"empty batch", ` []`, "batch"},
		{"trailing data", query(`{a}`) + ` {}`, "data follows"},
		{"trailing comma", `{"query":"{a}",}`, "JSON"},
		{"cut off", `{"query":"{a}"`, "JSON"},
		{"byte order mark before", "\ufeff" + query(`{a}`), "JSON"},
		{"byte order mark of UTF-16", "\xff\xfe{\x00}\x00", "JSON"},
		{"invalid UTF-8", "{\"query\":\"{a(s:\\\"\xff\\\")}\"}", "JSON"},
		{"overlong UTF-8", "{\"query\":\"{a\xc0\xa0}\"}", "JSON"},
		{"surrogate in UTF-8", "{\"query\":\"{a}#\xed\xa0\x80\"}", "JSON"},
		{"half of a pair in JSON", `{"query":"{a(s:\"\ud800\")}"}`, "JSON"},
		{"query twice", `{"query":"{a}","query":"mutation{b}"}`, "two members"},
		{"query twice, once escaped", `{"query":"{a}","\u0071uery":"mutation{b}"}`, "two members"},
		{"query in another case", `{"query":"{a}","Query":"mutation{b}"}`, "no members but"},
		{"only in another case", `{"QUERY":"{a}"}`, "no members but"},
		{"escape in a name", `{"qu\u0065ry":"{a}"}`, "no members but"},
		{"unknown member", `{"query":"{a}","id":"1"}`, "no members but"},
		{"mutation as a member", `{"query":"{a}","mutation":"mutation{b}"}`, "no members but"},
		{"member of form bodies", `{"query":"{a}","_method":"GET"}`, "no members but"},
		{"empty name", `{"query":"{a}","":1}`, "no members but"},
		{"no query", `{"variables":{}}`, "persisted"},
		{"empty query", `{"query":""}`, "persisted"},
		{"query null", `{"query":null}`, "not a string"},
		{"query of another type", `{"query":["{a}"]}`, "not a string"},
		{"persisted query", `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"x"}}}`, "persisted"},
		{"persisted query beside a query", `{"query":"{a}","extensions":{"persistedQuery":{"version":1}}}`, "persisted"},
		{"persisted query in another case", `{"query":"{a}","extensions":{"PersiſtedQuery":{}}}`, "persisted"},
		{"extensions of another type", `{"query":"{a}","extensions":[]}`, "not an object"},
		{"variables as text", `{"query":"{a}","variables":"{}"}`, "not an object"},
		{"variables as a list", `{"query":"{a}","variables":[{}]}`, "not an object"},
		{"variable twice", `{"query":"query($v:ID){a(id:$v)}","variables":{"v":1,"v":2}}`, "two members"},
		{"variable twice, once escaped", `{"query":"query($v:ID){a(id:$v)}","variables":{"v":1,"\u0076":2}}`, "two members"},
		{"variable in another case", `{"query":"query($v:ID){a(id:$v)}","variables":{"v":1,"V":2}}`, "differ only in case"},
		{"member of a variable twice", `{"query":"query($v:I){a(i:$v)}","variables":{"v":[{"id":1,"id":2}]}}`, "two members"},
		{"member of a variable in another case", `{"query":"query($v:I){a(i:$v)}","variables":{"v":{"kid":1,"Kid":2}}}`, "differ only in case"},
		{"variables twice", `{"query":"{a}","variables":{},"variables":{}}`, "two members"},
		{"operationName of another type", `{"query":"{a}","operationName":1}`, "not a string"},
		{"leading zero in JSON", `{"query":"{a}","variables":{"v":01}}`, "JSON"},
		{"comment in JSON", `{"query":"{a}"/**/}`, "JSON"},
		{"NaN", `{"query":"{a}","variables":{"v":NaN}}`, "JSON"},

		// The operation that runs.
		{"empty operationName", `{"query":"{a}","operationName":""}`, "operationName is empty"},
		{"two operations", query(`query A{a} query B{b}`), "several operations"},
		{"mutation behind a query", query(`query A{a} mutation B{b}`), "several operations"},
		{"operationName null of two", `{"query":"query A{a} mutation B{b}","operationName":null}`, "several operations"},
		{"other operationName", `{"query":"query A{a} mutation B{b}","operationName":"C"}`, "not the name"},
		{"operationName in another case", `{"query":"query A{a}","operationName":"a"}`, "not the name"},
		{"operationName with a space", `{"query":"query A{a}","operationName":"A "}`, "not the name"},
		{"operationName of a fragment", `{"query":"{...F} fragment F on Query{a}","operationName":"F"}`, "not the name"},
		{"operationName for none", `{"query":"{a}","operationName":"A"}`, "not the name"},
		{"two operations of one name", `{"query":"query A{a} mutation A{b}","operationName":"A"}`, "two operations of one name"},
		{"two without a name", query(`{a} {b}`), "without a name"},
		{"one without a name after another", `{"query":"query A{a} mutation{b}","operationName":"A"}`, "without a name"},
		{"one without a name before another", `{"query":"mutation{b} query A{a}","operationName":"A"}`, "without a name"},
		{"no operation", query(`fragment F on Query{a}`), "no operation"},
		{"only a comment", query(`#{a}`), "no operation"},
		{"subscription", query(`subscription{a}`), "subscriptions"},
		{"subscription beside a query", `{"query":"query A{a} subscription B{b}","operationName":"A"}`, "subscriptions"},
		{"unknown action", query(`delete{a}`), grammar},
		{"action in another case", query(`Mutation{a}`), grammar},
		{"type definition", query(`type A{a:ID}`), grammar},
		{"extension of a type", query(`{a} extend type A{a:ID}`), grammar},
		{"description", query(`"x" query A{a}`), grammar},

		// Tokens.
		{"byte order mark in the query", query("\ufeff{a}"), grammar},
		{"byte order mark between", query("{a\ufeff}"), grammar},
		{"carriage return alone", query("{a\rb}"), "carriage return"},
		{"carriage return in a comment", query("{a #\rb}"), "some servers take for the end"},
		{"line separator in a comment", query("{a #\u2028b\n}"), "some servers take for the end"},
		{"next line in a comment", query("{a #\u0085b\n}"), "some servers take for the end"},
		{"vertical tab in a comment", query("{a #\x0bb\n}"), "some servers take for the end"},
		{"no-break space", query("{a\u00a0b}"), grammar},
		{"NUL", query("{a\x00}"), grammar},
		{"name that is not ASCII", query("{ä}"), grammar},
		{"full-width name", query("{ａ}"), grammar},
		{"two dots", query("{..F}"), grammar},
		{"four dots", query("{....F}"), grammar},
		{"semicolon", query("{a;b}"), grammar},
		{"ampersand", query("{a&b}"), grammar},
		{"leading zero", query(`{a(i:01)}`), grammar},
		{"leading zero after a sign", query(`{a(i:-00)}`), grammar},
		{"sign alone", query(`{a(i:-)}`), grammar},
		{"plus", query(`{a(i:+1)}`), grammar},
		{"hexadecimal", query(`{a(i:0x1)}`), grammar},
		{"number before a name", query(`{a(i:1b:2)}`), grammar},
		{"point without digits", query(`{a(i:1.)}`), grammar},
		{"two points", query(`{a(i:1.2.3)}`), grammar},
		{"exponent without digits", query(`{a(i:1e)}`), grammar},
		{"string without an end", query(`{a(s:"x)}`), grammar},
		{"string over a line", query("{a(s:\"x\ny\")}"), grammar},
		{"string over a line, after an escape", query("{a(s:\"\\tx\ny\")}"), grammar},
		{"unknown escape", query(`{a(s:"\x41")}`), grammar},
		{"escape in braces", query(`{a(s:"\u{41}")}`), grammar},
		{"short escape", query(`{a(s:"\u41")}`), grammar},
		{"escape with a sign", query(`{a(s:"\u+041")}`), grammar},
		{"half of a pair", query(`{a(s:"\uD83D")}`), grammar},
		{"halves in the other order", query(`{a(s:"\uDE00\uD83D")}`), grammar},
		{"half before another escape", query(`{a(s:"\uD83D\u0041")}`), grammar},
		{"string ends with a backslash", query(`{a(s:"\`), grammar},
		{"control in a string", query("{a(s:\"\b\")}"), grammar},
		{"block string without an end", query(`{a(s:"""x"")}`), grammar},
		{"block string that ends with an escape", query(`{a(s:"""x\""")}`), grammar},
		{"block string with a fourth quote", query(`{a(l:["""x""""])}`), grammar},
		{"block string before a string", query(`{a(l:["""x"""""])}`), grammar},
		{"control in a block string", query("{a(s:\"\"\"\b\"\"\")}"), grammar},
		{"carriage return in a block string", query("{a(s:\"\"\"x\ry\"\"\")}"), "carriage return"},

		// Grammar.
		{"empty selection", query(`{}`), grammar},
		{"empty selection of a field", query(`{a{}}`), grammar},
		{"no selection", query(`query`), grammar},
		{"open selection", query(`{a`), grammar},
		{"closed twice", query(`{a}}`), grammar},
		{"empty arguments", query(`{a()}`), grammar},
		{"empty definitions", query(`query(){a}`), grammar},
		{"argument without a value", query(`{a(b:)}`), grammar},
		{"argument without a colon", query(`{a(b "x")}`), grammar},
		{"argument twice", query(`{a(id:"1",id:"2")}`), "two arguments"},
		{"member twice", query(`{a(i:{id:"1",id:"2"})}`), "two members"},
		{"alias of an alias", query(`{a:b:c}`), grammar},
		{"string as a name", query(`{"a"}`), grammar},
		{"list without an end", query(`{a(l:[1}`), grammar},
		{"object without an end", query(`{a(o:{b:1)}`), grammar},
		{"variable of an operation twice", query(`query($v:ID,$v:ID){a(id:$v)}`), "variable twice"},
		{"variable without a type", query(`query($v){a(id:$v)}`), grammar},
		{"two exclamation marks", query(`query($v:ID!!){a(id:$v)}`), grammar},
		{"list type without an end", query(`query($v:[ID){a(id:$v)}`), grammar},
		{"variable in a default", query(`query($v:ID,$w:ID=$v){a(id:$w)}`), grammar},
		{"variable in an object of a default", query(`query($v:ID,$w:I={a:[$v]}){a(i:$w)}`), grammar},
		{"unknown variable", `{"query":"{a(id:$v)}","variables":{"v":"1"}}`, "does not define"},
		{"unknown variable in another case", query(`query($v:ID){a(id:$V)}`), "does not define"},
		{"unknown variable in an object", query(`query($v:ID){a(i:[{b:$w}])}`), "does not define"},
		{"unknown variable of a condition", query(`{a@skip(if:$v)}`), "does not define"},
		{"variable of another operation", `{"query":"query A($v:ID){a(id:$v)} query B{...F} fragment F on Query{a(id:$v)}","operationName":"B"}`, "does not define"},

		// Directives and fragments.
		{"directive of an operation", query(`query @live{a}`), grammar},
		{"directive of a fragment's definition", query(`{...F} fragment F on Query @x{a}`), grammar},
		{"variables of a fragment", query(`{...F} fragment F($v:ID) on Query{a}`), grammar},
		{"directive of a variable", query(`query($v:ID @x){a(id:$v)}`), grammar},
		{"unknown directive", query(`{a@export(as:"v")}`), "directives"},
		{"unknown directive of a spread", query(`{...F@defer(if:true)} fragment F on Query{a}`), "directives"},
		{"unknown directive of an inline fragment", query(`{...@stream(if:true){a}}`), "directives"},
		{"directive in another case", query(`{a@Skip(if:true)}`), "directives"},
		{"condition without an argument", query(`{a@skip}`), "directives"},
		{"condition with another argument", query(`{a@skip(unless:true)}`), "directives"},
		{"condition with two arguments", query(`{a@skip(if:true,x:1)}`), "directives"},
		{"unknown fragment", query(`{...F}`), "does not define"},
		{"fragment of an operation's name", query(`query F{...F}`), "does not define"},
		{"fragment twice", query(`{...F} fragment F on Query{a} fragment F on Mutation{b}`), "two fragments"},
		{"fragment without a type", query(`{...F} fragment F{a}`), grammar},
		{"fragment named on", query(`{a} fragment on on Query{a}`), grammar},
		{"spread of on", query(`{...on} fragment on on Query{a}`), grammar},
		{"fragment with arguments", query(`{...F(v:1)} fragment F on Query{a}`), grammar},
		{"cycle of one", query(`{...F} fragment F on Query{a{...F}}`), "contains itself"},
		{"cycle of one without a field", query(`{...F} fragment F on Query{...F}`), "contains itself"},
		{"cycle of three", query(`{...F} fragment F on Query{...G} fragment G on Query{a{...H}} fragment H on Query{...{...F}}`), "contains itself"},

		// Work.
		{"long", query(`{a(s:"` + strings.Repeat("x", 1<<20) + `")}`), "1 MiB"},
		{"many tokens", query(`{a(l:[` + strings.Repeat("1,", 20_000) + `])}`), "too large"},
		{"many JSON values", `{"query":"{a}","variables":{"v":[` + strings.Repeat("1,", 20_000) + `1]}}`, "too large"},
		{"aliases", query(`{` + strings.Repeat("x:a ", 6_000) + `}`), "too large"},
		{"many root fields", query(`{` + strings.Repeat("a ", 101) + `}`), "too large"},
		{"many definitions", query(`{a}` + numbered("fragment F%d on Q{a} ", 100)), "too large"},
		{"many arguments", query(`{a(` + numbered("a%d:1 ", 101) + `)}`), "too large"},
		{"many variables", query(`query(` + numbered("$a%d:ID ", 101) + `){a}`), "too large"},
		{"deep selections", query(strings.Repeat("{a", 1_000) + strings.Repeat("}", 1_000)), "too large"},
		{"deep inline fragments", query(strings.Repeat("{...", 1_000) + "{a" + strings.Repeat("}", 1_001)), "too large"},
		{"deep by fragments", query("{...F0} " + numbered("fragment F%d on Q{a{b{c{...F%[2]d}}}} ", 90) + "fragment F90 on Q{a}"), "too large"},
		{"deep lists", query(`{a(l:` + strings.Repeat("[", 1_000) + strings.Repeat("]", 1_000) + `)}`), "too large"},
		{"deep objects", query(`{a(o:` + strings.Repeat("{a:", 1_000) + "1" + strings.Repeat("}", 1_000) + `)}`), "too large"},
		{"deep types", query(`query($v:` + strings.Repeat("[", 1_000) + "ID" + strings.Repeat("]", 1_000) + `){a}`), "too large"},
		{"deep variables", `{"query":"{a}","variables":{"v":` + strings.Repeat("[", 1_000) + strings.Repeat("]", 1_000) + `}}`, "too large"},
		{"deep extensions", `{"query":"{a}","extensions":{"v":` + strings.Repeat(`{"a":`, 1_000) + "1" + strings.Repeat("}", 1_000) + `}}`, "too large"},
		{"fragments that double", query("{...F0} " + numbered("fragment F%d on Q{...F%[2]d ...F%[2]d} ", 30) + "fragment F30 on Q{a}"), "too large"},
		{"fragments that double below fields", query("{...F0} " + numbered("fragment F%d on Q{x:a{...F%[2]d} y:a{...F%[2]d}} ", 20) + "fragment F20 on Q{a}"), "too large"},
		{"long name", query(`{` + strings.Repeat("a", 101) + `}`), "too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := graphql.Read(request(tt.body))
			if err == nil {
				t.Fatalf("accepted as %s", show(d))
			}
			if refusal := (*content.Error)(nil); !errors.As(err, &refusal) || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("refused with %q, want %q", err, tt.why)
			}
		})
	}
}

// numbered repeats a format with the numbers 0 to n-1, and each one's successor.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"%[3]s", i, i+1, "")
	}
	return b.String()
}

// TestHead: requests whose head could change what the body means.
func TestHead(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *http.Request){
		"GET":                    func(r *http.Request) { r.Method = http.MethodGet },
		"PUT":                    func(r *http.Request) { r.Method = http.MethodPut },
		"query in the URL":       func(r *http.Request) { r.URL.RawQuery = "query={b}" },
		"empty query in the URL": func(r *http.Request) { r.URL.ForceQuery = true },
		"compressed":             func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") },
		"identity":               func(r *http.Request) { r.Header.Set("Content-Encoding", "identity") },
		"method override":        func(r *http.Request) { r.Header.Set("X-HTTP-Method-Override", "GET") },
		"trailer":                func(r *http.Request) { r.Trailer = http.Header{"X": nil} },
		"no type":                func(r *http.Request) { r.Header.Del("Content-Type") },
		"two types":              func(r *http.Request) { r.Header.Add("Content-Type", "application/json") },
		"graphql":                func(r *http.Request) { r.Header.Set("Content-Type", "application/graphql") },
		"form":                   func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") },
		"multipart":              func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=x") },
		"plus json":              func(r *http.Request) { r.Header.Set("Content-Type", "application/graphql+json") },
		"UTF-16":                 func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-16") },
		"UTF-7":                  func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-7") },
		"charset twice":          func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8; charset=utf-7") },
		"other parameter":        func(r *http.Request) { r.Header.Set("Content-Type", "application/json; profile=x") },
		"list of types":          func(r *http.Request) { r.Header.Set("Content-Type", "application/json, text/plain") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request(query(`{a}`))
			change(r)
			_, err := graphql.Read(r)
			if refusal := (*content.Error)(nil); !errors.As(err, &refusal) {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, accepted := range []string{"application/json", "application/json;charset=UTF-8", `Application/JSON; charset="utf-8"`} {
		r := request(query(`{a}`))
		r.Header.Set("Content-Type", accepted)
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
		if _, err := graphql.Read(r); err != nil {
			t.Errorf("%s: %v", accepted, err)
		}
		again(t, r, query(`{a}`))
	}
}

// TestBrokenBody: an error of the connection is no refusal.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	r := request("")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"query":"{a}"}`), broken{}))
	if _, err := graphql.Read(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	r.Body = nil
	if _, err := graphql.Read(r); err == nil {
		t.Error("accepted a request without a body")
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestFacts: one operation for each root field, with bounded details.
func TestFacts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 200)
	d, err := graphql.Read(request(`{"query":"mutation($i:I!){x:addComment(input:$i){a} ...F} fragment F on Mutation{mergePullRequest(input:{id:5,on:false,m:SQUASH,l:[1]}){b}}","variables":{"i":{"id":"X","body":"` + long + `"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	facts := d.Facts("input.id", "input.body", "input.on", "input.m", "input.l", "input", "other", "input.id.x")
	got := facts.Kind
	for _, o := range facts.Operations {
		got += fmt.Sprintf("; %s %s %v", o.Action, o.Object, o.Details)
	}
	want := "graphql; mutation addComment map[input.body:" + strings.Repeat("é", 126) + "… input.id:X]; mutation mergePullRequest map[input.id:5 input.m:SQUASH input.on:false]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	many, err := graphql.Read(request(query(`mutation{` + strings.Repeat(`a(s:"`+long+`") `, 100) + `}`)))
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, o := range many.Facts("s", "t", "u").Operations {
		size += len(o.Details["s"])
	}
	if size > 16<<10 || size < 100*40 {
		t.Errorf("the details of 100 fields have %d bytes", size)
	}
	if n := len(d.Facts("input.body").Operations[0].Details["input.body"]); n > content.MaxDetail {
		t.Errorf("a detail has %d bytes", n)
	}
}

// FuzzRead reads arbitrary bodies. Reading never panics, its result is within the bounds, and an
// accepted body is forwarded byte for byte.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		query(`{a}`), query(`mutation B($v:[I!]!={a:1}){x:b(i:$v,s:"\u0041"){...F@skip(if:true)}} fragment F on Q{c}`),
		`{"query":"query A{a} mutation B{b(s:\"\"\"\\n x\\\"\"\"\"\"\")}","operationName":"B","variables":{"v":[1,{"a":null}]},"extensions":{}}`,
		query("{...F0} fragment F0 on Q{...F1 ...F1} fragment F1 on Q{...F2 ...F2} fragment F2 on Q{a}"), "[]", "\ufeff{}", "{\"query\":\"{a #\r}\"}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := request(body)
		d, err := graphql.Read(r)
		if err != nil {
			return
		}
		again(t, r, body)
		if n := count(d.Fields); n == 0 || n > 5_000 || len(d.Fields) > content.MaxOperations {
			t.Fatalf("%d fields", n)
		}
		if d.Action != "query" && d.Action != "mutation" {
			t.Fatalf("action %q", d.Action)
		}
		for _, o := range d.Facts("input.id").Operations {
			if len(o.Object) > content.MaxObject || len(o.Details["input.id"]) > content.MaxDetail {
				t.Fatalf("%v is out of bounds", o)
			}
		}
	})
}

func count(all []graphql.Field) int {
	n := len(all)
	for _, f := range all {
		n += count(f.Fields)
	}
	return n
}

// BenchmarkRead reads a request as gh sends it for `gh pr view`.
func BenchmarkRead(b *testing.B) {
	body := `{"query":"fragment pr on PullRequest{number,url,title,state,isDraft,body,author{login,...on User{id,name}},isCrossRepository,labels(first:100){nodes{id,name,description,color},totalCount},projectItems(first:100){nodes{id,project{id,title}},totalCount},milestone{number,title,description,dueOn},assignees(first:100){nodes{id,login,name},totalCount},reviewRequests(first:100){nodes{requestedReviewer{__typename,...on User{login,name},...on Team{organization{login},name,slug}}}},reviews(first:100){nodes{id,author{login},authorAssociation,submittedAt,body,state,commit{oid},reactionGroups{content,users{totalCount}}},pageInfo{hasNextPage,endCursor},totalCount},comments(last:1){nodes{author{login,...on User{id,name}},authorAssociation,body,createdAt,includesCreatedEdit,isMinimized,minimizedReason,reactionGroups{content,users{totalCount}}},totalCount},statusCheckRollup:commits(last:1){nodes{commit{statusCheckRollup{contexts(first:100){nodes{__typename,...on StatusContext{context,state,targetUrl,createdAt},...on CheckRun{name,checkSuite{workflowRun{workflow{name}}},status,conclusion,startedAt,completedAt,detailsUrl}},pageInfo{hasNextPage,endCursor}}}}}}}query PullRequestForBranch($owner: String!, $repo: String!, $headRefName: String!, $states: [PullRequestState!]) {repository(owner: $owner, name: $repo) {pullRequests(headRefName: $headRefName, states: $states, first: 30, orderBy: { field: CREATED_AT, direction: DESC }) {nodes {...pr} } } }","variables":{"headRefName":"agent/fix","owner":"acme","repo":"web","states":null}}`
	r := request(body)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r.Body = io.NopCloser(strings.NewReader(body))
		if _, err := graphql.Read(r); err != nil {
			b.Fatal(err)
		}
	}
}
