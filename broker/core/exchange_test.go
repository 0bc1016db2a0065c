package core_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress/content"
)

// full returns an exchange with every member set.
func full() broker.Exchange {
	var x broker.Exchange
	v := reflect.ValueOf(&x).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("a")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Pointer:
			x.Content = &content.Facts{Kind: "a", Operations: []content.Operation{{Action: "a", Details: map[string]string{"b": "x", "a": "é"}, Object: "a"}}}
		default:
			f.SetInt(1)
		}
	}
	return x
}

// An exchange is written in canonical form, so that the audit log need not convert it.
func TestExchangeIsCanonical(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	e, err := audit.Draft(audit.Entry{At: time.Now(), Kind: audit.EgressAllowed, Actor: "ebb", Data: raw})
	if err != nil || string(e.Data) != string(raw) {
		t.Errorf("%s is kept as %s, %v", raw, e.Data, err)
	}
}

// BenchmarkExchange measures one of a request's two entries before the database.
func BenchmarkExchange(b *testing.B) {
	x := broker.Exchange{Tool: "curl", Host: "api.example.com:443", Method: "GET", Path: "/v1/charges/ch_0123456789", Status: 200, Received: 1024, Millis: 12}
	chain, err := audit.NewChain("ebb-0123456789")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		raw, err := json.Marshal(x)
		if err != nil {
			b.Fatal(err)
		}
		e, err := audit.Draft(audit.Entry{At: time.Now(), Kind: audit.EgressCompleted, Actor: "sbx_019adc8f6f7a7c1d8f2f4b5c6d7e8f90", TaskID: "tsk_019adc8f6f7a7c1d8f2f4b5c6d7e8f90", LeaseID: "lse_019adc8f6f7a7c1d8f2f4b5c6d7e8f91", Data: raw})
		if err == nil {
			err = chain.Link(&e)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
