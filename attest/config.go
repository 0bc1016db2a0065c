package attest

import (
	"encoding/json"
	"fmt"

	"ebb/attest/options"
)

// Decode reads the part of the configuration file that belongs to one instance of a
// kind into C, as package options does.
func Decode[C any](kind string, config json.RawMessage) (C, error) {
	var c C
	if err := options.Decode(config, &c); err != nil {
		var none C
		return none, fmt.Errorf("attest/%s: configuration: %w", kind, err)
	}
	return c, nil
}
