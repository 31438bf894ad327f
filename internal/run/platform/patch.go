package platform

import (
	"encoding/json"
	"fmt"
)

// Reverse is the merge patch (RFC 7396) that reverts the effect of patch on a document. Fields
// that were absent are removed.
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

// undoing handles fields that are objects before and in the patch. A field that was absent becomes
// null.
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
