package mcp

import (
	"encoding/json"
)

// Accepts reports whether a tool would act on arguments.
func Accepts(tool string, raw []byte) error {
	var err error
	switch tool {
	case "request_credential":
		_, err = arguments[requestArguments](raw)
	case "get_request":
		_, err = arguments[getArguments](raw)
	case "revoke_credential":
		_, err = arguments[revokeArguments](raw)
	default:
		_, err = arguments[none](raw)
	}
	return err
}

// Inputs are the schemas of the arguments.
func Inputs() map[string]json.RawMessage {
	return map[string]json.RawMessage{"request_credential": requestInput, "get_request": getInput, "revoke_credential": revokeInput, "list_credentials": emptyInput}
}
