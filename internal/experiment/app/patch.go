package app

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// PatchInstance changes an instance by a JSON merge patch (RFC 7396): present
// fields replace, null fields remove. The result is validated like a file.
func PatchInstance(i Instance, name string, patch []byte) (Instance, error) {
	// Parse strictly first: a decoder of JSON ignores some mistakes, such as a
	// duplicate field.
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
	changed, err := DecodeInstance(name, merged)
	if mistakes, wrong := errors.AsType[strict.Problems](err); wrong {
		return Instance{}, placed(mistakes, doc)
	}
	return changed, err
}

// placed maps the positions of mistakes from the merged document to the patch: the
// user has only the patch. Their messages begin with the path.
func placed(mistakes strict.Problems, patch *strict.Document) strict.Problems {
	for i, p := range mistakes {
		path, _, _ := strings.Cut(p.Message, ": ")
		at := patch.At(path)
		mistakes[i].Line, mistakes[i].Column = at.Line, at.Column
	}
	slices.SortStableFunc(mistakes, func(a, b strict.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return mistakes
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
