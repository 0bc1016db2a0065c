package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ebb-broker/ebb/broker/secret"
)

// choice is a string with a fixed set of values.
type choice struct {
	to  *string
	are []string
}

// secretKey marks a key whose value is a secret. Messages about it never contain
// the value.
type secretKey struct{ to *secret.Secret }

// set stores text into to, a pointer into Config.
func set(to any, text string) error {
	switch p := to.(type) {
	case *string:
		if strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("it contains a control character; write it on one line")
		}
		*p = text
	case choice:
		if !slices.Contains(p.are, text) {
			return fmt.Errorf("%q is not one of %s", text, strings.Join(p.are, ", "))
		}
		*p.to = text
	case *bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not true or false", text)
		}
		*p = v
	case *int:
		v, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is not a whole number from 0 to 2147483647", text)
		}
		*p = int(v)
	case *time.Duration:
		v, err := time.ParseDuration(text)
		if err != nil || v < 0 {
			return fmt.Errorf("%q is not a duration such as 90s, 10m or 24h", text)
		}
		*p = v
	case secretKey:
		if strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("it contains a control character")
		}
		*p.to = secret.New(text)
	case *[]string:
		*p = nil
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*p = append(*p, part)
			}
		}
	default:
		return errors.New("it is a list of mappings; write it in YAML")
	}
	return nil
}
