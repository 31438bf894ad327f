package service

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

//go:embed openapi.json
var openAPI []byte

// openAPIDocument returns the OpenAPI 3.1 description of the admin interface, with the
// name, the protocol and the memory limit of this service.
func openAPIDocument(i app.Instance, maxMemory app.Size) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		return nil, fmt.Errorf("describe the interface: %w", err)
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	config := schemas["Configuration"].(map[string]any)["properties"].(map[string]any)
	patch := schemas["Patch"].(map[string]any)["properties"].(map[string]any)
	name := map[string]any{"type": "string", "enum": []string{i.Name}, "description": "Name of the service. It cannot be changed."}
	config["name"], patch["name"] = name, name
	protocol := map[string]any{"type": "string", "enum": []string{i.Protocol}, "description": "Protocol that is spoken. It cannot be changed."}
	config["protocol"], patch["protocol"] = protocol, protocol
	if i.Protocol == "" { // remove may be applied to an absent field
		patch["protocol"] = map[string]any{"enum": []any{"", nil}, "description": protocol["description"]}
	} else {
		schemas["Configuration"].(map[string]any)["required"] = []string{"name", "protocol"}
	}
	memory := config["memory"].(map[string]any)["anyOf"].([]any)[0].(map[string]any)
	memory["maximum"] = int64(maxMemory)
	patch["memory"] = map[string]any{"anyOf": []any{config["memory"], map[string]any{"type": "null"}}}
	return json.MarshalIndent(doc, "", " ")
}
