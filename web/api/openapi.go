package api

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var openapiDocument []byte

func asJSON(doc []byte) ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(doc, &v); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return json.Marshal(v)
}
