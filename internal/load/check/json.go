package check

import (
	"bytes"
	"encoding/json"

	"github.com/tare-mesh/tare/internal/load"
)

// hasField reports whether a JSON document has a field with any value but null, an empty list and an empty object, which many
// programs write where they have no value.
func hasField(document []byte, path load.JsonPath) bool {
	value := json.RawMessage(document)
	for _, key := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return false
		}
		value = object[key]
	}
	if len(value) == 0 || value[0] == 'n' {
		return false
	}
	return value[0] != '[' && value[0] != '{' || len(bytes.TrimSpace(value[1:len(value)-1])) > 0
}
