package scopes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/scopes"
)

const goodDetail = `{"type":"ebb_credential","provider":"orders","identifier":"eu/42","actions":["read","list"],"locations":["https://orders.example/v1"]}`

func TestParseDetails(t *testing.T) {
	t.Parallel()
	got, err := scopes.ParseDetails([]byte("[" + goodDetail + ` , {"actions":["*"],"type":"ebb_credential","identifier":"**","provider":"files"} ]`))
	want := []scopes.Detail{
		{Provider: "orders", Identifier: "eu/42", Actions: []string{"read", "list"}, Location: "https://orders.example/v1"},
		{Provider: "files", Identifier: "**", Actions: []string{"*"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v %v", got, err)
	}
	set, err := scopes.SetOf(got)
	if err != nil || set.String() != "files:**:* orders:eu/42:list orders:eu/42:read" {
		t.Errorf("set %q %v", set, err)
	}
	b, err := json.Marshal(got[:1])
	if err != nil || string(b) != "["+goodDetail+"]" {
		t.Errorf("marshalled %s %v", b, err)
	}
}

// TestParseDetailsRefuses tests the five kinds of RFC 9396 section 5 and inputs that a lax JSON
// decoder would accept.
func TestParseDetailsRefuses(t *testing.T) {
	t.Parallel()
	with := func(old, new string) string { return "[" + strings.Replace(goodDetail, old, new, 1) + "]" }
	var wide []string
	for i := range 40 {
		wide = append(wide, fmt.Sprintf("%q", fmt.Sprintf("a%d", i)))
	}
	forty := strings.Join(wide, ",")
	for name, in := range map[string]string{
		"unknown type":              with("ebb_credential", "payment_initiation"),
		"type in other case":        with("ebb_credential", "EBB_credential"),
		"unknown member":            with(`"provider"`, `"datatypes":["x"],"provider"`),
		"wrong type of type":        with(`"ebb_credential"`, `1`),
		"wrong type of provider":    with(`"orders"`, `["orders"]`),
		"wrong type of identifier":  with(`"eu/42"`, `null`),
		"wrong type of actions":     with(`["read","list"]`, `"read"`),
		"wrong type of an action":   with(`"list"`, `7`),
		"null actions":              with(`["read","list"]`, `null`),
		"wrong type of locations":   with(`["https://orders.example/v1"]`, `"https://orders.example/v1"`),
		"wrong type of a location":  with(`"https://orders.example/v1"`, `{}`),
		"bad provider":              with("orders", "Orders"),
		"bad identifier":            with("eu/42", "eu/../42"),
		"identifier with a colon":   with("eu/42", "eu:42"),
		"bad action":                with("list", "LIST"),
		"no action":                 with(`["read","list"]`, `[]`),
		"no location":               with(`["https://orders.example/v1"]`, `[]`),
		"two locations":             with(`["https://orders.example/v1"]`, `["https://a.example","https://b.example"]`),
		"bad location":              with("https://orders", "http://orders"),
		"location with fragment":    with("/v1", "/v1#x"),
		"missing type":              with(`"type":"ebb_credential",`, ``),
		"missing provider":          with(`"provider":"orders",`, ``),
		"missing identifier":        with(`"identifier":"eu/42",`, ``),
		"missing actions":           with(`"actions":["read","list"],`, ``),
		"duplicate member":          with(`"provider"`, `"provider":"files","provider"`),
		"duplicate in other case":   with(`"provider"`, `"Provider":"files","provider"`),
		"only in other case":        with(`"provider"`, `"Provider"`),
		"escaped duplicate":         with(`"provider"`, `"pro\u0076ider":"files","provider"`),
		"Kelvin sign in a name":     with(`"actions"`, `"\u212a":"x","actions"`),
		"too many actions":          with(`["read","list"]`, `[`+forty+`,`+strings.ReplaceAll(forty, "a", "b")+`]`),
		"too many scopes together":  "[" + with(`["read","list"]`, `[`+forty+`]`)[1:len(with(`["read","list"]`, `[`+forty+`]`))-1] + "," + strings.Replace(goodDetail, `["read","list"]`, `[`+strings.ReplaceAll(forty, "a", "b")+`]`, 1) + "]",
		"not an array":              goodDetail,
		"empty array":               `[]`,
		"array of strings":          `["ebb_credential"]`,
		"array of null":             `[null]`,
		"array in array":            "[[" + goodDetail + "]]",
		"seventeen":                 "[" + strings.Repeat(goodDetail+",", 16) + goodDetail + "]",
		"not JSON":                  `[{"type"`,
		"trailing text":             "[" + goodDetail + "]x",
		"two values":                "[" + goodDetail + "][]",
		"empty":                     ``,
		"null":                      `null`,
		"deep":                      strings.Repeat("[", 8000) + strings.Repeat("]", 8000),
		"deep member":               with(`"orders"`, strings.Repeat("[", 5000)+strings.Repeat("]", 5000)),
		"too long":                  "[" + strings.Repeat(" ", 16<<10) + goodDetail + "]",
		"bad UTF-8":                 with("orders", "ord\xffers"),
		"lone surrogate":            with("orders", `\ud800`),
		"byte order mark":           "\ufeff[" + goodDetail + "]",
		"comment":                   "[" + goodDetail + "/**/]",
		"trailing comma":            "[" + goodDetail + ",]",
		"missing comma":             "[" + goodDetail + goodDetail + "]",
		"control character in text": with("orders", "ord\x00ers"),
	} {
		got, err := scopes.ParseDetails([]byte(in))
		if !errors.Is(err, scopes.ErrDetails) || got != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestDetailsOf(t *testing.T) {
	t.Parallel()
	got := scopes.DetailsOf(scopes.MustParseSet("b:x:r a:x/y:w a:x/y:r a:x:r"))
	want := []scopes.Detail{
		{Provider: "a", Identifier: "x", Actions: []string{"r"}},
		{Provider: "a", Identifier: "x/y", Actions: []string{"r", "w"}},
		{Provider: "b", Identifier: "x", Actions: []string{"r"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if scopes.DetailsOf(scopes.Set{}) != nil {
		t.Error("the empty set has details")
	}
	if _, err := (scopes.Detail{Provider: "a:b", Identifier: "c", Actions: []string{"r"}}).Set(); !errors.Is(err, scopes.ErrDetails) {
		t.Errorf("a colon in the provider: %v", err)
	}
}
