package load

import (
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// MaxJSONPaths is the max number of JSON fields of a profile.
const MaxJSONPaths = 64

// JsonPath names a field from the top of a JSON document: the keys of the objects
// that lead to it. It does not lead through arrays.
type JsonPath []string

// ParseJSONPath reads keys with dots between them; \. is a dot within a key, and \\
// a backslash.
func ParseJSONPath(text string) (JsonPath, error) {
	var path JsonPath
	var key strings.Builder
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
			key.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == '.':
			path = append(path, key.String())
			key.Reset()
		default:
			key.WriteRune(r)
		}
	}
	path = append(path, key.String())
	if escaped || slices.Contains(path, "") {
		return nil, hint.New("write errors, or data.errors for a nested field", "JSON field %q is not of the form name or outer.inner", text)
	}
	return path, nil
}
