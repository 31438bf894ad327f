package manifest

import (
	"slices"
	"strings"
)

// Overlay lays chart values over others, mapping by mapping, as Helm does. It changes under alone.
func Overlay(under, over map[string]any) {
	for key, value := range over {
		deep, is := value.(map[string]any)
		below, was := under[key].(map[string]any)
		if is && was {
			Overlay(below, deep)
			continue
		}
		if is { // a copy: merging must not change the caller's map
			below = map[string]any{}
			Overlay(below, deep)
			value = below
		}
		under[key] = value
	}
}

// Nested returns mappings with a value at a path with dots between the keys, such as global.proxy.image.
func Nested(path string, value any) map[string]any {
	keys := strings.Split(path, ".")
	all := map[string]any{keys[len(keys)-1]: value}
	for _, key := range slices.Backward(keys[:len(keys)-1]) {
		all = map[string]any{key: all}
	}
	return all
}
