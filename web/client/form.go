package client

import (
	"net/url"
	"reflect"
	"strconv"
	"time"
)

// formOf encodes a form type of package wire by its tags. Empty parameters are left out: they are the same as absent
// ones (RFC 6749 section 3.2).
func formOf(form any) url.Values {
	values := url.Values{}
	addForm(values, reflect.ValueOf(form))
	return values
}

func addForm(values url.Values, v reflect.Value) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("form")
		switch field := v.Field(i); field.Kind() {
		case reflect.Struct:
			addForm(values, field)
		case reflect.Slice:
			for j := range field.Len() {
				values.Add(name, field.Index(j).String())
			}
		default:
			set(values, name, field.String())
		}
	}
}

// expiry formats a requested lifetime in whole seconds, at least 1; "" for 0.
func expiry(ttl time.Duration) string {
	if ttl <= 0 {
		return ""
	}
	return strconv.FormatInt(int64(max(ttl/time.Second, 1)), 10)
}

// scopeText reports whether s contains only characters that a scope may have
// (RFC 6749 section 3.3). Scopes are written to terminals and requests.
func scopeText(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
