// Package kustomize applies patches with kustomize's library.
package kustomize

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// Patch applies a patch to the objects of a YAML stream: a strategic merge patch, or a JSON patch. Without kind and name the
// patch names its object. A patch that changes nothing is an error.
func Patch(objects []byte, kind, name, patch string) ([]byte, error) {
	type target struct {
		Kind string `yaml:"kind,omitempty"`
		Name string `yaml:"name,omitempty"`
	}
	type change struct {
		Target *target `yaml:"target,omitempty"`
		Patch  string  `yaml:"patch"`
	}
	c := change{}
	if kind != "" || name != "" {
		c.Target = &target{kind, name}
	}
	var content any
	if err := yaml.Unmarshal([]byte(patch), &content); err != nil {
		return nil, err
	}
	if fields, ok := content.(map[string]any); ok && c.Target != nil { // kustomize requires them, and does not use them
		for field, value := range map[string]any{"kind": cmp.Or(kind, "any"), "metadata": map[string]any{"name": "any"}} {
			if fields[field] == nil {
				fields[field] = value
			}
		}
	}
	text, err := json.Marshal(content) // kustomize knows a JSON patch by its first line
	if err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	c.Patch = string(text)
	before, err := rendered(objects, map[string]any{"resources": []string{"objects.yaml"}})
	if err != nil {
		return nil, err
	}
	after, err := rendered(objects, map[string]any{"resources": []string{"objects.yaml"}, "patches": []change{c}})
	if err == nil && bytes.Equal(before, after) {
		err = hint.New("target selects objects by kind and name; without it the patch needs apiVersion, kind and metadata.name", "it changes no object")
	}
	return after, err
}

// rendered is a kustomization of one file of objects, in memory.
func rendered(objects []byte, kustomization map[string]any) ([]byte, error) {
	text, err := yaml.Marshal(kustomization)
	if err != nil {
		return nil, err
	}
	files := filesys.MakeFsInMemory()
	if err := errors.Join(files.WriteFile("/objects.yaml", objects), files.WriteFile("/kustomization.yaml", text)); err != nil {
		return nil, err
	}
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/")
	if err != nil {
		return nil, err
	}
	return found.AsYaml()
}
