package app

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tare-mesh/tare/internal/strict"
)

// PatchInstance changes an instance by a JSON merge patch (RFC 7396): fields
// that are given replace those there are, fields that are null are taken away.
// The outcome is held to the same rules as a file.
func PatchInstance(i Instance, name string, patch []byte) (Instance, error) {
	// Read strictly first: what a decoder of JSON would pass over in silence,
	// such as a field given twice, is a mistake here as well.
	doc, err := strict.Parse(name, patch)
	if err != nil {
		return Instance{}, err
	}
	if err := doc.Err(); err != nil {
		return Instance{}, err
	}
	now, err := json.Marshal(i)
	if err != nil {
		return Instance{}, fmt.Errorf("patch service %s: %w", i.Name, err)
	}
	target, err := decodeJSON(now)
	if err != nil {
		return Instance{}, fmt.Errorf("patch service %s: %w", i.Name, err)
	}
	change, err := decodeJSON(patch)
	if err != nil {
		return Instance{}, strict.Problems{{File: name, Line: 1, Column: 1, Message: "cannot be read as JSON: " + err.Error()}}
	}
	merged, err := json.Marshal(merge(target, change))
	if err != nil {
		return Instance{}, fmt.Errorf("patch service %s: %w", i.Name, err)
	}
	return DecodeInstance(name, merged)
}

// decodeJSON keeps numbers as they are written.
func decodeJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// merge is MergePatch of RFC 7396, section 2.
func merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(t, name)
		} else {
			t[name] = merge(t[name], value)
		}
	}
	return t
}
