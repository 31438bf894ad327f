package platform

import (
	"encoding/json"
	"fmt"
)

// Reverse is the merge patch (RFC 7396) that takes back what patch does to a
// document: what was absent becomes so again.
func Reverse(patch, document []byte) ([]byte, error) {
	var changed, before map[string]any
	if err := json.Unmarshal(patch, &changed); err != nil {
		return nil, fmt.Errorf("read the change: %w", err)
	}
	if err := json.Unmarshal(document, &before); err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	return json.Marshal(undoing(changed, before))
}

// undoing goes into what is an object before and in the patch; a field that was absent becomes null.
func undoing(changed, before map[string]any) map[string]any {
	undo := map[string]any{}
	for field, value := range changed {
		was := before[field]
		inner, in := value.(map[string]any)
		old, object := was.(map[string]any)
		if in && object {
			was = undoing(inner, old)
		}
		undo[field] = was
	}
	return undo
}
