package attest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// Decode reads the part of the configuration file that belongs to one instance of a
// kind into C, a struct with json tags. An unknown or repeated member is an error: a
// misspelt restriction must not be ignored. A time.Duration is a text such as 30s or
// 1h, and positive: 0 would silently be the default. A *time.Duration, which tells 0
// from nothing, may be 0.
func Decode[C any](kind string, config json.RawMessage) (C, error) {
	var c C
	err := jsonv2.Unmarshal(config, &c, jsonv2.RejectUnknownMembers(true), jsonv2.WithUnmarshalers(durations))
	if err == nil {
		return c, nil
	}
	var none C
	at, semantic := errors.AsType[*jsonv2.SemanticError](err)
	if semantic && errors.Is(err, errDuration) {
		err = fmt.Errorf("%s: %w", strings.TrimPrefix(string(at.JSONPointer), "/"), errDuration)
	}
	return none, fmt.Errorf("attest/%s: configuration: %w", kind, err)
}

var errDuration = errors.New("this is not a length of time; write it like 30s or 1h, and leave it out for the default")

var durations = jsonv2.JoinUnmarshalers(
	jsonv2.UnmarshalFunc(func(b []byte, d *time.Duration) error { return readDuration(b, d, 1) }),
	jsonv2.UnmarshalFunc(func(b []byte, d **time.Duration) error { *d = new(time.Duration); return readDuration(b, *d, 0) }),
)

func readDuration(b []byte, d *time.Duration, least time.Duration) error {
	var text string
	if jsonv2.Unmarshal(b, &text) != nil {
		return errDuration
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < least {
		return errDuration
	}
	*d = v
	return nil
}
