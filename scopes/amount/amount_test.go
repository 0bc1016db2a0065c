package amount_test

import (
	"encoding/json"
	"testing"

	"github.com/ebb-broker/ebb/scopes/amount"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"EUR 50": "EUR 50", "EUR 12.50": "EUR 12.5", "mails 3": "mails 3", "EUR 0.0001": "EUR 0.0001", "EUR 0": "EUR 0",
		"EUR 99999999999999.9999": "EUR 99999999999999.9999", "test_mails-2 1": "test_mails-2 1",
	} {
		a, err := amount.Parse(text)
		if err != nil || a.String() != want {
			t.Errorf("%q: %v, %v", text, a, err)
		}
	}
	for _, text := range []string{
		"", "50", "EUR", "EUR ", "EUR  50", " EUR 50", "EUR 50 ", "eur50", "Eur 50", "EUR -1", "EUR +1", "EUR 1e3", "EUR 0x10", "EUR 1.", "EUR .5", "EUR 1.00001",
		"EUR 01", "EUR 1,000", "EUR 100000000000000", "EUR NaN", "EUR Inf", "EUR ١", "€ 5", "EURO 5", "EUR 1\n", "abcdefghijklmnopq 1", "EUR 1_0",
	} {
		if a, err := amount.Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, a)
		}
	}
}

func TestScaled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		number   string
		decimals int
		want     string
	}{
		{"1250", 2, "EUR 12.5"}, {"1", 4, "EUR 0.0001"}, {"0", 4, "EUR 0"}, {"12.50", 0, "EUR 12.5"}, {"5", 0, "EUR 5"}, {"99999999999999", 0, "EUR 99999999999999"},
		{"12.5", 3, "EUR 0.0125"}, {"12.5", 4, ""}, {"1", 5, ""}, {"-1", 2, ""}, {"1e2", 2, ""}, {"", 0, ""}, {"100000000000000", 2, ""},
	} {
		a, err := amount.Scaled("EUR", tt.number, tt.decimals)
		if (err == nil) != (tt.want != "") || err == nil && a.String() != tt.want {
			t.Errorf("%q with %d decimals: %v, %v", tt.number, tt.decimals, a, err)
		}
	}
	if _, err := (amount.Amount{Unit: "EUR", Value: amount.Max}).Plus(amount.Amount{Unit: "EUR", Value: 1}); err == nil {
		t.Error("a sum overflows")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	read := func(text string) amount.Limits {
		l, err := amount.ParseLimits(text)
		if err != nil || l.String() != text {
			t.Fatalf("%q: %v, %v", text, l, err)
		}
		return l
	}
	for _, tt := range []struct{ a, b, and, or string }{
		{"", "", "", ""}, {"", "EUR 5", "EUR 5", ""}, {"nothing", "EUR 5", "nothing", "EUR 5"}, {"", "nothing", "nothing", ""},
		{"EUR 5", "EUR 6", "EUR 5", "EUR 6"}, {"EUR 5, USD 9", "USD 7, mails 2", "USD 7", "EUR 5, USD 9, mails 2"}, {"EUR 5", "USD 5", "nothing", "EUR 5, USD 5"},
	} {
		a, b := read(tt.a), read(tt.b)
		if and, or := a.And(b), a.Or(b); and.String() != tt.and || or.String() != tt.or || b.And(a).String() != tt.and || b.Or(a).String() != tt.or {
			t.Errorf("%q with %q: and %q, or %q", tt.a, tt.b, and, or)
		}
	}
	for _, text := range []string{"EUR 5,", ",", "EUR 5, EUR 6", "nothing, EUR 5", "EUR 5; USD 6"} {
		if l, err := amount.ParseLimits(text); err == nil {
			t.Errorf("%q is read as %v", text, l)
		}
	}
}

// TestLimitsInJSON: limits that allow nothing must not become none on their way through JSON.
func TestLimitsInJSON(t *testing.T) {
	t.Parallel()
	type holder struct {
		Max amount.Limits `json:"max,omitzero"`
	}
	for limits, want := range map[string]string{"": `{}`, "nothing": `{"max":[]}`, "EUR 5, USD 6.5": `{"max":["EUR 5","USD 6.5"]}`} {
		l, err := amount.ParseLimits(limits)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(holder{l})
		var back holder
		if err != nil || string(text) != want || json.Unmarshal(text, &back) != nil || back.Max.String() != limits || (back.Max == nil) != (l == nil) {
			t.Errorf("%q: %s, %v, %v", limits, text, back.Max, err)
		}
	}
	for _, text := range []string{`{"max":null}`, `{"max":["EUR"]}`, `{"max":"EUR 5"}`, `{"max":[null]}`} {
		var l holder
		if err := json.Unmarshal([]byte(text), &l); err == nil && l.Max.String() != "" {
			t.Errorf("%s is read as %q", text, l.Max)
		}
	}
}
